//! A checkpoint in one safetensors file, or in several with an index.
//!
//! The format is 8 bytes of header length, a JSON header that names each tensor's type, shape and range of bytes, and
//! the bytes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Deserialize;

use super::{Checkpoint, Stored};
use crate::files::Blob;
use crate::{EngineError, ModelFiles, WeightType};

/// Opens the files and reads their headers.
pub(super) fn open(files: &ModelFiles) -> Result<Checkpoint, EngineError> {
    if let Some(blob) = files.open(SINGLE)? {
        return open_one(blob);
    }
    let Some(index) = files.read(INDEX)? else {
        return Err(files.missing(SINGLE, NEEDS));
    };
    let index: Index = serde_json::from_slice(&index)
        .map_err(|source| EngineError::Json { file: INDEX.to_owned(), source })?;
    let mut shards: Vec<&String> = index.weight_map.values().collect();
    shards.sort_unstable();
    shards.dedup();
    let mut checkpoint = empty(INDEX);
    for shard in shards {
        // A name is looked up in the checkpoint's directory only.
        if shard.contains(['/', '\\']) {
            let problem = format!("names {shard:?}; a shard is a file beside the index");
            return Err(EngineError::Config {
                file: INDEX.to_owned(),
                key: "weight_map".to_owned(),
                problem,
            });
        }
        let needs = "every shard that model.safetensors.index.json names";
        add(&mut checkpoint, files.open(shard)?.ok_or_else(|| files.missing(shard, needs))?)?;
    }
    Ok(checkpoint)
}

/// Opens one file and reads its header.
pub(super) fn open_one(blob: Blob) -> Result<Checkpoint, EngineError> {
    let mut checkpoint = empty(blob.name());
    add(&mut checkpoint, blob)?;
    Ok(checkpoint)
}

fn empty(listing: &str) -> Checkpoint {
    Checkpoint { shards: Vec::new(), tensors: BTreeMap::new(), listing: listing.to_owned(), gguf: None }
}

/// Adds a file's tensors.
fn add(checkpoint: &mut Checkpoint, mut blob: Blob) -> Result<(), EngineError> {
    let damaged = |problem: String| EngineError::Damaged { file: blob.name().to_owned(), problem };
    let (file, len) = (blob.name().to_owned(), blob.len());
    if len < PREFIX {
        return Err(damaged(format!("it has {len} bytes, less than a header")));
    }
    let mut prefix = [0; PREFIX as usize];
    blob.read_at(0, &mut prefix)?;
    let header_len = u64::from_le_bytes(prefix);
    let damaged = |problem: String| EngineError::Damaged { file: file.clone(), problem };
    if header_len > len - PREFIX {
        return Err(damaged(format!("its header claims {header_len} bytes, the file has {len}")));
    }
    let mut header = vec![0; header_len as usize];
    blob.read_at(PREFIX, &mut header)?;
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&header)
        .map_err(|error| damaged(format!("its header is not valid JSON ({error})")))?;
    let data = len - PREFIX - header_len;
    for (name, entry) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let entry: HeaderEntry = serde_json::from_value(entry)
            .map_err(|error| damaged(format!("the header's entry of tensor {name} is invalid ({error})")))?;
        let (start, end) = entry.data_offsets;
        if start > end || end > data {
            let problem = format!("tensor {name} is bytes {start}..{end} of {data} that the file holds");
            return Err(damaged(problem));
        }
        let Entry::Vacant(slot) = checkpoint.tensors.entry(name) else { continue };
        slot.insert(Stored {
            shard: checkpoint.shards.len(),
            kind: weight_type(entry.dtype),
            shape: entry.shape,
            start: PREFIX + header_len + start,
            len: end - start,
        });
    }
    checkpoint.shards.push(blob);
    Ok(())
}

fn weight_type(stored: String) -> Result<WeightType, String> {
    match stored.as_str() {
        "F32" => Ok(WeightType::F32),
        "F16" => Ok(WeightType::F16),
        "BF16" => Ok(WeightType::Bf16),
        _ => Err(stored),
    }
}

#[derive(Deserialize)]
struct HeaderEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

#[derive(Deserialize)]
struct Index {
    /// Tensor to file.
    weight_map: BTreeMap<String, String>,
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const NEEDS: &str =
    "model.safetensors, or model.safetensors.index.json and its shards; or it is the path of one .gguf file";

/// Bytes of the header's length.
const PREFIX: u64 = 8;
