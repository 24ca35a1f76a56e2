//! What `tokenizer_config.json` says, as far as it is used here, and the chat template's file.

use serde::Deserialize;

use crate::{EngineError, ModelFiles};

/// Names of special tokens and the chat template.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Text of the token that begins a sequence.
    pub(super) bos: Option<String>,
    /// Text of the token that ends one.
    pub(super) eos: Option<String>,
    /// Padding and unknown tokens; only templates see them.
    pub(super) pad: Option<String>,
    /// See `pad`.
    pub(super) unk: Option<String>,
    /// Whether sequences begin with BOS, if it is stated.
    pub(super) adds_bos: Option<bool>,
    /// Source of the chat template.
    pub(super) template: Option<String>,
}

impl Settings {
    /// Reads the settings; `chat_template.jinja` goes before a template in `tokenizer_config.json`.
    pub(super) fn read(files: &ModelFiles) -> Result<Self, EngineError> {
        let mut settings = match files.read(CONFIG)? {
            Some(content) => {
                let raw: Raw = serde_json::from_slice(&content)
                    .map_err(|source| EngineError::Json { file: CONFIG.to_owned(), source })?;
                Self::from(raw)
            }
            None => Self::default(),
        };
        settings.prefer_template_of(files)?;
        Ok(settings)
    }

    /// A template in a file of its own goes before one that was found elsewhere.
    pub(super) fn prefer_template_of(&mut self, files: &ModelFiles) -> Result<(), EngineError> {
        if let Some(content) = files.read(TEMPLATE)? {
            let source = String::from_utf8(content.into_owned()).map_err(|error| EngineError::Template {
                message: format!("{TEMPLATE} is not UTF-8: {error}"),
            })?;
            self.template = Some(source);
        }
        Ok(())
    }
}

impl From<Raw> for Settings {
    fn from(raw: Raw) -> Self {
        let text = |token: Option<Token>| token.map(Token::into_text);
        let template = match raw.chat_template {
            None => None,
            Some(Templates::One(source)) => Some(source),
            Some(Templates::Several(several)) => {
                several.into_iter().find(|named| named.name == "default").map(|named| named.template)
            }
        };
        Self {
            bos: text(raw.bos_token),
            eos: text(raw.eos_token),
            pad: text(raw.pad_token),
            unk: text(raw.unk_token),
            adds_bos: raw.add_bos_token,
            template,
        }
    }
}

#[derive(Deserialize)]
struct Raw {
    bos_token: Option<Token>,
    eos_token: Option<Token>,
    pad_token: Option<Token>,
    unk_token: Option<Token>,
    add_bos_token: Option<bool>,
    chat_template: Option<Templates>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Text(String),
    Added { content: String },
}

impl Token {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Added { content: text } => text,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Several(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

const CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";
