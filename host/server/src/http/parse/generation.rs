//! The fields that both endpoints share: how tokens are chosen, where the answer ends, how it is shown.

use journey::Sampling;
use serde_json::Value;

use super::fields::{Fields, text, token_ids, wrong_type, wrong_value};
use super::{CHOICES_MAX, Dialect, Shape};
use crate::http::error::{ApiError, Fault};

/// `temperature`, `top_p`, and the extensions `top_k` (0 or -1: all) and `min_p`.
pub(super) fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let temperature = fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0);
    let top_p = fields.number("top_p", LEAST_TOP_P..=1.0)?.unwrap_or(1.0);
    let top_k = fields.integer("top_k", -1..=i64::from(u32::MAX))?.unwrap_or(0);
    let min_p = fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0);
    Ok(Sampling {
        min_p: min_p as f32,
        temperature: temperature as f32,
        top_p: top_p as f32,
        top_k: u32::try_from(top_k).unwrap_or(0),
    })
}

/// Any whole number of 64 bits, negative ones included.
pub(super) fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.take("seed") else { return Ok(None) };
    match value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)) {
        Some(seed) => Ok(Some(seed)),
        None => Err(wrong_type("seed", "a whole number of at most 64 bits", &value)),
    }
}

/// One string, or a list of them.
pub(super) fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let strings = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(one)) => vec![(one, "stop".to_owned())],
        Some(Value::Array(list)) if list.len() > STOPS_MAX => {
            let message = format!("\"stop\" may hold {STOPS_MAX} strings, not {}", list.len());
            return Err(ApiError::field(Fault::Value, "stop", message));
        }
        Some(Value::Array(list)) => {
            let path = |ix: usize| format!("stop[{ix}]");
            let string = |(ix, value)| text(value, &path(ix)).map(|text| (text, path(ix)));
            list.into_iter().enumerate().map(string).collect::<Result<_, _>>()?
        }
        Some(other) => return Err(wrong_type("stop", "a string or a list of strings", &other)),
    };
    let check = |(string, path): (String, String)| {
        if string.is_empty() || string.len() > STOP_BYTES_MAX {
            let message =
                format!("{path:?} must have from 1 to {STOP_BYTES_MAX} bytes, not {}", string.len());
            return Err(ApiError::field(Fault::Value, path, message));
        }
        Ok(string)
    };
    strings.into_iter().map(check).collect()
}

/// `stop_token_ids`: a list of token ids.
pub(super) fn stop_tokens(fields: &mut Fields) -> Result<Vec<u64>, ApiError> {
    const KEY: &str = "stop_token_ids";
    match fields.take(KEY) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() > STOP_TOKENS_MAX => {
            let message = format!("{KEY:?} may hold {STOP_TOKENS_MAX} token ids, not {}", list.len());
            Err(ApiError::field(Fault::Value, KEY, message))
        }
        Some(Value::Array(list)) => token_ids(&list, KEY),
        Some(other) => Err(wrong_type(KEY, "a list of token ids", &other)),
    }
}

/// `min_tokens`, at most the limit.
pub(super) fn tokens_min(
    fields: &mut Fields,
    limit: Option<(usize, &'static str)>,
) -> Result<usize, ApiError> {
    const KEY: &str = "min_tokens";
    let least = fields.integer(KEY, 0..=i64::MAX)?.unwrap_or(0);
    let least = usize::try_from(least).unwrap_or(usize::MAX);
    if let Some((most, name)) = limit.filter(|(most, _)| least > *most) {
        let message = format!("{KEY:?} must be at most {name:?}, which is {most}, not {least}");
        return Err(ApiError::field(Fault::Value, KEY, message));
    }
    Ok(least)
}

/// `n`: answers to each of so many prompts.
pub(super) fn choices(fields: &mut Fields, prompts: usize) -> Result<usize, ApiError> {
    let given = fields.integer("n", 1..=CHOICES_MAX.cast_signed() as i64)?.unwrap_or(1) as usize;
    if given * prompts <= CHOICES_MAX {
        return Ok(given);
    }
    let message = format!(
        "{prompts} prompts with \"n\" of {given} are {} answers; at most {CHOICES_MAX} are given to a request",
        prompts * given
    );
    Err(ApiError::field(Fault::Value, if prompts > CHOICES_MAX { "prompt" } else { "n" }, message))
}

/// `echo`, which a chat does not have.
pub(super) fn echo(fields: &mut Fields, dialect: Dialect) -> Result<bool, ApiError> {
    match dialect {
        Dialect::Chat => Ok(false),
        Dialect::Text => Ok(fields.boolean("echo")?.unwrap_or(false)),
    }
}

/// Most tokens of the answer: the stricter of what is given. Completions have OpenAI's default of 16. None at all may be
/// asked for where the prompt is shown instead.
pub(super) fn limit(
    fields: &mut Fields,
    dialect: Dialect,
    echo: bool,
) -> Result<Option<(usize, &'static str)>, ApiError> {
    let given: &[&'static str] = match dialect {
        Dialect::Chat => &["max_tokens", "max_completion_tokens"],
        Dialect::Text => &["max_tokens"],
    };
    let mut strictest = None;
    for &name in given {
        let Some(most) = fields.integer(name, i64::from(!echo)..=i64::MAX)? else { continue };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if strictest.is_none_or(|(other, _)| most < other) {
            strictest = Some((most, name));
        }
    }
    Ok(match dialect {
        Dialect::Chat => strictest,
        Dialect::Text => strictest.or(Some((COMPLETION_TOKENS, "max_tokens"))),
    })
}

/// Streaming, and what is told beside the text.
pub(super) fn shape(fields: &mut Fields, dialect: Dialect) -> Result<Shape, ApiError> {
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let logprobs = match dialect {
        Dialect::Chat => chat_logprobs(fields)?,
        Dialect::Text => fields.integer("logprobs", 0..=LOGPROBS_MAX)?.map(|n| n as usize),
    };
    Ok(Shape {
        stream,
        include_usage: include_usage(fields, stream)?,
        logprobs,
        echo: false,
        route_trace: fields.boolean("route_trace")?.unwrap_or(false),
        token_ids: fields.boolean("return_token_ids")?.unwrap_or(false),
    })
}

fn chat_logprobs(fields: &mut Fields) -> Result<Option<usize>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=LOGPROBS_MAX)?;
    if top.is_some_and(|top| top > 0) && !wanted {
        let message = "\"top_logprobs\" needs \"logprobs\": true";
        return Err(ApiError::field(Fault::Value, "top_logprobs", message));
    }
    Ok(wanted.then(|| top.unwrap_or(0) as usize))
}

fn include_usage(fields: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    const KEY: &str = "stream_options";
    let Some(value) = fields.take(KEY) else { return Ok(false) };
    if !stream {
        let message = "\"stream_options\" needs \"stream\": true";
        return Err(ApiError::field(Fault::Value, KEY, message));
    }
    let mut options = Fields::of(value, KEY)?;
    let include_usage = options.boolean("include_usage")?.unwrap_or(false);
    for unsupported in ["include_obfuscation", "continuous_usage_stats"] {
        if options.boolean(unsupported)?.unwrap_or(false) {
            let path = options.path(unsupported);
            return Err(wrong_value(&path, "false: it is not supported", &Value::Bool(true)));
        }
    }
    options.finish()?;
    Ok(include_usage)
}

/// Sums of probabilities begin above 0; a smaller number would keep no token.
const LEAST_TOP_P: f64 = 1e-6;
/// OpenAI takes 4; agents ask for more.
const STOPS_MAX: usize = 16;
/// Each is compared with every token.
const STOP_TOKENS_MAX: usize = 64;
/// A stop string is looked for at every token.
const STOP_BYTES_MAX: usize = 512;
/// OpenAI's default for `/v1/completions`.
const COMPLETION_TOKENS: usize = 16;
/// Alternatives per token.
const LOGPROBS_MAX: i64 = 20;
