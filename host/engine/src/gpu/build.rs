//! From a checkpoint's tensors to a decoder on a device.
//!
//! Tensors go there one by one, in the type that is computed in: what is stored as that goes as it is, everything else,
//! quantised blocks too, through f32.

use candle_core::{DType, Device, Tensor};

use super::decoder::{Decoder, Layer, Linear, Norm};
use super::{Place, fault};
use crate::checkpoint::Raw;
use crate::config::Config;
use crate::cpu::Read;
use crate::weights::{self, LayerTensors, Layout, Needed};
use crate::{EngineError, WeightType};

/// Builds the decoder of a config.
pub(super) fn build(
    (config, layout): (&Config, Layout),
    place: &Place,
    read: Read<'_>,
) -> Result<Decoder, EngineError> {
    let mut build = Builder { config, layout, place, read };
    let embedding = build.tensor(&weights::embedding(config, layout))?;
    let layers = (0..config.layers).map(|index| build.layer(index)).collect::<Result<_, _>>()?;
    let norm = build.norm(&weights::final_norm(config, layout))?;
    let head = weights::head(config, layout).map(|head| build.tensor(&head)).transpose()?;
    Ok(Decoder { config: config.clone(), embedding, layers, norm, head })
}

struct Builder<'a> {
    config: &'a Config,
    layout: Layout,
    place: &'a Place,
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
            qkv: self.linear(&[&tensors.query, &tensors.key, &tensors.value], &qkv_bias)?,
            query_norm: self.optional_norm(tensors.query_norm.as_ref())?,
            key_norm: self.optional_norm(tensors.key_norm.as_ref())?,
            output: self.linear(&[&tensors.output], &output_bias)?,
            attention_post_norm: self.optional_norm(tensors.attention_post_norm.as_ref())?,
            feed_forward_norm: self.norm(&tensors.feed_forward_norm)?,
            gate_up: self.linear(&[&tensors.gate, &tensors.up], &[])?,
            down: self.linear(&[&tensors.down], &[])?,
            feed_forward_post_norm: self.optional_norm(tensors.feed_forward_post_norm.as_ref())?,
        })
    }

    /// Matrices with the same inputs, as one.
    fn linear(&mut self, matrices: &[&Needed], biases: &[&Needed]) -> Result<Linear, EngineError> {
        let bias = if biases.is_empty() { None } else { Some(self.joined(biases)?) };
        Ok(Linear { weight: self.joined(matrices)?, bias })
    }

    fn joined(&mut self, parts: &[&Needed]) -> Result<Tensor, EngineError> {
        let tensors = parts.iter().map(|needed| self.tensor(needed)).collect::<Result<Vec<_>, _>>()?;
        match tensors.as_slice() {
            [one] => Ok(one.clone()),
            several => Tensor::cat(several, 0).map_err(fault("loading weights")),
        }
    }

    fn optional_norm(&mut self, needed: Option<&Needed>) -> Result<Option<Norm>, EngineError> {
        needed.map(|needed| self.norm(needed)).transpose()
    }

    fn norm(&mut self, needed: &Needed) -> Result<Norm, EngineError> {
        let mut weight = self.floats(needed)?;
        weight.iter_mut().for_each(|weight| *weight += self.config.norm_offset);
        let weight = self.send(weight, &needed.shape).map_err(fault("loading weights"))?;
        Ok(Norm { weight, eps: self.config.norm_eps as f32 })
    }

    fn tensor(&mut self, needed: &Needed) -> Result<Tensor, EngineError> {
        let raw = (self.read)(needed)?;
        let Place { device, compute } = self.place;
        let sent = if raw.kind == WeightType::Bf16 && *compute == DType::BF16 {
            // The exponent of what is no finite number is all ones.
            if raw.bytes.as_chunks().0.iter().any(|&bytes| u16::from_le_bytes(bytes) & 0x7f80 == 0x7f80) {
                return Err(not_finite(needed));
            }
            Tensor::from_raw_buffer(&raw.bytes, DType::BF16, &needed.shape, device)
        } else {
            self.send(finite(needed, &raw)?, &needed.shape)
        };
        sent.map_err(fault("loading weights"))
    }

    fn floats(&mut self, needed: &Needed) -> Result<Vec<f32>, EngineError> {
        finite(needed, &(self.read)(needed)?)
    }

    /// Converts here, so that only what is kept goes to the device.
    fn send(&self, weights: Vec<f32>, shape: &[usize]) -> candle_core::Result<Tensor> {
        let weights = Tensor::from_vec(weights, shape, &Device::Cpu)?;
        weights.to_dtype(self.place.compute)?.to_device(&self.place.device)
    }
}

fn finite(needed: &Needed, raw: &Raw) -> Result<Vec<f32>, EngineError> {
    let values = raw.floats();
    if values.iter().all(|value| value.is_finite()) { Ok(values) } else { Err(not_finite(needed)) }
}

fn not_finite(needed: &Needed) -> EngineError {
    EngineError::NotFiniteWeights { tensor: needed.name.clone() }
}
