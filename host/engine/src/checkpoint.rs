//! Tensors of a checkpoint: which there are, and their weights as f32.
//!
//! The safetensors format is 8 bytes of header length, a JSON header that names each tensor's type, shape and range
//! of bytes, and the bytes. It is read by ranges, one tensor at a time, so that a large checkpoint is not in memory
//! twice and a torn one is found before anything is allocated for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;

use crate::files::Blob;
use crate::{EngineError, ModelFiles, WeightType};

/// An open checkpoint: one safetensors file, or several with an index.
pub(crate) struct Checkpoint {
    shards: Vec<Blob>,
    tensors: BTreeMap<String, Stored>,
    /// The file that lists the tensors.
    listing: String,
}

/// Where a tensor is.
struct Stored {
    shard: usize,
    dtype: String,
    shape: Vec<usize>,
    /// Offset in the file and bytes.
    start: u64,
    len: u64,
}

impl Checkpoint {
    /// Opens the files and reads their headers.
    pub(crate) fn open(files: &ModelFiles) -> Result<Self, EngineError> {
        if let Some(blob) = files.open(SINGLE)? {
            let mut checkpoint = Self::empty(SINGLE);
            checkpoint.add(blob)?;
            return Ok(checkpoint);
        }
        let Some(index) = files.read(INDEX)? else {
            return Err(
                files.missing(SINGLE, "model.safetensors, or model.safetensors.index.json and its shards")
            );
        };
        let index: Index = serde_json::from_slice(&index)
            .map_err(|source| EngineError::Json { file: INDEX.to_owned(), source })?;
        let mut shards: Vec<&String> = index.weight_map.values().collect();
        shards.sort_unstable();
        shards.dedup();
        let mut checkpoint = Self::empty(INDEX);
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
            checkpoint.add(files.open(shard)?.ok_or_else(|| files.missing(shard, needs))?)?;
        }
        Ok(checkpoint)
    }

    /// Checks that a tensor is there as expected; returns how it is stored and its bytes in the file.
    pub(crate) fn check(&self, tensor: &str, shape: &[usize]) -> Result<(WeightType, u64), EngineError> {
        let stored = self.tensors.get(tensor).ok_or_else(|| EngineError::MissingTensor {
            tensor: tensor.to_owned(),
            file: self.listing.clone(),
        })?;
        let file = || self.shards[stored.shard].name().to_owned();
        if stored.shape != shape {
            let (found, expected) = (stored.shape.clone(), shape.to_vec());
            return Err(EngineError::TensorShape {
                tensor: tensor.to_owned(),
                file: file(),
                found,
                expected,
            });
        }
        let dtype = weight_type(&stored.dtype).ok_or_else(|| EngineError::TensorType {
            tensor: tensor.to_owned(),
            file: file(),
            found: stored.dtype.clone(),
        })?;
        // A damaged header may claim a shape whose size is beyond any number.
        let bytes =
            shape.iter().try_fold(dtype.bytes() as u64, |bytes, &size| bytes.checked_mul(size as u64));
        if bytes != Some(stored.len) {
            let problem =
                format!("tensor {tensor} has {} bytes, which do not fit its shape {shape:?}", stored.len);
            return Err(EngineError::Damaged { file: file(), problem });
        }
        Ok((dtype, stored.len))
    }

    /// The weights of a tensor.
    pub(crate) fn read(&mut self, tensor: &str, shape: &[usize]) -> Result<Vec<f32>, EngineError> {
        let (dtype, bytes) = self.check(tensor, shape)?;
        let stored = &self.tensors[tensor];
        let mut content = vec![0; bytes as usize];
        self.shards[stored.shard].read_at(stored.start, &mut content)?;
        let dtype = match dtype {
            WeightType::F32 => DType::F32,
            WeightType::F16 => DType::F16,
            WeightType::Bf16 => DType::BF16,
        };
        Tensor::from_raw_buffer(&content, dtype, &[shape.iter().product()], &Device::Cpu)
            .and_then(|weights| weights.to_dtype(DType::F32)?.to_vec1())
            .map_err(|source| EngineError::Tensor { doing: "converting weights to f32", source })
    }

    fn empty(listing: &str) -> Self {
        Self { shards: Vec::new(), tensors: BTreeMap::new(), listing: listing.to_owned() }
    }

    /// Adds a file's tensors.
    fn add(&mut self, mut blob: Blob) -> Result<(), EngineError> {
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
            let entry: HeaderEntry = serde_json::from_value(entry).map_err(|error| {
                damaged(format!("the header's entry of tensor {name} is invalid ({error})"))
            })?;
            let (start, end) = entry.data_offsets;
            if start > end || end > data {
                let problem = format!("tensor {name} is bytes {start}..{end} of {data} that the file holds");
                return Err(damaged(problem));
            }
            let Entry::Vacant(slot) = self.tensors.entry(name) else { continue };
            slot.insert(Stored {
                shard: self.shards.len(),
                dtype: entry.dtype,
                shape: entry.shape,
                start: PREFIX + header_len + start,
                len: end - start,
            });
        }
        self.shards.push(blob);
        Ok(())
    }
}

fn weight_type(stored: &str) -> Option<WeightType> {
    match stored {
        "F32" => Some(WeightType::F32),
        "F16" => Some(WeightType::F16),
        "BF16" => Some(WeightType::Bf16),
        _ => None,
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

/// Bytes of the header's length.
const PREFIX: u64 = 8;
