//! From a checkpoint's tensors to a decoder.

use super::decoder::Decoder;
use super::group::Group;
use super::matrix::Matrix;
use super::memory::Region;
use super::rotation::Frequencies;
use super::rowwise::Norm;
use crate::EngineError;
use crate::WeightType;
use crate::checkpoint::Raw;
use crate::config::Config;
use crate::layer::Assemble;
use crate::weights::{self, Layout, Needed};

/// Where tensors come from.
pub(crate) type Read<'a> = &'a mut dyn FnMut(&Needed) -> Result<Raw, EngineError>;

/// Builds the decoder of a config. `bytes` is what [`bytes`] gives for all its tensors.
pub(super) fn build(
    config: &Config,
    layout: Layout,
    bytes: u64,
    read: Read<'_>,
) -> Result<Decoder, EngineError> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let region = Region::new(bytes).map_err(|source| EngineError::Memory { bytes, source })?;
    let mut build = Builder { config, region, read };
    let embedding = build.product(&[&weights::embedding(config, layout)], &[])?;
    let layers =
        (0..config.layers).map(|index| build.layer((config, layout), index)).collect::<Result<_, _>>()?;
    let norm = build.norm(&weights::final_norm(config, layout))?;
    let head = weights::head(config, layout).map(|head| build.product(&[&head], &[])).transpose()?;
    Ok(Decoder {
        config: config.clone(),
        region: build.region,
        embedding,
        layers,
        norm,
        head,
        frequencies: Frequencies::new(&config.ropes, config.head_dim),
    })
}

/// Bytes that a tensor takes in memory, stored as `kind` in the checkpoint.
pub(crate) fn bytes(needed: &Needed, kind: WeightType) -> u64 {
    match needed.shape[..] {
        [outputs, inputs] => Matrix::bytes(kind, outputs, inputs) as u64,
        _ => needed.parameters() * size_of::<f32>() as u64,
    }
}

struct Builder<'a> {
    config: &'a Config,
    region: Region,
    read: Read<'a>,
}

impl Assemble for Builder<'_> {
    type Product = Group;
    type Norm = Norm;

    fn product(&mut self, matrices: &[&Needed], biases: &[&Needed]) -> Result<Group, EngineError> {
        let matrices = matrices.iter().map(|needed| self.matrix(needed)).collect::<Result<_, _>>()?;
        let mut bias = Vec::new();
        for needed in biases {
            bias.extend(self.vector(needed)?);
        }
        Ok(Group::new(matrices, (!bias.is_empty()).then_some(bias)))
    }

    fn norm(&mut self, needed: &Needed) -> Result<Norm, EngineError> {
        let weight = self.vector(needed)?;
        Ok(Norm::new(weight, self.config.norm_offset, self.config.norm_eps as f32))
    }
}

impl Builder<'_> {
    fn matrix(&mut self, needed: &Needed) -> Result<Matrix, EngineError> {
        let raw = (self.read)(needed)?;
        let shape = (needed.shape[0], needed.shape[1]);
        Matrix::pack(&mut self.region, raw.kind, shape, &raw.bytes).ok_or_else(|| needed.not_finite())
    }

    fn vector(&mut self, needed: &Needed) -> Result<Vec<f32>, EngineError> {
        (self.read)(needed)?.finite_floats(needed)
    }
}
