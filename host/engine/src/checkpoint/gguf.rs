//! A checkpoint in one GGUF file.

use super::{Checkpoint, Stored};
use crate::EngineError;
use crate::files::Blob;
use crate::gguf::Header;

/// Reads the header.
pub(super) fn open(mut blob: Blob) -> Result<Checkpoint, EngineError> {
    let Header { metadata, tensors } = Header::read(&mut blob)?;
    let parts = metadata.u64(PARTS)?.unwrap_or(1);
    if parts > 1 {
        let problem = format!("is {parts}; merge the parts into one file");
        return Err(metadata.wrong(PARTS, problem));
    }
    let tensors = tensors
        .into_iter()
        .map(|tensor| {
            let stored = Stored {
                shard: 0,
                kind: tensor.kind,
                shape: tensor.shape,
                start: tensor.start,
                len: tensor.len,
            };
            (tensor.name, stored)
        })
        .collect();
    let listing = blob.name().to_owned();
    Ok(Checkpoint { shards: vec![blob], tensors, listing, gguf: Some(metadata) })
}

/// The number of files that a model was split into.
const PARTS: &str = "split.count";
