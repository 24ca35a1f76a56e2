//! The Llama decoder: one forward pass over the concatenated rows of a ragged batch.
//!
//! candle tensors carry the activations; the products, the rotation and attention are the batch-invariant kernels.
//! The other ops used here (add, multiply, SiLU, RMS norm) compute each row by itself in a fixed order. The decoder
//! holds weights only: KV comes in with the batch and is written as the layers go.

use candle_core::{Device, Result as Forward, Storage, Tensor, bail};

use crate::EngineError;
use crate::config::Config;
use crate::kernels::{self, Attention, Linear, RopeFrequencies};
use crate::kv::{KvShape, Place, Sequence};
use crate::weights::{self, LayerTensors, Needed};

/// The weights of a model.
pub(crate) struct Decoder {
    embedding: Linear,
    layers: Vec<Layer>,
    norm: Norm,
    /// `None`: the embedding is the head too.
    head: Option<Linear>,
    rope: RopeFrequencies,
    kv: KvShape,
}

struct Layer {
    attention_norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    feed_forward_norm: Norm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

struct Norm {
    weight: Tensor,
    eps: f32,
}

/// What a step feeds: the tokens of all rows, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The tokens.
    pub(crate) tokens: Vec<u32>,
    /// For each token: the index of its sequence and its position there.
    pub(crate) places: Vec<(usize, usize)>,
    /// The tokens whose logits are wanted, as indices into `tokens`.
    pub(crate) wanted: Vec<u32>,
}

impl Decoder {
    /// Builds a decoder from a source of weights.
    pub(crate) fn build(
        config: &Config,
        read: &mut dyn FnMut(&Needed) -> Result<Vec<f32>, EngineError>,
    ) -> Result<Self, EngineError> {
        let kv = KvShape { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim };
        let mut build = Builder { read, eps: config.norm_eps as f32 };
        let embedding = build.linear(&weights::embedding(config))?;
        let norm = build.norm(&weights::final_norm(config))?;
        let head = weights::head(config).map(|head| build.linear(&head)).transpose()?;
        let layers = (0..config.layers).map(|layer| build.layer(&LayerTensors::of(config, layer)));
        let layers = layers.collect::<Result<_, _>>()?;
        let rope = RopeFrequencies::new(config.head_dim, config.rope_theta);
        Ok(Self { embedding, layers, norm, head, rope, kv })
    }

    /// Sizes of the KV that it writes.
    pub(crate) fn kv_shape(&self) -> KvShape {
        self.kv
    }

    /// Feeds the batch, writing its KV; returns the logits of the wanted tokens, shape (wanted, vocabulary), or
    /// `None` if none are wanted.
    pub(crate) fn forward(&self, batch: &Batch, sequences: &mut [Sequence]) -> Forward<Option<Tensor>> {
        let tokens = Tensor::from_slice(&batch.tokens, batch.tokens.len(), &Device::Cpu)?;
        let rope = self.rope.at(batch.places.iter().map(|&(_, position)| position));
        let mut x = self.embedding.rows(&tokens)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let h = layer.attention_norm.forward(&x)?;
            let query = layer.query.forward(&h)?.apply_op1_no_bwd(&rope)?;
            let key = layer.key.forward(&h)?.apply_op1_no_bwd(&rope)?;
            let value = layer.value.forward(&h)?;
            self.write(index, batch, (&key, &value), sequences)?;
            let attention = Attention { sequences, places: &batch.places, shape: self.kv, layer: index };
            let attended = query.apply_op1_no_bwd(&attention)?;
            x = (x + layer.output.forward(&attended)?)?;
            x = (&x + layer.feed_forward(&x)?)?;
        }
        if batch.wanted.is_empty() {
            return Ok(None);
        }
        let wanted = Tensor::from_slice(&batch.wanted, batch.wanted.len(), &Device::Cpu)?;
        let last = self.norm.forward(&x.index_select(&wanted, 0)?)?;
        Ok(Some(self.head.as_ref().unwrap_or(&self.embedding).forward(&last)?))
    }

    /// Writes a layer's keys and values, both (tokens, kv_heads * head_dim), to the places of the tokens.
    fn write(
        &self,
        layer: usize,
        batch: &Batch,
        (keys, values): (&Tensor, &Tensor),
        sequences: &mut [Sequence],
    ) -> Forward<()> {
        let width = self.kv.kv_heads * self.kv.head_dim;
        let (keys, key_layout) = keys.storage_and_layout();
        let (values, value_layout) = values.storage_and_layout();
        let (Storage::Cpu(keys), Storage::Cpu(values)) = (&*keys, &*values) else {
            bail!("this build keeps KV in main memory only");
        };
        let keys = kernels::elements(keys, key_layout)?.chunks_exact(width);
        let values = kernels::elements(values, value_layout)?.chunks_exact(width);
        for ((key, value), &(sequence, position)) in keys.zip(values).zip(&batch.places) {
            sequences[sequence].write(self.kv, Place { layer, position }, key, value);
        }
        Ok(())
    }
}

impl Layer {
    /// SwiGLU of the normed residual stream.
    fn feed_forward(&self, x: &Tensor) -> Forward<Tensor> {
        let h = self.feed_forward_norm.forward(x)?;
        let gated = (self.gate.forward(&h)?.silu()? * self.up.forward(&h)?)?;
        self.down.forward(&gated)
    }
}

impl Norm {
    fn forward(&self, x: &Tensor) -> Forward<Tensor> {
        candle_nn::ops::rms_norm(x, &self.weight, self.eps)
    }
}

struct Builder<'a> {
    read: &'a mut dyn FnMut(&Needed) -> Result<Vec<f32>, EngineError>,
    eps: f32,
}

impl Builder<'_> {
    fn layer(&mut self, tensors: &LayerTensors) -> Result<Layer, EngineError> {
        Ok(Layer {
            attention_norm: self.norm(&tensors.attention_norm)?,
            query: self.linear(&tensors.query)?,
            key: self.linear(&tensors.key)?,
            value: self.linear(&tensors.value)?,
            output: self.linear(&tensors.output)?,
            feed_forward_norm: self.norm(&tensors.feed_forward_norm)?,
            gate: self.linear(&tensors.gate)?,
            up: self.linear(&tensors.up)?,
            down: self.linear(&tensors.down)?,
        })
    }

    fn linear(&mut self, needed: &Needed) -> Result<Linear, EngineError> {
        Linear::pack(&(self.read)(needed)?, needed.shape[0], needed.shape[1]).map_err(laying_out)
    }

    fn norm(&mut self, needed: &Needed) -> Result<Norm, EngineError> {
        let weight = (self.read)(needed)?;
        let weight = Tensor::from_vec(weight, needed.shape[0], &Device::Cpu).map_err(laying_out)?;
        Ok(Norm { weight, eps: self.eps })
    }
}

fn laying_out(source: candle_core::Error) -> EngineError {
    EngineError::Tensor { doing: "laying out weights in memory", source }
}
