//! Which tokens end an answer.
//!
//! The keys name the end of a text, and often not that of a turn. The texts of such tokens are well known, and a chat
//! that misses one would not end.

use crate::EngineError;
use crate::gguf::Metadata;

/// The tokens of the keys, then those that are known by their text.
pub(super) fn tokens(metadata: &Metadata, vocabulary: usize) -> Result<Vec<u32>, EngineError> {
    let mut all = Vec::new();
    let mut add = |token: u32| {
        if !all.contains(&token) {
            all.push(token);
        }
    };
    for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"] {
        let Some(token) = metadata.u64(key)? else { continue };
        let Some(token) = u32::try_from(token).ok().filter(|&token| (token as usize) < vocabulary) else {
            let problem = format!("is {token}, which is no token id below {vocabulary}");
            return Err(metadata.wrong(key, problem));
        };
        add(token);
    }
    let texts = metadata.strings(TOKENS)?.unwrap_or_default();
    let known = (0..).zip(texts).filter(|(_, text)| ENDS.contains(&text.as_str()));
    known.for_each(|(token, _)| add(token));
    Ok(all)
}

/// The key of the tokens' texts.
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";

/// Ends of turns and texts in the families that are decoded here.
const ENDS: [&str; 7] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end|>",
];
