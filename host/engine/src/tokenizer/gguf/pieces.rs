//! Sentencepiece's BPE: the neighbours whose union scores highest are joined first.
//!
//! A list of merges says the same. Every way to join two pieces to a third becomes a merge, in the order of the third's
//! score. Ways to the same piece score alike; sentencepiece takes the leftmost in the text, a list must rank them, and
//! does so as the reference implementation's conversion: the longer first part goes first. That only matters where two
//! such ways overlap in a text.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Kind, Tokens};
use crate::EngineError;
use crate::gguf::Metadata;

/// As `tokenizer.json`.
pub(super) fn described(metadata: &Metadata, tokens: &Tokens<'_>) -> Result<Value, EngineError> {
    let unknown = tokens.kinds.iter().position(|kind| *kind == Kind::Unknown);
    let unknown = tokens.named(metadata, "unknown")?.or(unknown).map(|id| &tokens.texts[id]);
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    let mut normalizers = vec![replace];
    if metadata.bool(SPACE_FIRST)?.unwrap_or(true) {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
    }
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.added(),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
        ]},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": tokens.vocabulary(metadata)?,
            "merges": merges(tokens, &scores(metadata, tokens)?),
        },
    }))
}

fn scores(metadata: &Metadata, tokens: &Tokens<'_>) -> Result<Vec<f32>, EngineError> {
    let scores = metadata.f32s(SCORES)?.ok_or_else(|| metadata.wrong(SCORES, "is missing"))?;
    if scores.len() < tokens.texts.len() {
        let problem = format!("has {} entries for {} tokens", scores.len(), tokens.texts.len());
        return Err(metadata.wrong(SCORES, problem));
    }
    Ok(scores)
}

/// Control tokens and lone bytes take no part: no text makes them.
fn merges(tokens: &Tokens<'_>, scores: &[f32]) -> Vec<Value> {
    let all = tokens.texts.iter().zip(&tokens.kinds).zip(scores);
    let pieces = all.filter(|((_, kind), _)| matches!(kind, Kind::Normal | Kind::UserDefined));
    let pieces: Vec<(&str, f32)> = pieces.map(|((text, _), score)| (text.as_str(), *score)).collect();
    let known: HashSet<&str> = pieces.iter().map(|(text, _)| *text).collect();
    let mut merges: Vec<(f32, usize, &str, &str)> = Vec::new();
    for (text, score) in pieces {
        for (length, (at, _)) in text.char_indices().enumerate().skip(1) {
            let (first, second) = text.split_at(at);
            if known.contains(first) && known.contains(second) {
                merges.push((score, length, first, second));
            }
        }
    }
    merges
        .sort_by(|(a, first_of_a, ..), (b, first_of_b, ..)| b.total_cmp(a).then(first_of_b.cmp(first_of_a)));
    merges.into_iter().map(|(_, _, first, second)| json!([first, second])).collect()
}

/// Sentencepiece's mark for a space.
const SPACE: &str = "\u{2581}";
const SCORES: &str = "tokenizer.ggml.scores";
const SPACE_FIRST: &str = "tokenizer.ggml.add_space_prefix";
