//! The prompts of a completion: texts, or lists of token ids.

use serde_json::Value;

use super::Prompt;
use super::fields::{Fields, text, token_ids, wrong_type, wrong_value};
use crate::http::error::ApiError;

/// Takes `prompt`: one, or a list of them.
pub(super) fn take(fields: &mut Fields) -> Result<Vec<Prompt>, ApiError> {
    match fields.take(KEY) {
        None => Err(fields.missing(KEY, WANTED)),
        Some(Value::String(one)) => Ok(vec![Prompt::Text(one)]),
        Some(Value::Array(list)) => of_list(list),
        Some(other) => Err(wrong_type(KEY, WANTED, &other)),
    }
}

/// A list of ids is one prompt. Any other is one of prompts, of the kind that its first is of.
fn of_list(list: Vec<Value>) -> Result<Vec<Prompt>, ApiError> {
    let each = |of: fn(Value, &str) -> Result<Prompt, ApiError>| {
        move |(ix, value)| of(value, &format!("{KEY}[{ix}]"))
    };
    match list.first() {
        None => Err(wrong_value(KEY, WANTED, &Value::Array(list))),
        Some(Value::String(_)) => {
            let of = |value, path: &str| text(value, path).map(Prompt::Text);
            list.into_iter().enumerate().map(each(of)).collect()
        }
        Some(Value::Array(_)) => list.into_iter().enumerate().map(each(ids)).collect(),
        Some(_) => Ok(vec![ids(Value::Array(list), KEY)?]),
    }
}

fn ids(value: Value, path: &str) -> Result<Prompt, ApiError> {
    const WANTED: &str = "a list of at least one token id";
    match value {
        Value::Array(list) if list.is_empty() => Err(wrong_value(path, WANTED, &Value::Array(list))),
        Value::Array(list) => token_ids(&list, path).map(Prompt::Tokens),
        other => Err(wrong_type(path, WANTED, &other)),
    }
}

const KEY: &str = "prompt";
const WANTED: &str = "a string, a list of token ids, or a list of either";
