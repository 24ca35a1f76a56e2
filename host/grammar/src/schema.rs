//! JSON schemas as parts of grammars.
//!
//! How JSON may be laid out is ours to say, not a schema's: between two tokens of JSON a space or a new line with some
//! indentation, and no more. A small model that likes blanks would otherwise write nothing else.

use serde_json::{Map, Value, json};

use crate::GrammarError;

/// A grammar of JSON that satisfies a schema, and nothing around it.
///
/// # Errors
/// [`GrammarError::NotAnObject`].
pub fn json(schema: &Value) -> Result<String, GrammarError> {
    Ok(format!("start: {}\n", json_text(schema)?))
}

/// The same as a part of a rule.
///
/// # Errors
/// [`GrammarError::NotAnObject`].
pub fn json_text(schema: &Value) -> Result<String, GrammarError> {
    let Value::Object(schema) = schema else { return Err(GrammarError::NotAnObject) };
    let mut laid_out: Map<String, Value> = schema.clone();
    // In the place of whatever the request has there: it is not a schema's keyword.
    laid_out.insert(LAYOUT.to_owned(), json!({"whitespace_pattern": BLANK}));
    Ok(format!("%json {}", Value::Object(laid_out)))
}

/// Where llguidance looks for how JSON is laid out.
const LAYOUT: &str = "x-guidance";
/// Between two tokens of JSON.
const BLANK: &str = r"(\x20|\n{1,2}[\x20\t]{0,20})";
