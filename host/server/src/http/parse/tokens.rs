//! The bodies that ask for tokens of a text, and for the text of tokens.

use super::fields::{token_ids, wrong_type};
use super::{Prompt, messages};
use crate::http::error::{ApiError, Fault};

/// What is to become tokens.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct ToTokens {
    /// Whose tokens; where all have the same, it need not be said.
    pub(in crate::http) model: Option<String>,
    /// A text, or a chat.
    pub(in crate::http) prompt: Prompt,
    /// Whether BOS is put before a text if the model wants one.
    pub(in crate::http) with_bos: bool,
    /// Whether a special token is meant where its text stands.
    pub(in crate::http) parse_special: bool,
    /// Whether the text of each token is told.
    pub(in crate::http) with_texts: bool,
}

/// What is to become text.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct ToText {
    /// Whose tokens.
    pub(in crate::http) model: Option<String>,
    /// Not yet checked against a vocabulary.
    pub(in crate::http) tokens: Vec<u64>,
}

/// Checks a body of `/tokenize`.
///
/// # Errors
/// A fault with the field's path.
pub(in crate::http) fn to_tokens(body: &[u8]) -> Result<ToTokens, ApiError> {
    let mut fields = super::object(body)?;
    let model = fields.string("model")?;
    let text = fields.string("prompt")?;
    let with_texts = fields.boolean("return_token_strs")?.unwrap_or(false);
    let wanted = match text {
        Some(text) => ToTokens {
            model,
            prompt: Prompt::Text(text),
            with_bos: fields.boolean("add_special_tokens")?.unwrap_or(true),
            parse_special: fields.boolean("parse_special")?.unwrap_or(true),
            with_texts,
        },
        None if fields.has("messages") => {
            let prompt = Prompt::Chat(messages::take(&mut fields)?);
            if !fields.boolean("add_generation_prompt")?.unwrap_or(true) {
                let message = "\"add_generation_prompt\" must be true: a chat is always one to be answered";
                return Err(ApiError::field(Fault::Unsupported, "add_generation_prompt", message));
            }
            ToTokens { model, prompt, with_bos: true, parse_special: false, with_texts }
        }
        None => return Err(fields.missing("prompt", "a string; of a chat, \"messages\" takes its place")),
    };
    fields.finish()?;
    Ok(wanted)
}

/// Checks a body of `/detokenize`.
///
/// # Errors
/// A fault with the field's path.
pub(in crate::http) fn to_text(body: &[u8]) -> Result<ToText, ApiError> {
    const WANTED: &str = "a list of token ids";
    let mut fields = super::object(body)?;
    let model = fields.string("model")?;
    let tokens = match fields.take("tokens") {
        None => return Err(fields.missing("tokens", WANTED)),
        Some(serde_json::Value::Array(list)) => token_ids(&list, "tokens")?,
        Some(other) => return Err(wrong_type("tokens", WANTED, &other)),
    };
    fields.finish()?;
    Ok(ToText { model, tokens })
}
