//! Tensors of a checkpoint: which there are, and their encoded rows.
//!
//! Both kinds of files say where each tensor's bytes are; from there on they are one. Tensors are read by ranges, one
//! at a time, so that a large checkpoint is not in memory twice and a torn one is found before anything is allocated
//! for it. What the bytes mean is for `encoding`.

mod gguf;
mod safetensors;

use std::collections::BTreeMap;

use crate::files::Blob;
use crate::gguf::Metadata;
use crate::weights::{Layout, Needed, RowOrder};
use crate::{EngineError, ModelFiles, WeightType, encoding};

/// An open checkpoint: one GGUF file, one safetensors file, or several with an index.
pub(crate) struct Checkpoint {
    shards: Vec<Blob>,
    tensors: BTreeMap<String, Stored>,
    /// The file that lists the tensors.
    listing: String,
    /// What a GGUF file says about the model.
    gguf: Option<Metadata>,
}

/// Where a tensor is.
struct Stored {
    shard: usize,
    /// How it is stored; the name of what is not read.
    kind: Result<WeightType, String>,
    shape: Vec<usize>,
    /// Offset in the file and bytes.
    start: u64,
    len: u64,
}

/// A tensor as it is stored.
pub(crate) struct Raw {
    /// How its rows are encoded.
    pub(crate) kind: WeightType,
    /// The rows, one after the other.
    pub(crate) bytes: Vec<u8>,
    /// How many there are: one for a norm or a bias.
    pub(crate) rows: usize,
    /// Weights in a row.
    pub(crate) width: usize,
}

impl Raw {
    /// The weights as f32, one row after the other.
    pub(crate) fn floats(&self) -> Vec<f32> {
        let mut weights = vec![0.0; self.rows * self.width];
        encoding::floats(self.kind, &self.bytes, &mut weights);
        weights
    }

    /// As [`Raw::floats`] for the tensor `needed`, whose weights must be finite.
    pub(crate) fn finite_floats(&self, needed: &Needed) -> Result<Vec<f32>, EngineError> {
        let weights = self.floats();
        if weights.iter().all(|weight| weight.is_finite()) { Ok(weights) } else { Err(needed.not_finite()) }
    }
}

impl Checkpoint {
    /// Opens the files and reads their headers.
    pub(crate) fn open(files: &ModelFiles) -> Result<Self, EngineError> {
        match files.gguf()? {
            Some(blob) => gguf::open(blob),
            None => safetensors::open(files),
        }
    }

    /// Opens one safetensors file, whatever its tensors are for.
    pub(crate) fn open_safetensors(blob: Blob) -> Result<Self, EngineError> {
        safetensors::open_one(blob)
    }

    /// The shape of a tensor; `None` if there is none of that name.
    pub(crate) fn shape(&self, tensor: &str) -> Option<&[usize]> {
        self.tensors.get(tensor).map(|stored| stored.shape.as_slice())
    }

    /// Whether there is a tensor of a name.
    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.tensors.contains_key(tensor)
    }

    /// Checks that a tensor is there as expected; returns how it is stored and its bytes in the file.
    pub(crate) fn check(&self, needed: &Needed) -> Result<(WeightType, u64), EngineError> {
        let Needed { name: tensor, shape, .. } = needed;
        let stored = self.tensors.get(tensor).ok_or_else(|| EngineError::MissingTensor {
            tensor: tensor.clone(),
            file: self.listing.clone(),
        })?;
        let file = || self.shards[stored.shard].name().to_owned();
        if stored.shape != *shape {
            let (found, expected) = (stored.shape.clone(), shape.clone());
            return Err(EngineError::TensorShape { tensor: tensor.clone(), file: file(), found, expected });
        }
        let kind = stored.kind.clone().map_err(|found| EngineError::TensorType {
            tensor: tensor.clone(),
            file: file(),
            found,
        })?;
        // A damaged header may claim a shape whose size is beyond any number.
        if kind.tensor_bytes(shape) != Some(stored.len) {
            let problem =
                format!("tensor {tensor} has {} bytes, which do not fit its shape {shape:?}", stored.len);
            return Err(EngineError::Damaged { file: file(), problem });
        }
        Ok((kind, stored.len))
    }

    /// The rows of a tensor, in the order in which the decoder uses them.
    pub(crate) fn read(&mut self, needed: &Needed) -> Result<Raw, EngineError> {
        let (kind, len) = self.check(needed)?;
        let stored = &self.tensors[&needed.name];
        let mut bytes = vec![0; len as usize];
        self.shards[stored.shard].read_at(stored.start, &mut bytes)?;
        let (rows, width) = match needed.shape[..] {
            [rows, width] => (rows, width),
            _ => (1, needed.shape.iter().product()),
        };
        if let RowOrder::Unpaired { head_dim } = needed.rows {
            // A bias has one weight per row of its matrix.
            let outputs = needed.shape[0];
            let file = || self.shards[stored.shard].name().to_owned();
            if rows == 1 && kind.is_quantised() {
                let (tensor, found) = (needed.name.clone(), kind.to_string());
                return Err(EngineError::TensorType { tensor, file: file(), found });
            }
            unpair(&mut bytes, outputs, head_dim);
        }
        Ok(Raw { kind, bytes, rows, width })
    }

    /// The file that lists the tensors.
    pub(crate) fn listing(&self) -> &str {
        &self.listing
    }

    /// Who named the tensors.
    pub(crate) fn layout(&self) -> Layout {
        if self.gguf.is_some() { Layout::Gguf } else { Layout::HuggingFace }
    }

    /// What a GGUF file says about the model; `None` for safetensors.
    pub(crate) fn gguf(&self) -> Option<&Metadata> {
        self.gguf.as_ref()
    }
}

/// Brings the rows of every head from pairs of neighbours to first halves of pairs, then second halves.
fn unpair(bytes: &mut [u8], rows: usize, head_dim: usize) {
    let row = bytes.len() / rows;
    let mut pairs = vec![0; row * head_dim];
    for head in bytes.chunks_exact_mut(row * head_dim) {
        pairs.copy_from_slice(head);
        let (firsts, seconds) = head.split_at_mut(row * (head_dim / 2));
        let halves = firsts.chunks_exact_mut(row).zip(seconds.chunks_exact_mut(row));
        for (pair, (first, second)) in pairs.chunks_exact(2 * row).zip(halves) {
            first.copy_from_slice(&pair[..row]);
            second.copy_from_slice(&pair[row..]);
        }
    }
}

#[cfg(test)]
mod tests;
