//! The decoder: one forward pass over the tokens of a planned step.
//!
//! All architectures run here; what differs is data (`Layer`, `Config`). It holds weights only: KV comes in with the
//! step.

use candle_core::{DType, Result, Tensor};
use candle_nn::ops::rms_norm;
use candle_nn::rotary_emb::rope;

use super::attention::Attention;
use super::pages::Pages;
use super::plan::{Plan, Planner};
use crate::config::{Activation, Config};

/// A model's weights and what it does with them.
pub(super) struct Decoder {
    /// Sizes, and what this architecture does differently.
    pub(super) config: Config,
    /// Token to residual stream, (vocabulary, hidden).
    pub(super) embedding: Tensor,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    /// `None`: the embedding is the head too.
    pub(super) head: Option<Tensor>,
}

/// One layer.
type Layer = crate::layer::Layer<Linear, Norm>;

/// A matrix, (outputs, inputs), and what is added.
pub(super) struct Linear {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
}

/// Divides by the root of the mean square, and multiplies by a weight that has the model's offset in it.
pub(super) struct Norm {
    pub(super) weight: Tensor,
    pub(super) eps: f32,
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

impl Norm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.weight, self.eps)
    }

    fn optional(norm: Option<&Self>, x: Tensor) -> Result<Tensor> {
        match norm {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}

impl Decoder {
    /// Feeds the tokens of a step, writing their KV. Returns the logits of the wanted ones, (wanted, vocabulary) in f32.
    pub(super) fn forward(&self, plan: &Plan, planner: &Planner, pages: &Pages) -> Result<Option<Tensor>> {
        let mut x = self.embedding.index_select(&plan.tokens, 0)?;
        if self.config.embedding_scale != 1.0 {
            x = (x * f64::from(self.config.embedding_scale))?;
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = layer.attention_norm.forward(&x)?;
            let window = planner.window(layer.span.window);
            let attention = Attention { config: &self.config, layer: index, window };
            let attended = self.attend(layer, (plan, &attention), &normed, pages)?;
            x = (x + Norm::optional(layer.attention_post_norm.as_ref(), attended)?)?;
            let normed = layer.feed_forward_norm.forward(&x)?;
            let fed = self.feed_forward(layer, &normed)?;
            x = (x + Norm::optional(layer.feed_forward_post_norm.as_ref(), fed)?)?;
        }
        plan.wanted.as_ref().map(|wanted| self.logits(&x.index_select(wanted, 0)?)).transpose()
    }

    fn attend(
        &self,
        layer: &Layer,
        (plan, attention): (&Plan, &Attention<'_>),
        x: &Tensor,
        pages: &Pages,
    ) -> Result<Tensor> {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        let tokens = x.dim(0)?;
        let qkv = layer.qkv.forward(x)?.reshape((tokens, heads + 2 * kv_heads, head_dim))?;
        let (cosines, sines) = &plan.rotations[layer.span.rope];
        let turned = |first, count, norm: Option<&Norm>| {
            let part = Norm::optional(norm, qkv.narrow(1, first, count)?.contiguous()?)?;
            rope(&part.reshape((tokens, count, 1, head_dim))?, cosines, sines)?.squeeze(2)
        };
        let queries = turned(0, heads, layer.query_norm.as_ref())?;
        let keys = turned(heads, kv_heads, layer.key_norm.as_ref())?;
        let values = qkv.narrow(1, heads + kv_heads, kv_heads)?;
        let by_head = |part: &Tensor| part.transpose(0, 1)?.contiguous();
        pages.write(attention.layer, &plan.writes, (&by_head(&keys)?, &by_head(&values)?))?;
        layer.output.forward(&attention.forward(plan, &queries, pages)?)
    }

    fn feed_forward(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let gate_up = layer.gate_up.forward(x)?;
        let width = self.config.intermediate;
        let (gate, up) = (gate_up.narrow(1, 0, width)?, gate_up.narrow(1, width, width)?);
        let open = match self.config.activation {
            Activation::Silu => gate.silu()?,
            Activation::GeluTanh => gate.gelu()?,
        };
        layer.down.forward(&(open * up)?)
    }

    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let logits = self.norm.forward(x)?.matmul(&head.t()?)?.to_dtype(DType::F32)?;
        match self.config.logit_softcap.map(f64::from) {
            Some(cap) => (logits / cap)?.tanh()? * cap,
            None => Ok(logits),
        }
    }
}
