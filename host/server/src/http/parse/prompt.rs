//! The prompt of a completion: one text, or one list of token ids.

use serde_json::Value;

use super::Prompt;
use super::fields::{Fields, text, token_ids, wrong_type, wrong_value};
use crate::http::error::{ApiError, Fault};

/// Takes `prompt`.
pub(super) fn take(fields: &mut Fields) -> Result<Prompt, ApiError> {
    match fields.take(KEY) {
        None => Err(fields.missing(KEY, WANTED)),
        Some(Value::String(one)) => Ok(Prompt::Text(one)),
        Some(Value::Array(list)) => of_list(list),
        Some(other) => Err(wrong_type(KEY, WANTED, &other)),
    }
}

fn of_list(mut list: Vec<Value>) -> Result<Prompt, ApiError> {
    let several = list.len() > 1;
    match list.first() {
        None => Err(wrong_value(KEY, WANTED, &Value::Array(list))),
        Some(Value::String(_) | Value::Array(_)) if several => {
            let message = format!("\"prompt\" holds {} prompts; one per request is supported", list.len());
            Err(ApiError::field(Fault::Unsupported, KEY, message))
        }
        Some(Value::String(_)) => text(list.remove(0), "prompt[0]").map(Prompt::Text),
        Some(Value::Array(_)) => match list.remove(0) {
            Value::Array(tokens) => ids(&tokens, "prompt[0]"),
            other => Err(wrong_type("prompt[0]", WANTED, &other)),
        },
        Some(_) => ids(&list, KEY),
    }
}

fn ids(list: &[Value], path: &str) -> Result<Prompt, ApiError> {
    if list.is_empty() {
        return Err(wrong_value(path, "a list of at least one token id", &Value::Array(Vec::new())));
    }
    token_ids(list, path).map(Prompt::Tokens)
}

const KEY: &str = "prompt";
const WANTED: &str = "a string, a list of one string, or a list of token ids";
