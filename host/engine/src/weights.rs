//! Names and shapes of the tensors of a Llama checkpoint.
//!
//! Separate from the decoder so that a checkpoint can be inspected, and its size be known, before a weight is read.

use crate::config::Config;
use crate::kernels::Linear;

/// A tensor that a model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Its name in the checkpoint.
    pub(crate) name: String,
    /// (outputs, inputs) of a matrix, (width) of a norm.
    pub(crate) shape: Vec<usize>,
}

impl Needed {
    fn matrix(name: impl Into<String>, outputs: usize, inputs: usize) -> Self {
        Self { name: name.into(), shape: vec![outputs, inputs] }
    }

    fn norm(name: impl Into<String>, width: usize) -> Self {
        Self { name: name.into(), shape: vec![width] }
    }

    /// How many weights it has.
    pub(crate) fn parameters(&self) -> u64 {
        self.shape.iter().map(|&size| size as u64).product()
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self.shape[..] {
            [outputs, inputs] => Linear::bytes(outputs, inputs),
            _ => self.parameters() * size_of::<f32>() as u64,
        }
    }
}

/// The tensors of one decoder layer.
pub(crate) struct LayerTensors {
    /// Norm before attention.
    pub(crate) attention_norm: Needed,
    /// Query projection.
    pub(crate) query: Needed,
    /// Key projection.
    pub(crate) key: Needed,
    /// Value projection.
    pub(crate) value: Needed,
    /// Projection of the heads' outputs.
    pub(crate) output: Needed,
    /// Norm before the feed-forward block.
    pub(crate) feed_forward_norm: Needed,
    /// Gate of the feed-forward block.
    pub(crate) gate: Needed,
    /// Its other half.
    pub(crate) up: Needed,
    /// Back to the residual stream.
    pub(crate) down: Needed,
}

impl LayerTensors {
    /// Those of a layer.
    pub(crate) fn of(config: &Config, layer: usize) -> Self {
        let Config { hidden, intermediate, heads, kv_heads, head_dim, .. } = *config;
        let (query, kv) = (heads * head_dim, kv_heads * head_dim);
        let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
        Self {
            attention_norm: Needed::norm(name("input_layernorm"), hidden),
            query: Needed::matrix(name("self_attn.q_proj"), query, hidden),
            key: Needed::matrix(name("self_attn.k_proj"), kv, hidden),
            value: Needed::matrix(name("self_attn.v_proj"), kv, hidden),
            output: Needed::matrix(name("self_attn.o_proj"), hidden, query),
            feed_forward_norm: Needed::norm(name("post_attention_layernorm"), hidden),
            gate: Needed::matrix(name("mlp.gate_proj"), intermediate, hidden),
            up: Needed::matrix(name("mlp.up_proj"), intermediate, hidden),
            down: Needed::matrix(name("mlp.down_proj"), hidden, intermediate),
        }
    }

    fn into_all(self) -> [Needed; 9] {
        [
            self.attention_norm,
            self.query,
            self.key,
            self.value,
            self.output,
            self.feed_forward_norm,
            self.gate,
            self.up,
            self.down,
        ]
    }
}

/// Token to residual stream.
pub(crate) fn embedding(config: &Config) -> Needed {
    Needed::matrix("model.embed_tokens.weight", config.vocabulary, config.hidden)
}

/// Norm after the last layer.
pub(crate) fn final_norm(config: &Config) -> Needed {
    Needed::norm("model.norm.weight", config.hidden)
}

/// Residual stream to logits; `None` if the embedding does it.
pub(crate) fn head(config: &Config) -> Option<Needed> {
    (!config.tied).then(|| Needed::matrix("lm_head.weight", config.vocabulary, config.hidden))
}

/// Every tensor of the model, layer by layer; lazily, since a damaged config may claim any number of layers.
pub(crate) fn all(config: &Config) -> impl Iterator<Item = Needed> {
    let around = [embedding(config), final_norm(config)].into_iter().chain(head(config));
    around.chain((0..config.layers).flat_map(|layer| LayerTensors::of(config, layer).into_all()))
}
