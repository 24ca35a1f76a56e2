//! From a checkpoint's tensors to a decoder.

use super::decoder::{Decoder, Layer};
use super::group::Group;
use super::matrix::Matrix;
use super::memory::Region;
use super::rotation::Frequencies;
use super::rowwise::Norm;
use crate::EngineError;
use crate::WeightType;
use crate::checkpoint::Raw;
use crate::config::Config;
use crate::weights::{self, LayerTensors, Layout, Needed};

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
    let mut build = Builder { config, layout, region, read };
    let embedding = build.group(&[&weights::embedding(config, layout)], &[])?;
    let layers = (0..config.layers).map(|index| build.layer(index)).collect::<Result<_, _>>()?;
    let norm = build.norm(&weights::final_norm(config, layout))?;
    let head = weights::head(config, layout).map(|head| build.group(&[&head], &[])).transpose()?;
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
    layout: Layout,
    region: Region,
    read: Read<'a>,
}

impl Builder<'_> {
    fn layer(&mut self, index: usize) -> Result<Layer, EngineError> {
        let tensors = LayerTensors::of(self.config, self.layout, index);
        let qkv_bias = [&tensors.query_bias, &tensors.key_bias, &tensors.value_bias];
        let qkv_bias: Vec<&Needed> = qkv_bias.into_iter().flatten().collect();
        let output_bias: Vec<&Needed> = tensors.output_bias.iter().collect();
        Ok(Layer {
            span: self.config.attention[index],
            attention_norm: self.norm(&tensors.attention_norm)?,
            qkv: self.group(&[&tensors.query, &tensors.key, &tensors.value], &qkv_bias)?,
            query_norm: self.optional_norm(tensors.query_norm.as_ref())?,
            key_norm: self.optional_norm(tensors.key_norm.as_ref())?,
            output: self.group(&[&tensors.output], &output_bias)?,
            attention_post_norm: self.optional_norm(tensors.attention_post_norm.as_ref())?,
            feed_forward_norm: self.norm(&tensors.feed_forward_norm)?,
            gate_up: self.group(&[&tensors.gate, &tensors.up], &[])?,
            down: self.group(&[&tensors.down], &[])?,
            feed_forward_post_norm: self.optional_norm(tensors.feed_forward_post_norm.as_ref())?,
        })
    }

    fn group(&mut self, matrices: &[&Needed], biases: &[&Needed]) -> Result<Group, EngineError> {
        let matrices = matrices.iter().map(|needed| self.matrix(needed)).collect::<Result<_, _>>()?;
        let mut bias = Vec::new();
        for needed in biases {
            bias.extend(self.vector(needed)?);
        }
        Ok(Group::new(matrices, (!bias.is_empty()).then_some(bias)))
    }

    fn matrix(&mut self, needed: &Needed) -> Result<Matrix, EngineError> {
        let raw = (self.read)(needed)?;
        let shape = (needed.shape[0], needed.shape[1]);
        Matrix::pack(&mut self.region, raw.kind, shape, &raw.bytes).ok_or_else(|| not_finite(needed))
    }

    fn optional_norm(&mut self, needed: Option<&Needed>) -> Result<Option<Norm>, EngineError> {
        needed.map(|needed| self.norm(needed)).transpose()
    }

    fn norm(&mut self, needed: &Needed) -> Result<Norm, EngineError> {
        let weight = self.vector(needed)?;
        Ok(Norm::new(weight, self.config.norm_offset, self.config.norm_eps as f32))
    }

    fn vector(&mut self, needed: &Needed) -> Result<Vec<f32>, EngineError> {
        let values = (self.read)(needed)?.floats();
        if values.iter().all(|value| value.is_finite()) { Ok(values) } else { Err(not_finite(needed)) }
    }
}

fn not_finite(needed: &Needed) -> EngineError {
    EngineError::NotFiniteWeights { tensor: needed.name.clone() }
}
