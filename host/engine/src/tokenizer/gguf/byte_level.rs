//! Byte-level BPE: bytes written as printable characters, merged in the order of a list.

use serde_json::{Value, json};

use super::Tokens;
use super::splits::{self, Scheme};
use crate::EngineError;
use crate::gguf::Metadata;

/// As `tokenizer.json`, and whether sequences begin with BOS unless the file says otherwise.
pub(super) fn described(metadata: &Metadata, tokens: &Tokens<'_>) -> Result<(Value, bool), EngineError> {
    // Files from before there were names were made for the oldest rules.
    let name = metadata.str(SCHEME)?.unwrap_or("default");
    let scheme = splits::scheme(name).ok_or_else(|| {
        let known: Vec<&str> = splits::names().collect();
        metadata.wrong(SCHEME, format!("is {name:?}; the known ones are {}", known.join(", ")))
    })?;
    let json = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.added(),
        "normalizer": if scheme.composes { json!({"type": "NFC"}) } else { Value::Null },
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizers(scheme)},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": scheme.whole_words,
            "vocab": tokens.vocabulary(metadata)?,
            "merges": merges(metadata)?,
        },
    });
    Ok((json, scheme.adds_bos))
}

/// Each split by itself, then bytes.
fn pre_tokenizers(scheme: &Scheme) -> Vec<Value> {
    let split = |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    scheme.splits.iter().map(split).chain([bytes]).collect()
}

/// Both parts of each merge; they are written with a space between, and never begin with one.
fn merges(metadata: &Metadata) -> Result<Vec<Value>, EngineError> {
    let merges = metadata.strings(MERGES)?.ok_or_else(|| metadata.wrong(MERGES, "is missing"))?;
    let parts = |merge: &String| {
        let parts = merge.split_once(' ').filter(|(first, second)| !first.is_empty() && !second.is_empty());
        parts
            .map(|(first, second)| json!([first, second]))
            .ok_or_else(|| metadata.wrong(MERGES, format!("has {merge:?}, which is not two parts")))
    };
    merges.iter().map(parts).collect()
}

const SCHEME: &str = "tokenizer.ggml.pre";
const MERGES: &str = "tokenizer.ggml.merges";
