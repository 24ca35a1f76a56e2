//! A request's body, checked field by field.
//!
//! Parsing is strict: a field is understood, or refused by name with what would be right; nothing is ignored in
//! silence but the few fields that [`refused`] lists as harmless. `null` means absent, as in OpenAI's API. What needs
//! a model (does it exist, does the prompt fit) is decided later, in `prepare`.

mod adjust;
mod fields;
mod format;
mod generation;
mod messages;
mod prompt;
mod refused;
mod tokens;
mod tools;

use engine::Chat;
use journey::{Adjustments, Sampling};
use serde_json::Value;

use super::error::{ApiError, Fault};
pub(super) use fields::Fields;
pub(super) use format::Format;
pub(super) use tokens::{ToTokens, to_text, to_tokens};
pub(super) use tools::{Choice, Tool, Tools};

/// Which of the two endpoints speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Text,
}

impl Dialect {
    /// The id of an answer, by its number.
    pub(super) fn answer_id(self, number: u64) -> String {
        let prefix = if self == Self::Chat { "chatcmpl" } else { "cmpl" };
        format!("{prefix}-{number:016x}")
    }
}

/// A checked request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// What the client calls the model; may carry settings after `@`.
    pub(super) model: String,
    /// What is to be continued: of a chat one.
    pub(super) prompts: Vec<Prompt>,
    /// Answers to each prompt; all together at most [`CHOICES_MAX`].
    pub(super) choices: usize,
    /// How tokens are chosen.
    pub(super) sampling: Sampling,
    /// What changes logits before, but for the bias.
    pub(super) adjustments: Adjustments,
    /// What is added to the logits of tokens, whose ids are not yet checked against a vocabulary.
    pub(super) bias: Vec<(u64, f32)>,
    /// Key of all randomness, if the client gives one.
    pub(super) seed: Option<u64>,
    /// Strings that end the answer.
    pub(super) stop: Vec<String>,
    /// Tokens that end the answer, not yet checked against a vocabulary.
    pub(super) stop_tokens: Vec<u64>,
    /// Whether the models' end tokens do not end the answer.
    pub(super) ignore_eos: bool,
    /// Fewest tokens of the answer.
    pub(super) tokens_min: usize,
    /// Most tokens of the answer, and the field that says so.
    pub(super) limit: Option<(usize, &'static str)>,
    /// For whom the client asks, as it calls them.
    pub(super) user: Option<String>,
    /// What the answer must look like.
    pub(super) format: Format,
    /// What may be called.
    pub(super) tools: Tools,
    /// How the answer is shown.
    pub(super) shape: Shape,
}

/// What is to be continued.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Prompt {
    Chat(Chat),
    Text(String),
    /// Token ids, not yet checked against a vocabulary.
    Tokens(Vec<u64>),
}

/// How the answer is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// As it comes, in server-sent events.
    pub(super) stream: bool,
    /// With a last chunk that counts tokens.
    pub(super) include_usage: bool,
    /// With log-probabilities, and so many alternatives per token.
    pub(super) logprobs: Option<usize>,
    /// With the prompt before the answer.
    pub(super) echo: bool,
    /// With which model made each token.
    pub(super) route_trace: bool,
    /// With the tokens' ids.
    pub(super) token_ids: bool,
}

/// Checks a body.
///
/// # Errors
/// A fault with the field's path.
pub(super) fn parse(dialect: Dialect, body: &[u8]) -> Result<Wanted, ApiError> {
    let mut fields = object(body)?;
    let Some(model) = fields.string("model")? else {
        return Err(fields.missing("model", "the name of a model"));
    };
    let prompts = match dialect {
        Dialect::Chat => vec![Prompt::Chat(messages::take(&mut fields)?)],
        Dialect::Text => prompt::take(&mut fields)?,
    };
    let choices = generation::choices(&mut fields, prompts.len())?;
    let echo = generation::echo(&mut fields, dialect)?;
    let limit = generation::limit(&mut fields, dialect, echo)?;
    let wanted = Wanted {
        model,
        prompts,
        choices,
        sampling: generation::sampling(&mut fields)?,
        adjustments: adjust::penalties(&mut fields)?,
        bias: adjust::bias(&mut fields)?,
        seed: generation::seed(&mut fields)?,
        stop: generation::stop(&mut fields)?,
        stop_tokens: generation::stop_tokens(&mut fields)?,
        ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
        tokens_min: generation::tokens_min(&mut fields, limit)?,
        limit,
        user: fields.string("user")?,
        format: format::take(&mut fields)?,
        tools: match dialect {
            Dialect::Chat => tools::take(&mut fields)?,
            Dialect::Text => Tools::default(),
        },
        shape: Shape { echo, ..generation::shape(&mut fields, dialect)? },
    };
    refused::check(&mut fields, dialect)?;
    fields.finish()?;
    Ok(wanted)
}

/// The object that a body must be.
fn object(body: &[u8]) -> Result<Fields, ApiError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        ApiError::general(Fault::Json, format!("the body must be a JSON object; {error}"))
    })?;
    Fields::of(value, "")
}

impl Dialect {
    /// The field that holds the prompt.
    pub(super) fn prompt_field(self) -> &'static str {
        match self {
            Self::Chat => "messages",
            Self::Text => "prompt",
        }
    }
}

/// Answers to one request, over all its prompts. OpenAI takes 128 for each.
pub(super) const CHOICES_MAX: usize = 128;

#[cfg(test)]
mod tests;
