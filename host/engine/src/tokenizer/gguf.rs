//! The tokenizer in a GGUF file's metadata, as the Hugging Face files would say it.
//!
//! A GGUF lists tokens with their kinds, and leaves the rest to the name of a known scheme: byte-level BPE with merges
//! (`gpt2`), or sentencepiece with scores (`llama`). Both become a `tokenizer.json`, so that everything behind it,
//! above all the wall between people's text and control tokens, is one code path.

mod byte_level;
mod pieces;
mod splits;

use serde_json::{Map, Value, json};

use super::settings::Settings;
use crate::EngineError;
use crate::gguf::Metadata;

/// What `tokenizer.json` and `tokenizer_config.json` would say.
pub(super) fn described(metadata: &Metadata) -> Result<(Value, Settings), EngineError> {
    let tokens = Tokens::read(metadata)?;
    let model =
        metadata.str(MODEL)?.ok_or_else(|| metadata.wrong(MODEL, "is missing; it names the tokenizer"))?;
    let (json, adds_bos) = match model {
        "gpt2" => byte_level::described(metadata, &tokens)?,
        "llama" => (pieces::described(metadata, &tokens)?, true),
        _ => {
            let problem = format!("is {model:?}; the tokenizers \"gpt2\" and \"llama\" are read");
            return Err(metadata.wrong(MODEL, problem));
        }
    };
    let text = |role: &str| tokens.named(metadata, role).map(|id| id.map(|id| tokens.texts[id].clone()));
    let settings = Settings {
        bos: text("bos")?,
        eos: text("eos")?,
        pad: text("padding")?,
        unk: text("unknown")?,
        adds_bos: Some(metadata.bool(ADDS_BOS)?.unwrap_or(adds_bos)),
        template: metadata.str(TEMPLATE)?.map(str::to_owned),
    };
    Ok((json, settings))
}

/// The tokens of a model.
struct Tokens<'a> {
    texts: &'a [String],
    kinds: Vec<Kind>,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A piece of text.
    Normal,
    /// What stands for text that no token spells.
    Unknown,
    /// A part to play; no text makes it.
    Control,
    /// Text that is always one token, found before all others.
    UserDefined,
    /// A place without a token.
    Unused,
    /// A lone byte.
    Byte,
}

impl<'a> Tokens<'a> {
    fn read(metadata: &'a Metadata) -> Result<Self, EngineError> {
        let texts = metadata.strings(TOKENS)?.ok_or_else(|| metadata.wrong(TOKENS, "is missing"))?;
        let kinds = metadata.i32s(KINDS)?;
        let mut kinds: Vec<Kind> = match &kinds {
            None => vec![Kind::Normal; texts.len()],
            Some(kinds) if kinds.len() == texts.len() => kinds.iter().map(|kind| Kind::of(*kind)).collect(),
            Some(kinds) => {
                let problem = format!("has {} entries for {} tokens", kinds.len(), texts.len());
                return Err(metadata.wrong(KINDS, problem));
            }
        };
        let mut tokens = Self { texts, kinds: Vec::new() };
        // Some files call them normal, and then people's text would make them.
        for role in ["bos", "eos", "eot", "eom"] {
            if let Some(id) = tokens.named(metadata, role)? {
                kinds[id] = Kind::Control;
            }
        }
        // Places at the end that only make the vocabulary rounder are left out, as the original tokenizer does.
        let end = kinds.iter().rposition(|kind| *kind != Kind::Unused).map_or(0, |last| last + 1);
        kinds.truncate(end);
        tokens.texts = &texts[..end];
        tokens.kinds = kinds;
        Ok(tokens)
    }

    /// The id that a key gives a part to.
    fn named(&self, metadata: &Metadata, role: &str) -> Result<Option<usize>, EngineError> {
        let key = format!("tokenizer.ggml.{role}_token_id");
        let Some(id) = metadata.u64(&key)? else { return Ok(None) };
        match usize::try_from(id).ok().filter(|id| *id < self.texts.len()) {
            Some(id) => Ok(Some(id)),
            None => Err(metadata.wrong(&key, format!("is {id}; there are {} tokens", self.texts.len()))),
        }
    }

    /// Text to id.
    fn vocabulary(&self, metadata: &Metadata) -> Result<Map<String, Value>, EngineError> {
        let mut vocabulary = Map::new();
        for (id, text) in self.texts.iter().enumerate() {
            if let Some(first) = vocabulary.insert(text.clone(), json!(id)) {
                return Err(metadata.wrong(TOKENS, format!("has {text:?} twice, as {first} and {id}")));
            }
        }
        Ok(vocabulary)
    }

    /// Tokens that are found in a text before it is taken to pieces.
    fn added(&self) -> Vec<Value> {
        let all = self.kinds.iter().zip(self.texts).enumerate();
        let added = all.filter_map(|(id, (kind, text))| {
            let special = match kind {
                Kind::Control | Kind::Unknown => true,
                Kind::UserDefined => false,
                Kind::Normal | Kind::Unused | Kind::Byte => return None,
            };
            Some(json!({
                "id": id, "content": text, "special": special,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            }))
        });
        added.collect()
    }
}

impl Kind {
    fn of(number: i32) -> Self {
        match number {
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Normal,
        }
    }
}

const MODEL: &str = "tokenizer.ggml.model";
const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";
const ADDS_BOS: &str = "tokenizer.ggml.add_bos_token";
const TEMPLATE: &str = "tokenizer.chat_template";
