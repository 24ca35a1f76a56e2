//! The GGUF container: one file with a model's metadata and its tensors.
//!
//! A header of little-endian numbers and texts with their lengths before them: magic, version, counts, metadata, and
//! for each tensor its name, shape, type and offset; then, aligned, the tensors' bytes. The header is read whole and
//! bounded: a torn or hostile file is told as damage before anything is allocated on its word. What the metadata
//! means is for `config` and `tokenizer`, what the bytes mean for `encoding`.

mod metadata;
mod reader;

use std::collections::BTreeSet;

pub(crate) use metadata::Metadata;

use crate::files::Blob;
use crate::{EngineError, WeightType};
use reader::Reader;

/// All of a GGUF file but the bytes of its tensors.
pub(crate) struct Header {
    /// What the file says about the model.
    pub(crate) metadata: Metadata,
    /// Its tensors, in the order of the file.
    pub(crate) tensors: Vec<TensorInfo>,
}

/// Where a tensor is and how it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorInfo {
    /// Its name, such as `blk.0.attn_q.weight`.
    pub(crate) name: String,
    /// (rows, width) of a matrix: the file's order turned around.
    pub(crate) shape: Vec<usize>,
    /// The type; for one that is not read, its name.
    pub(crate) kind: Result<WeightType, String>,
    /// Its first byte in the file.
    pub(crate) start: u64,
    /// Its bytes, which lie in the file; 0 if the type is not read.
    pub(crate) len: u64,
}

impl Header {
    /// Reads the header of a file.
    pub(crate) fn read(blob: &mut Blob) -> Result<Self, EngineError> {
        let mut reader = Reader::new(blob);
        if reader.array()? != *b"GGUF" {
            return Err(reader.damaged("it does not begin with GGUF"));
        }
        let version = reader.u32()?;
        if !matches!(version, 2 | 3) {
            let problem = match version.swap_bytes() {
                2 | 3 => "is big-endian; convert the model to a little-endian file".to_owned(),
                _ => format!("is {version}; versions 2 and 3 are read, so convert the model again"),
            };
            return Err(reader.wrong("version", problem));
        }
        let (tensors, entries) = (reader.u64()?, reader.u64()?);
        let metadata = Metadata::read(&mut reader, entries)?;
        let tensors = self::tensors(&mut reader, tensors, alignment(&metadata)?)?;
        Ok(Self { metadata, tensors })
    }
}

fn alignment(metadata: &Metadata) -> Result<u64, EngineError> {
    match metadata.u64(ALIGNMENT)? {
        None => Ok(ALIGNMENT_DEFAULT),
        Some(alignment) if alignment.is_power_of_two() && alignment <= ALIGNMENT_MAX => Ok(alignment),
        Some(alignment) => {
            let problem = format!("is {alignment}; it must be a power of two up to {ALIGNMENT_MAX}");
            Err(metadata.wrong(ALIGNMENT, problem))
        }
    }
}

fn tensors(reader: &mut Reader<'_>, count: u64, alignment: u64) -> Result<Vec<TensorInfo>, EngineError> {
    let mut tensors = Vec::new();
    let mut names = BTreeSet::new();
    for _ in 0..count {
        let tensor = tensor(reader)?;
        if !names.insert(tensor.name.clone()) {
            return Err(reader.damaged(format!("tensor {} is there twice", tensor.name)));
        }
        tensors.push(tensor);
    }
    let data = reader.position().next_multiple_of(alignment);
    let room = reader.len().saturating_sub(data);
    for tensor in &mut tensors {
        let TensorInfo { name, start, len, .. } = tensor;
        if !start.is_multiple_of(alignment) {
            return Err(reader.damaged(format!("tensor {name} begins at {start}, off the {alignment} grid")));
        }
        if start.checked_add(*len).is_none_or(|end| end > room) {
            let problem = format!("tensor {name} is {len} bytes from {start} of {room} that the file holds");
            return Err(reader.damaged(problem));
        }
        *start += data;
    }
    Ok(tensors)
}

/// One tensor, whose start still counts from that of the data.
fn tensor(reader: &mut Reader<'_>) -> Result<TensorInfo, EngineError> {
    let name = reader.text()?;
    let dimensions = reader.u32()?;
    if dimensions > DIMENSIONS_MAX {
        return Err(reader.damaged(format!("tensor {name} has {dimensions} dimensions")));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let size = reader.u64()?;
        let Ok(size) = usize::try_from(size) else {
            return Err(reader.damaged(format!("tensor {name} has a dimension of {size}")));
        };
        shape.push(size);
    }
    shape.reverse();
    let kind = weight_type(reader.u32()?);
    let start = reader.u64()?;
    let len = match &kind {
        Err(_) => 0,
        Ok(kind) => kind.tensor_bytes(&shape).ok_or_else(|| {
            reader.damaged(format!("tensor {name} has shape {shape:?}, which {kind} cannot have"))
        })?,
    };
    Ok(TensorInfo { name, shape, kind, start, len })
}

/// The types by the numbers that the format gives them; those that are not read by name.
fn weight_type(number: u32) -> Result<WeightType, String> {
    let other = match number {
        0 => return Ok(WeightType::F32),
        1 => return Ok(WeightType::F16),
        2 => return Ok(WeightType::Q4_0),
        3 => return Ok(WeightType::Q4_1),
        6 => return Ok(WeightType::Q5_0),
        7 => return Ok(WeightType::Q5_1),
        8 => return Ok(WeightType::Q8_0),
        10 => return Ok(WeightType::Q2K),
        11 => return Ok(WeightType::Q3K),
        12 => return Ok(WeightType::Q4K),
        13 => return Ok(WeightType::Q5K),
        14 => return Ok(WeightType::Q6K),
        30 => return Ok(WeightType::Bf16),
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return Err(format!("GGUF type {number}")),
    };
    Err(other.to_owned())
}

/// The key of the tensors' alignment.
const ALIGNMENT: &str = "general.alignment";
const ALIGNMENT_DEFAULT: u64 = 32;
const ALIGNMENT_MAX: u64 = 1 << 20;

/// What the format allows.
const DIMENSIONS_MAX: u32 = 4;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod written;
