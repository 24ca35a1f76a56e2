//! From a checkpoint's tensors to a decoder on a device.
//!
//! Tensors go there one by one, in the type that is computed in: what is stored as that goes as it is, everything else,
//! quantised blocks too, through f32.

use candle_core::{DType, Device, Tensor};

use super::decoder::{Decoder, Linear, Norm};
use super::{Place, fault};
use crate::config::Config;
use crate::cpu::Read;
use crate::layer::Assemble;
use crate::weights::{self, Layout, Needed};
use crate::{EngineError, WeightType};

/// Builds the decoder of a config.
pub(super) fn build(
    (config, layout): (&Config, Layout),
    place: &Place,
    read: Read<'_>,
) -> Result<Decoder, EngineError> {
    let mut build = Builder { config, place, read };
    let embedding = build.tensor(&weights::embedding(config, layout))?;
    let layers =
        (0..config.layers).map(|index| build.layer((config, layout), index)).collect::<Result<_, _>>()?;
    let norm = build.norm(&weights::final_norm(config, layout))?;
    let head = weights::head(config, layout).map(|head| build.tensor(&head)).transpose()?;
    Ok(Decoder { config: config.clone(), embedding, layers, norm, head })
}

struct Builder<'a> {
    config: &'a Config,
    place: &'a Place,
    read: Read<'a>,
}

impl Assemble for Builder<'_> {
    type Product = Linear;
    type Norm = Norm;

    fn product(&mut self, matrices: &[&Needed], biases: &[&Needed]) -> Result<Linear, EngineError> {
        let bias = if biases.is_empty() { None } else { Some(self.joined(biases)?) };
        Ok(Linear { weight: self.joined(matrices)?, bias })
    }

    fn norm(&mut self, needed: &Needed) -> Result<Norm, EngineError> {
        let mut weight = (self.read)(needed)?.finite_floats(needed)?;
        weight.iter_mut().for_each(|weight| *weight += self.config.norm_offset);
        let weight = self.send(weight, &needed.shape).map_err(fault("loading weights"))?;
        Ok(Norm { weight, eps: self.config.norm_eps as f32 })
    }
}

impl Builder<'_> {
    fn joined(&mut self, parts: &[&Needed]) -> Result<Tensor, EngineError> {
        let tensors = parts.iter().map(|needed| self.tensor(needed)).collect::<Result<Vec<_>, _>>()?;
        match tensors.as_slice() {
            [one] => Ok(one.clone()),
            several => Tensor::cat(several, 0).map_err(fault("loading weights")),
        }
    }

    fn tensor(&mut self, needed: &Needed) -> Result<Tensor, EngineError> {
        let raw = (self.read)(needed)?;
        let Place { device, compute } = self.place;
        let sent = if raw.kind == WeightType::Bf16 && *compute == DType::BF16 {
            // The exponent of what is no finite number is all ones.
            if raw.bytes.as_chunks().0.iter().any(|&bytes| u16::from_le_bytes(bytes) & 0x7f80 == 0x7f80) {
                return Err(needed.not_finite());
            }
            Tensor::from_raw_buffer(&raw.bytes, DType::BF16, &needed.shape, device)
        } else {
            self.send(raw.finite_floats(needed)?, &needed.shape)
        };
        sent.map_err(fault("loading weights"))
    }

    /// Converts here, so that only what is kept goes to the device.
    fn send(&self, weights: Vec<f32>, shape: &[usize]) -> candle_core::Result<Tensor> {
        let weights = Tensor::from_vec(weights, shape, &Device::Cpu)?;
        weights.to_dtype(self.place.compute)?.to_device(&self.place.device)
    }
}
