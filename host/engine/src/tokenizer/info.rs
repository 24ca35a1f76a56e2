//! What a tokenizer says of itself, for programs that ask.

use super::settings::Settings;

/// The special tokens by their roles, and the chat template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerInfo {
    /// Text of the token that begins a sequence.
    pub bos: Option<String>,
    /// Text of the token that ends one.
    pub eos: Option<String>,
    /// Text of the token that fills up a batch.
    pub pad: Option<String>,
    /// Text of the token for what no other stands for.
    pub unk: Option<String>,
    /// Whether every sequence begins with BOS.
    pub adds_bos: bool,
    /// Source of the chat template.
    pub template: Option<String>,
}

impl TokenizerInfo {
    pub(super) fn new(settings: &Settings, adds_bos: bool) -> Self {
        let Settings { bos, eos, pad, unk, template, .. } = settings;
        Self {
            bos: bos.clone(),
            eos: eos.clone(),
            pad: pad.clone(),
            unk: unk.clone(),
            adds_bos,
            template: template.clone(),
        }
    }
}
