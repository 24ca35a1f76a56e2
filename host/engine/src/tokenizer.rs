//! Text to tokens and back, for one model.
//!
//! The tokenizer itself is the Hugging Face library's. What is added here is a wall between a person's text and the
//! model's control tokens (`sealed`), the chat template (`template`) and what it is given (`chat`), the bytes of each token
//! (`bytes`), the question whether two models share their tokens (`compare`), and what to do where they do not (`lexicon`).
//! A GGUF file's tokenizer is first put in the library's terms (`gguf`).

mod bytes;
mod chat;
mod compare;
mod gguf;
mod info;
mod lexicon;
mod sealed;
mod settings;
mod template;

use std::sync::Arc;

use journey::Vocabulary;
use serde::Deserialize;

pub use chat::Chat;
pub use compare::{Fingerprint, Mismatch, compare_tokenizers};
pub use info::TokenizerInfo;
pub use lexicon::Lexicon;

use crate::gguf::Header;
use crate::{EngineError, ModelFiles};
use sealed::Sealed;
use settings::Settings;
use template::ChatTemplate;

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
    sealed: Sealed,
    template: Option<ChatTemplate>,
    vocabulary: Arc<Vocabulary>,
    bos: Option<u32>,
    eos: Option<u32>,
    /// Whether every sequence begins with BOS.
    adds_bos: bool,
    info: TokenizerInfo,
    call_form: CallForm,
}

/// How a model writes its calls of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallForm {
    /// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number of them: Hermes, Qwen.
    Tagged,
    /// `{"name": ..., "parameters": {...}}` as the whole answer: Llama 3.
    Object,
    /// `[{"name": ..., "arguments": {...}}, ...]` after the special token `[TOOL_CALLS]`, whose id this is: Mistral.
    List(u32),
    /// None that is known.
    #[default]
    Unknown,
}

impl Tokenizer {
    /// Reads `tokenizer.json`, `tokenizer_config.json` and `chat_template.jinja`, of which the last two may be missing;
    /// or the metadata of a GGUF file, and `chat_template.jinja` beside it.
    ///
    /// # Errors
    /// [`EngineError::MissingFile`], [`EngineError::Read`], [`EngineError::Json`], [`EngineError::Tokenizer`];
    /// [`EngineError::Damaged`] or [`EngineError::Config`] for a GGUF file; [`EngineError::Template`] if the template
    /// cannot be parsed.
    pub fn load(files: &ModelFiles) -> Result<Self, EngineError> {
        if let Some(mut blob) = files.gguf()? {
            let metadata = Header::read(&mut blob)?.metadata;
            let (json, mut settings) = gguf::described(&metadata)?;
            settings.prefer_template_of(files)?;
            return Self::new(metadata.file(), &json, &settings);
        }
        let content = files.require(TOKENIZER, "config.json, model.safetensors and tokenizer.json")?;
        let json: serde_json::Value = serde_json::from_slice(&content)
            .map_err(|source| EngineError::Json { file: TOKENIZER.to_owned(), source })?;
        Self::new(TOKENIZER, &json, &Settings::read(files)?)
    }

    /// From the content of `tokenizer.json`, whatever file it is made from.
    fn new(file: &str, json: &serde_json::Value, settings: &Settings) -> Result<Self, EngineError> {
        let refused = |problem: String| EngineError::Tokenizer { file: file.to_owned(), problem };
        let original =
            tokenizers::Tokenizer::deserialize(json).map_err(|error| refused(error.to_string()))?;
        let vocabulary = Arc::new(bytes::vocabulary(&original, json).map_err(refused)?);
        let id = |token: &Option<String>| token.as_deref().and_then(|token| original.token_to_id(token));
        let (bos, eos) = (id(&settings.bos), id(&settings.eos));
        let adds_bos = match settings.adds_bos {
            Some(adds) => adds,
            // Newer tokenizers say it in their post-processor only.
            None => bos.is_some() && first_of_empty(&original).map_err(refused)? == bos,
        };
        let template = settings.template.as_ref().map(|source| ChatTemplate::new(source, settings));
        let template = template.transpose()?;
        let sealed = Sealed::new(&original, json).map_err(refused)?;
        let info = TokenizerInfo::new(settings, adds_bos);
        let source = settings.template.as_deref().unwrap_or_default();
        let call_form = match original.token_to_id(TOOL_CALLS).filter(|_| source.contains(TOOL_CALLS)) {
            Some(id) => CallForm::List(id),
            None if source.contains("<tool_call>") => CallForm::Tagged,
            None if source.contains("\"parameters\": ") || source.contains("<|python_tag|>") => {
                CallForm::Object
            }
            None => CallForm::Unknown,
        };
        Ok(Self { sealed, template, vocabulary, bos, eos, adds_bos, info, call_form })
    }

    /// Tokens of a text to be completed. What looks like a special token in it is plain text. Begins with BOS if and
    /// only if the model's tokenizer asks for it.
    ///
    /// The noncharacters U+FDD0 and U+FDD1, which Unicode keeps for programs' own use, count as U+FFFD.
    ///
    /// # Errors
    /// [`EngineError::Encode`] if the tokenizer cannot represent the text without special tokens.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let tokens = self.sealed.encode(&sealed::sanitised(text))?;
        Ok(self.with_bos(tokens))
    }

    /// Tokens of a text in which special tokens are meant where their texts stand, without BOS at its beginning.
    ///
    /// # Errors
    /// [`EngineError::Encode`].
    pub fn encode_marked_up(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        self.sealed.encode(&self.sealed.seal(&sealed::sanitised(text)))
    }

    /// Tokens of a text in the middle of others: what looks like a special token in it is plain text, and BOS is not before
    /// it.
    ///
    /// # Errors
    /// [`EngineError::Encode`].
    pub fn encode_within(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        self.sealed.encode(&sealed::sanitised(text))
    }

    /// Tokens of a chat after which the assistant speaks: the template with its generation prompt. Only the
    /// template's own text can make special tokens. If the model wants BOS, there is exactly one, whether the
    /// template writes it or not.
    ///
    /// # Errors
    /// [`EngineError::NoTemplate`], [`EngineError::Template`] with the template's words, [`EngineError::Encode`].
    pub fn encode_chat(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, EngineError> {
        self.encode_conversation(&Chat::of(messages))
    }

    /// The same of a chat with all that there is to it.
    ///
    /// # Errors
    /// As [`Self::encode_chat`].
    pub fn encode_conversation(&self, chat: &Chat) -> Result<Vec<u32>, EngineError> {
        let template = self.template.as_ref().ok_or(EngineError::NoTemplate)?;
        let fit = chat.fit(template.abilities(), &|text| self.sealed.marked(text));
        let text = self.sealed.seal(&template.render(&fit, true)?);
        Ok(self.with_bos(self.sealed.encode(&text)?))
    }

    /// Whether the chat template shows tools to the model.
    #[must_use]
    pub fn shows_tools(&self) -> bool {
        self.template.as_ref().is_some_and(|template| template.abilities().tools)
    }

    /// In which form the model calls tools, as its chat template says.
    #[must_use]
    pub fn call_form(&self) -> CallForm {
        self.call_form
    }

    /// Whether another model has the same chat template, or none as this one.
    #[must_use]
    pub fn has_template_of(&self, other: &Self) -> bool {
        let source = |of: &Self| of.template.as_ref().and_then(ChatTemplate::source);
        source(self) == source(other)
    }

    /// What whoever runs the model should know of its chat template.
    #[must_use]
    pub fn template_notes(&self) -> Vec<&'static str> {
        match &self.template {
            None => vec!["there is no chat template; /v1/chat/completions is refused"],
            Some(template) => template.abilities().notes(),
        }
    }

    /// The text of some tokens: their bytes as UTF-8, with U+FFFD for what is none. Special tokens show nothing.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| self.vocabulary.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// As [`Self::decode`], with the texts of special tokens.
    #[must_use]
    pub fn decode_marked_up(&self, tokens: &[u32]) -> String {
        let specials = self.sealed.texts();
        let bytes = |token: &u32| match specials.get(token) {
            Some(text) => text.as_bytes(),
            None => self.vocabulary.bytes(*token),
        };
        let bytes: Vec<u8> = tokens.iter().flat_map(bytes).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The special tokens by their roles, and the chat template.
    #[must_use]
    pub fn info(&self) -> &TokenizerInfo {
        &self.info
    }

    /// The bytes of each token; special tokens have none.
    #[must_use]
    pub fn vocabulary(&self) -> Arc<Vocabulary> {
        Arc::clone(&self.vocabulary)
    }

    /// A digest of what the tokens mean: equal when [`compare_tokenizers`] finds no mismatch.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        compare::fingerprint(self)
    }

    /// With BOS before it, if the model wants one and it is not there.
    #[must_use]
    pub fn with_bos(&self, mut tokens: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos.filter(|bos| self.adds_bos && tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        tokens
    }
}

/// For text in the middle of other text: no BOS. What the tokenizer cannot represent gives no tokens.
impl journey::Encode for Tokenizer {
    fn encode(&self, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return Vec::new();
        }
        self.sealed.encode(&sealed::sanitised(text)).unwrap_or_default()
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} tokens)", self.vocabulary.len())
    }
}

fn first_of_empty(tokenizer: &tokenizers::Tokenizer) -> Result<Option<u32>, String> {
    let encoding = tokenizer.encode_fast("", true).map_err(|error| error.to_string())?;
    Ok(encoding.get_ids().first().copied())
}

/// Opens calls in the form of Mistral.
const TOOL_CALLS: &str = "[TOOL_CALLS]";
const TOKENIZER: &str = "tokenizer.json";
