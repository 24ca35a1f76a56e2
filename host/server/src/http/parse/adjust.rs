//! The fields that change logits before a token is chosen: penalties and the bias.

use journey::Adjustments;
use serde_json::Value;

use super::fields::{Fields, wrong_value};
use crate::http::error::{ApiError, Fault};

/// `presence_penalty`, `frequency_penalty`, and the extension `repetition_penalty`.
pub(super) fn penalties(fields: &mut Fields) -> Result<Adjustments, ApiError> {
    let presence = fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0);
    let frequency = fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0);
    let repetition = fields.number("repetition_penalty", LEAST_REPETITION..=100.0)?.unwrap_or(1.0);
    Ok(Adjustments {
        presence: presence as f32,
        frequency: frequency as f32,
        repetition: repetition as f32,
        bias: Vec::new(),
    })
}

/// `logit_bias`: token ids, as strings, to numbers; in ascending order of ids.
pub(super) fn bias(fields: &mut Fields) -> Result<Vec<(u64, f32)>, ApiError> {
    const KEY: &str = "logit_bias";
    let Some(value) = fields.take(KEY) else { return Ok(Vec::new()) };
    let mut biased = Fields::of(value, KEY)?;
    let names = biased.names();
    if names.len() > BIASED_MAX {
        let message = format!("{KEY:?} may name {BIASED_MAX} tokens, not {}", names.len());
        return Err(ApiError::field(Fault::Value, KEY, message));
    }
    let mut bias = Vec::with_capacity(names.len());
    for name in names {
        // One spelling for each id, so that none is named twice.
        let Some(token) = name.parse::<u64>().ok().filter(|token| token.to_string() == name) else {
            return Err(wrong_value(KEY, "an object whose keys are token ids", &Value::String(name)));
        };
        let Some(by) = biased.number(&name, -100.0..=100.0)? else { continue };
        bias.push((token, by as f32));
    }
    bias.sort_unstable_by_key(|(token, _)| *token);
    Ok(bias)
}

/// Divides logits, so it cannot be 0.
const LEAST_REPETITION: f64 = 0.01;
/// OpenAI takes 300.
const BIASED_MAX: usize = 1024;
