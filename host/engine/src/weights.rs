//! Names and shapes of the tensors of a checkpoint, in both layouts.
//!
//! Separate from the decoder so that a checkpoint can be inspected, and its size be known, before a weight is read.

use crate::EngineError;
use crate::config::Config;

/// Who named the tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `model.layers.0.self_attn.q_proj.weight`.
    HuggingFace,
    /// `blk.0.attn_q.weight`.
    Gguf,
}

/// The order of the rows of a tensor in the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// That in which the decoder uses them.
    AsStored,
    /// The two of every rotated pair are neighbours: of each head of `head_dim` rows, row `2i` is the decoder's `i`,
    /// and row `2i + 1` its `i + head_dim / 2`. The elements of a bias likewise.
    Unpaired {
        /// Rows of a head.
        head_dim: usize,
    },
}

/// A tensor that a model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Its name in the checkpoint.
    pub(crate) name: String,
    /// (outputs, inputs) of a matrix, (width) of a norm or bias.
    pub(crate) shape: Vec<usize>,
    /// The order of its outputs.
    pub(crate) rows: RowOrder,
}

impl Needed {
    /// A tensor whose rows are as stored.
    pub(crate) fn new(name: String, shape: &[usize]) -> Self {
        Self { name, shape: shape.to_vec(), rows: RowOrder::AsStored }
    }

    /// The error that says one of its weights is not a finite number.
    pub(crate) fn not_finite(&self) -> EngineError {
        EngineError::NotFiniteWeights { tensor: self.name.clone() }
    }

    /// How many weights it has.
    pub(crate) fn parameters(&self) -> u64 {
        self.shape.iter().map(|&size| size as u64).product()
    }
}

/// The tensors of one decoder layer, in the order in which a token goes through them.
pub(crate) struct LayerTensors {
    /// Norm before attention.
    pub(crate) attention_norm: Needed,
    /// Query projection.
    pub(crate) query: Needed,
    /// Its bias.
    pub(crate) query_bias: Option<Needed>,
    /// Key projection.
    pub(crate) key: Needed,
    /// Its bias.
    pub(crate) key_bias: Option<Needed>,
    /// Value projection.
    pub(crate) value: Needed,
    /// Its bias.
    pub(crate) value_bias: Option<Needed>,
    /// Norm of every query head.
    pub(crate) query_norm: Option<Needed>,
    /// Norm of every key head.
    pub(crate) key_norm: Option<Needed>,
    /// Projection of the heads' outputs.
    pub(crate) output: Needed,
    /// Its bias.
    pub(crate) output_bias: Option<Needed>,
    /// Norm of what attention gives, before it joins the residual stream.
    pub(crate) attention_post_norm: Option<Needed>,
    /// Norm before the feed-forward block.
    pub(crate) feed_forward_norm: Needed,
    /// Gate of the feed-forward block.
    pub(crate) gate: Needed,
    /// Its other half.
    pub(crate) up: Needed,
    /// Back to the residual stream.
    pub(crate) down: Needed,
    /// Norm of what the feed-forward block gives, before it joins the residual stream.
    pub(crate) feed_forward_post_norm: Option<Needed>,
}

impl LayerTensors {
    /// Those of a layer.
    pub(crate) fn of(config: &Config, layout: Layout, layer: usize) -> Self {
        let Config { hidden, intermediate, heads, kv_heads, head_dim, .. } = *config;
        let (query, kv) = (heads * head_dim, kv_heads * head_dim);
        let name = |part: Part, end: &str| match layout {
            Layout::HuggingFace => format!("model.layers.{layer}.{}.{end}", part.hugging_face(config)),
            Layout::Gguf => format!("blk.{layer}.{}.{end}", part.gguf()),
        };
        let weight = |part, shape: &[usize]| Needed::new(name(part, "weight"), shape);
        let optional = |there: bool, part, end, width| there.then(|| Needed::new(name(part, end), &[width]));
        let bias = |there, part, width| optional(there, part, "bias", width);
        let norm = |there, part, width| optional(there, part, "weight", width);
        let rotated = |needed| Needed { rows: rotated_rows(config, layout), ..needed };
        Self {
            attention_norm: weight(Part::AttentionNorm, &[hidden]),
            query: rotated(weight(Part::Query, &[query, hidden])),
            query_bias: bias(config.qkv_bias, Part::Query, query).map(rotated),
            key: rotated(weight(Part::Key, &[kv, hidden])),
            key_bias: bias(config.qkv_bias, Part::Key, kv).map(rotated),
            value: weight(Part::Value, &[kv, hidden]),
            value_bias: bias(config.qkv_bias, Part::Value, kv),
            query_norm: norm(config.qk_norm, Part::QueryNorm, head_dim),
            key_norm: norm(config.qk_norm, Part::KeyNorm, head_dim),
            output: weight(Part::Output, &[hidden, query]),
            output_bias: bias(config.output_bias, Part::Output, hidden),
            attention_post_norm: norm(config.post_norms, Part::AttentionPostNorm, hidden),
            feed_forward_norm: weight(Part::FeedForwardNorm, &[hidden]),
            gate: weight(Part::Gate, &[intermediate, hidden]),
            up: weight(Part::Up, &[intermediate, hidden]),
            down: weight(Part::Down, &[hidden, intermediate]),
            feed_forward_post_norm: norm(config.post_norms, Part::FeedForwardPostNorm, hidden),
        }
    }

    fn into_all(self) -> impl Iterator<Item = Needed> {
        let always = [
            self.attention_norm,
            self.query,
            self.key,
            self.value,
            self.output,
            self.feed_forward_norm,
            self.gate,
            self.up,
            self.down,
        ];
        let some = [
            self.query_bias,
            self.key_bias,
            self.value_bias,
            self.output_bias,
            self.query_norm,
            self.key_norm,
            self.attention_post_norm,
            self.feed_forward_post_norm,
        ];
        always.into_iter().chain(some.into_iter().flatten())
    }
}

/// Token to residual stream.
pub(crate) fn embedding(config: &Config, layout: Layout) -> Needed {
    let name = match layout {
        Layout::HuggingFace => "model.embed_tokens.weight",
        Layout::Gguf => "token_embd.weight",
    };
    Needed::new(name.to_owned(), &[config.vocabulary, config.hidden])
}

/// Norm after the last layer.
pub(crate) fn final_norm(config: &Config, layout: Layout) -> Needed {
    let name = match layout {
        Layout::HuggingFace => "model.norm.weight",
        Layout::Gguf => "output_norm.weight",
    };
    Needed::new(name.to_owned(), &[config.hidden])
}

/// Residual stream to logits; `None` if the embedding does it.
pub(crate) fn head(config: &Config, layout: Layout) -> Option<Needed> {
    let name = match layout {
        Layout::HuggingFace => "lm_head.weight",
        Layout::Gguf => "output.weight",
    };
    (!config.tied).then(|| Needed::new(name.to_owned(), &[config.vocabulary, config.hidden]))
}

/// What the frequencies of the rotary embedding of full attention are divided by, in GGUF files that have it.
pub(crate) fn rotary_factors(config: &Config) -> Needed {
    Needed::new("rope_freqs.weight".to_owned(), &[config.head_dim / 2])
}

/// Every tensor of the model, layer by layer; lazily, since a damaged config may claim many layers.
pub(crate) fn all(config: &Config, layout: Layout) -> impl Iterator<Item = Needed> {
    let around =
        [embedding(config, layout), final_norm(config, layout)].into_iter().chain(head(config, layout));
    around.chain((0..config.layers).flat_map(move |layer| LayerTensors::of(config, layout, layer).into_all()))
}

/// The order of the rows that give queries and keys.
fn rotated_rows(config: &Config, layout: Layout) -> RowOrder {
    match (layout, config.architecture.as_str()) {
        (Layout::Gguf, "LlamaForCausalLM") => RowOrder::Unpaired { head_dim: config.head_dim },
        _ => RowOrder::AsStored,
    }
}

/// A part of a layer, for its name.
#[derive(Clone, Copy)]
enum Part {
    AttentionNorm,
    Query,
    Key,
    Value,
    QueryNorm,
    KeyNorm,
    Output,
    AttentionPostNorm,
    FeedForwardNorm,
    Gate,
    Up,
    Down,
    FeedForwardPostNorm,
}

impl Part {
    fn hugging_face(self, config: &Config) -> &'static str {
        match self {
            Self::AttentionNorm => "input_layernorm",
            Self::Query => "self_attn.q_proj",
            Self::Key => "self_attn.k_proj",
            Self::Value => "self_attn.v_proj",
            Self::QueryNorm => "self_attn.q_norm",
            Self::KeyNorm => "self_attn.k_norm",
            Self::Output => "self_attn.o_proj",
            Self::AttentionPostNorm => "post_attention_layernorm",
            // The same name, after attention, has two meanings.
            Self::FeedForwardNorm if config.post_norms => "pre_feedforward_layernorm",
            Self::FeedForwardNorm => "post_attention_layernorm",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
            Self::FeedForwardPostNorm => "post_feedforward_layernorm",
        }
    }

    fn gguf(self) -> &'static str {
        match self {
            Self::AttentionNorm => "attn_norm",
            Self::Query => "attn_q",
            Self::Key => "attn_k",
            Self::Value => "attn_v",
            Self::QueryNorm => "attn_q_norm",
            Self::KeyNorm => "attn_k_norm",
            Self::Output => "attn_output",
            Self::AttentionPostNorm => "post_attention_norm",
            Self::FeedForwardNorm => "ffn_norm",
            Self::Gate => "ffn_gate",
            Self::Up => "ffn_up",
            Self::Down => "ffn_down",
            Self::FeedForwardPostNorm => "post_ffw_norm",
        }
    }
}
