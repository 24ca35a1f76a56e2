//! What is known about a model without running it.

use crate::cpu::KvShape;
use crate::{KvType, WeightType};

/// Shape, limits and cost of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// The name the model was loaded under; of an inspected one, the directory's or the embedded name.
    pub name: String,
    /// The class of the checkpoint, such as `LlamaForCausalLM`; of a GGUF file, the class of its architecture.
    pub architecture: String,
    /// Number of logits; token ids are `0..vocabulary`.
    pub vocabulary: usize,
    /// Most positions of one sequence.
    pub context: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the feed-forward block.
    pub intermediate: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads per layer.
    pub heads: usize,
    /// Key and value heads per layer; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Weights of the model, a tied head counted once.
    pub parameters: u64,
    /// Bytes of the weights in memory once loaded.
    pub weight_bytes: u64,
    /// Tokens that end an answer: those of `generation_config.json` and then of the config; of a GGUF file, those that its
    /// keys name and then those known by their text.
    pub eos: Vec<u32>,
    /// How most of the weights are stored in the checkpoint.
    pub dtype: WeightType,
}

impl ModelSpec {
    /// Bytes of KV that one position takes over all layers.
    #[must_use]
    pub fn kv_bytes_per_token(&self, kv: KvType) -> u64 {
        let shape = KvShape { layers: self.layers, kv_heads: self.kv_heads, head_dim: self.head_dim };
        shape.bytes_per_token(kv.resolve(self.dtype))
    }
}
