//! What OpenAI's API and its relatives know and this server does not do.
//!
//! Such a field is refused by name, unless its value asks for nothing: many clients send defaults. A few fields only
//! help OpenAI's own bookkeeping; those are checked for their type and have no effect.

use serde_json::Value;

use super::Dialect;
use super::fields::{Fields, shown, wrong_type};
use crate::http::error::{ApiError, Fault};

/// Takes every field that is known and has no effect.
///
/// # Errors
/// [`Fault::Unsupported`] for one that should have an effect.
pub(super) fn check(fields: &mut Fields, dialect: Dialect) -> Result<(), ApiError> {
    let own = match dialect {
        Dialect::Chat => CHAT,
        Dialect::Text => TEXT,
    };
    for (key, neutral) in BOTH.iter().chain(own) {
        let Some(value) = fields.take(key) else { continue };
        if !neutral.iter().any(|neutral| same(neutral, &value)) {
            return Err(unsupported(key, neutral, &value));
        }
    }
    for key in ["safety_identifier", "prompt_cache_key"] {
        fields.string(key)?;
    }
    match fields.take("metadata") {
        None | Some(Value::Object(_)) => Ok(()),
        Some(other) => Err(wrong_type("metadata", "an object", &other)),
    }
}

/// A field and its values that ask for nothing, as JSON.
type Neutral = (&'static str, &'static [&'static str]);

const BOTH: &[Neutral] = &[("store", &["false"]), ("service_tier", &["\"auto\"", "\"default\""])];

const CHAT: &[Neutral] = &[
    ("functions", &["[]"]),
    ("function_call", &["\"none\"", "\"auto\""]),
    ("modalities", &["[\"text\"]", "[]"]),
    ("audio", &[]),
    ("prediction", &[]),
    ("web_search_options", &[]),
    ("reasoning_effort", &["\"none\""]),
    ("verbosity", &["\"medium\""]),
];

const TEXT: &[Neutral] = &[("best_of", &["1"]), ("suffix", &["\"\""])];

/// Whether a value is the one written in `json`; 0 and 0.0 are the same number.
fn same(json: &str, value: &Value) -> bool {
    let Ok(neutral) = serde_json::from_str::<Value>(json) else { return false };
    match (neutral.as_f64(), value.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => neutral == *value,
    }
}

fn unsupported(key: &str, neutral: &[&str], found: &Value) -> ApiError {
    let instead = match neutral {
        [] => "remove it".to_owned(),
        values => format!("remove it, or set it to {}", values.join(" or ")),
    };
    let message = format!("{key:?} is not supported with {}; {instead}", shown(found));
    ApiError::field(Fault::Unsupported, key, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_neutral_value_is_json() {
        let values = BOTH.iter().chain(CHAT).chain(TEXT).flat_map(|(_, values)| *values);
        for value in values {
            assert!(serde_json::from_str::<Value>(value).is_ok(), "{value}");
        }
    }
}
