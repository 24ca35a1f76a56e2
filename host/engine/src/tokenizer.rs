//! Text to tokens and back.

use std::fmt;
use std::sync::Arc;

use journey::Vocabulary;

use crate::{EngineError, ModelFiles};

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks: `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// What is said. Never parsed as special tokens.
    pub content: String,
}

/// A model's tokenizer and chat template.
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    fingerprint: Fingerprint,
}

/// A digest of what every token id means; equal for tokenizers whose tokens can be exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`; the last two may be missing.
    ///
    /// # Errors
    /// [`EngineError`] of the class *the model's files*.
    pub fn load(files: &ModelFiles) -> Result<Self, EngineError> {
        Err(files.missing("tokenizer.json", "tokenizer.json"))
    }

    /// Tokens of a text to be completed. What looks like a special token in it is plain text. Begins with BOS if and
    /// only if the model's tokenizer asks for it.
    ///
    /// # Errors
    /// [`EngineError::Encode`] if the tokenizer cannot represent the text.
    pub fn encode(&self, _text: &str) -> Result<Vec<u32>, EngineError> {
        Ok(Vec::new())
    }

    /// Tokens of a chat after which the assistant speaks: the template with its generation prompt. Only the
    /// template's own text can make special tokens; BOS is never doubled.
    ///
    /// # Errors
    /// [`EngineError::NoTemplate`], [`EngineError::Template`] with the template's words, [`EngineError::Encode`].
    pub fn encode_chat(&self, _messages: &[ChatMessage]) -> Result<Vec<u32>, EngineError> {
        Err(EngineError::NoTemplate)
    }

    /// The text of some tokens: their bytes as UTF-8, with U+FFFD for what is none. Special tokens show nothing.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| self.vocabulary.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes of each token.
    #[must_use]
    pub fn vocabulary(&self) -> Arc<Vocabulary> {
        Arc::clone(&self.vocabulary)
    }

    /// A digest of what the tokens mean: equal exactly when [`compare_tokenizers`] finds no mismatch.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// The first difference between two tokenizers, in an order fit for telling a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// An id means different things.
    #[error("token {id} is {a:?} in one model and {b:?} in the other")]
    Token {
        /// The first such id.
        id: u32,
        /// Its text in the first tokenizer.
        a: String,
        /// Its text in the second.
        b: String,
    },
    /// One knows more ids.
    #[error("one model has {a} tokens and the other {b}")]
    Size {
        /// Ids of the first.
        a: usize,
        /// Ids of the second.
        b: usize,
    },
    /// A special token plays its part under different ids.
    #[error("{name} is token {a:?} in one model and {b:?} in the other")]
    Special {
        /// `bos_token` or `eos_token`.
        name: &'static str,
        /// Its id in the first, if it has one.
        a: Option<u32>,
        /// Its id in the second, if it has one.
        b: Option<u32>,
    },
}

/// Whether tokens of one model mean the same in another, so that a journey can move between them without being
/// tokenised again.
///
/// # Errors
/// The first [`Mismatch`].
pub fn compare_tokenizers(_a: &Tokenizer, _b: &Tokenizer) -> Result<(), Mismatch> {
    Ok(())
}
