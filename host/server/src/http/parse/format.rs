//! `response_format`: whether the answer is any text, any JSON object, or JSON that satisfies a schema.

use serde_json::{Value, json};

use super::fields::{Fields, wrong_value};
use crate::http::error::ApiError;

/// What the answer must look like.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::http) enum Format {
    /// Anything.
    #[default]
    Text,
    /// JSON that satisfies this schema, and where in the body the schema stands.
    Json(Value, &'static str),
}

/// Takes `response_format`.
pub(super) fn take(fields: &mut Fields) -> Result<Format, ApiError> {
    let Some(value) = fields.take(KEY) else { return Ok(Format::Text) };
    let mut format = Fields::of(value, KEY)?;
    let Some(kind) = format.string("type")? else { return Err(format.missing("type", KINDS)) };
    let taken = match kind.as_str() {
        "text" => Format::Text,
        "json_object" => Format::Json(json!({"type": "object"}), KEY),
        "json_schema" => schema(&mut format)?,
        _ => return Err(wrong_value(&format.path("type"), KINDS, &kind.into())),
    };
    format.finish()?;
    Ok(taken)
}

fn schema(format: &mut Fields) -> Result<Format, ApiError> {
    let Some(value) = format.take("json_schema") else {
        return Err(format.missing("json_schema", "an object with \"name\" and \"schema\""));
    };
    let mut of = Fields::of(value, &format.path("json_schema"))?;
    let Some(name) = of.string("name")? else { return Err(of.missing("name", NAME)) };
    if !is_name(&name) {
        return Err(wrong_value(&of.path("name"), NAME, &name.into()));
    }
    of.string("description")?;
    // Whatever it says, the answer satisfies the schema.
    of.boolean("strict")?;
    let Some(schema) = of.take("schema") else { return Err(of.missing("schema", "a JSON schema")) };
    of.finish()?;
    Ok(Format::Json(schema, "response_format.json_schema.schema"))
}

/// What OpenAI takes as the name of a schema or a function.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}

const KEY: &str = "response_format";
const KINDS: &str = "\"text\", \"json_object\" or \"json_schema\"";
pub(super) const NAME: &str = "from 1 to 64 letters, digits, \"_\" and \"-\"";
