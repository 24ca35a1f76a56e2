//! What a model is, apart from its weights: sizes, limits, and everything in which architectures differ, as data.
//!
//! One decoder runs all of them, so no architecture has a name below this module: a difference is a field here. The
//! two kinds of checkpoint are read in `huggingface` and `gguf`. Everything that would change the numbers and is not
//! implemented is refused there by its key, so that no model runs with a silently wrong forward pass.

mod family;
mod gguf;
mod huggingface;
mod keys;
mod rope;

pub(crate) use huggingface::CONFIG;
pub(crate) use rope::{Rope, Scaling};

use crate::checkpoint::Checkpoint;
use crate::{EngineError, ModelFiles};

/// The shape of a decoder, checked to be consistent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// The class of the checkpoint, such as `LlamaForCausalLM`.
    pub(crate) architecture: String,
    /// Number of token ids.
    pub(crate) vocabulary: usize,
    /// Most positions.
    pub(crate) context: usize,
    /// Width of the residual stream.
    pub(crate) hidden: usize,
    /// Width inside the feed-forward block.
    pub(crate) intermediate: usize,
    /// Decoder layers.
    pub(crate) layers: usize,
    /// Query heads per layer.
    pub(crate) heads: usize,
    /// Key and value heads per layer; divides `heads`.
    pub(crate) kv_heads: usize,
    /// Width of a head; even.
    pub(crate) head_dim: usize,
    /// Added to the mean square in every norm.
    pub(crate) norm_eps: f64,
    /// Whether the head is the embedding.
    pub(crate) tied: bool,
    /// Tokens that end an answer.
    pub(crate) eos: Vec<u32>,
    /// What each layer attends to.
    pub(crate) attention: Vec<Span>,
    /// The rotary embeddings that the spans name.
    pub(crate) ropes: Vec<Rope>,
    /// Whether the projections of queries, keys and values have biases.
    pub(crate) qkv_bias: bool,
    /// Whether the projection of the heads' outputs has one.
    pub(crate) output_bias: bool,
    /// Whether every query and key head goes through a norm of its own before it is rotated.
    pub(crate) qk_norm: bool,
    /// Every norm multiplies by its weight plus this: 1 where weights are stored as the distance from 1.
    pub(crate) norm_offset: f32,
    /// Whether what attention and the feed-forward block give goes through a norm before it joins the residual stream.
    pub(crate) post_norms: bool,
    /// What the gate of the feed-forward block goes through.
    pub(crate) activation: Activation,
    /// An embedding is multiplied by this on its way into the first layer, but not where it is the head.
    pub(crate) embedding_scale: f32,
    /// Products of queries and keys are multiplied by this.
    pub(crate) attention_scale: f32,
    /// Those products x become `cap * tanh(x / cap)`.
    pub(crate) attention_softcap: Option<f32>,
    /// The logits likewise.
    pub(crate) logit_softcap: Option<f32>,
}

impl Config {
    /// Reads and checks the config of an open checkpoint.
    pub(crate) fn read(files: &ModelFiles, checkpoint: &mut Checkpoint) -> Result<Self, EngineError> {
        let Some(metadata) = checkpoint.gguf() else { return huggingface::read(files) };
        let mut config = gguf::read(metadata, &|tensor| checkpoint.has(tensor))?;
        gguf::divide_by_factors(&mut config, checkpoint)?;
        Ok(config)
    }
}

/// Which positions a layer attends to, and how it tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The number of latest positions, the token's own included; `None` is all of them.
    pub(crate) window: Option<usize>,
    /// Index into the config's `ropes`.
    pub(crate) rope: usize,
}

/// The non-linear function of a feed-forward block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    /// x * sigmoid(x).
    Silu,
    /// GELU in its tanh form: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
    GeluTanh,
}

/// No dimension of a language model comes near it, and a product of two fits 64 bits with room.
const SIZE_MAX: u64 = 1 << 28;

/// A config is allocated per layer before its tensors are looked for, so a damaged one must not claim many.
const LAYERS_MAX: usize = 1 << 12;
