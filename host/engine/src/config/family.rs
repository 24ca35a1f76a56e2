//! The architectures, as a table of what their configs leave unsaid.
//!
//! A checkpoint names its class, and the class implies details that no key states, and the values of keys that are
//! absent. Values are those of the classes in the reference implementation.

use super::Activation;

/// What a class of checkpoints implies.
pub(super) struct Family {
    /// The class.
    pub(super) class: &'static str,
    /// The architecture's name in GGUF files; `None` where they use another family's.
    pub(super) gguf: Option<&'static str>,
    /// Value of absent keys and value heads; `None` is as many as query heads.
    pub(super) kv_heads: Option<usize>,
    /// Value of an absent head width; `None` is the width of the residual stream over the heads.
    pub(super) head_dim: Option<usize>,
    /// Whether the head is the embedding if no key says so.
    pub(super) tied: bool,
    /// Which projections of attention have biases.
    pub(super) biases: Biases,
    /// Which layers see a window only.
    pub(super) windows: Windows,
    /// Whether query and key heads have norms.
    pub(super) qk_norm: bool,
    /// What is added to the weights of norms.
    pub(super) norm_offset: f32,
    /// Whether there are norms after attention and after the feed-forward block.
    pub(super) post_norms: bool,
    /// The key of the activation and its value if absent.
    pub(super) activation: (&'static str, Activation),
    /// Whether embeddings are multiplied by the root of their width.
    pub(super) scaled_embedding: bool,
    /// Value of an absent `query_pre_attn_scalar`; `None`: there is no such key, and queries are scaled by the head's
    /// width.
    pub(super) query_scalar: Option<f64>,
    /// GGUF files leave that scalar out: it is the head's width, but for the one size with so many layers, where it is
    /// the width of the residual stream over the heads.
    pub(super) layers_of_shared_width: Option<usize>,
    /// What products of queries and keys go through.
    pub(super) attention_softcap: Softcap,
    /// What logits go through.
    pub(super) logit_softcap: Softcap,
    /// Base of the rotary frequencies if absent.
    pub(super) theta: f64,
    /// The same for layers with a window, of architectures that tell the two apart.
    pub(super) local_theta: Option<f64>,
}

/// Which projections of attention have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Biases {
    /// None, whatever a key says.
    Never,
    /// All four if `attention_bias` is true.
    ByKey,
    /// Those of queries, keys and values.
    Inputs,
}

/// Which layers see only a window of the latest positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// No layer.
    Never,
    /// Every layer, unless `sliding_window` is null.
    Every,
    /// If `use_sliding_window` is true: those that `layer_types` names, or else all from `max_window_layers` on.
    Late,
    /// Those that `layer_types` names, or else all but one in so many.
    AllButEach {
        /// The number, if `sliding_window_pattern` is absent.
        period: usize,
    },
}

/// Whether numbers are kept within a bound by a tanh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Softcap {
    /// The class does not do it, whatever a key says.
    Never,
    /// By a key.
    ByKey {
        /// The bound if the key is absent.
        absent: Option<f64>,
    },
}

impl Family {
    /// What embeddings are multiplied by. The reference rounds the root to the type that it computes in; that is f32
    /// here.
    pub(super) fn embedding_scale(&self, hidden: usize) -> f32 {
        if self.scaled_embedding { (hidden as f64).sqrt() as f32 } else { 1.0 }
    }
}

/// The family of a class.
pub(super) fn of_class(class: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.class == class)
}

/// The family of an architecture in a GGUF file.
pub(super) fn of_gguf(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.gguf == Some(name))
}

const LLAMA: Family = Family {
    class: "LlamaForCausalLM",
    gguf: Some("llama"),
    kv_heads: None,
    head_dim: None,
    tied: false,
    biases: Biases::ByKey,
    windows: Windows::Never,
    qk_norm: false,
    norm_offset: 0.0,
    post_norms: false,
    activation: ("hidden_act", Activation::Silu),
    scaled_embedding: false,
    query_scalar: None,
    layers_of_shared_width: None,
    attention_softcap: Softcap::Never,
    logit_softcap: Softcap::Never,
    theta: 10_000.0,
    local_theta: None,
};

const GEMMA2: Family = Family {
    class: "Gemma2ForCausalLM",
    gguf: Some("gemma2"),
    kv_heads: Some(4),
    head_dim: Some(256),
    tied: true,
    biases: Biases::ByKey,
    windows: Windows::AllButEach { period: 2 },
    qk_norm: false,
    norm_offset: 1.0,
    post_norms: true,
    activation: ("hidden_activation", Activation::GeluTanh),
    scaled_embedding: true,
    query_scalar: Some(256.0),
    layers_of_shared_width: Some(46),
    attention_softcap: Softcap::ByKey { absent: Some(50.0) },
    logit_softcap: Softcap::ByKey { absent: Some(30.0) },
    theta: 10_000.0,
    local_theta: None,
};

const FAMILIES: [Family; 6] = [
    LLAMA,
    Family {
        class: "MistralForCausalLM",
        gguf: None,
        kv_heads: Some(8),
        biases: Biases::Never,
        windows: Windows::Every,
        ..LLAMA
    },
    Family {
        class: "Qwen2ForCausalLM",
        gguf: Some("qwen2"),
        kv_heads: Some(32),
        biases: Biases::Inputs,
        windows: Windows::Late,
        ..LLAMA
    },
    Family {
        class: "Qwen3ForCausalLM",
        gguf: Some("qwen3"),
        kv_heads: Some(32),
        head_dim: Some(128),
        windows: Windows::Late,
        qk_norm: true,
        ..LLAMA
    },
    GEMMA2,
    Family {
        class: "Gemma3ForCausalLM",
        gguf: Some("gemma3"),
        layers_of_shared_width: Some(62),
        windows: Windows::AllButEach { period: 6 },
        qk_norm: true,
        attention_softcap: Softcap::Never,
        logit_softcap: Softcap::ByKey { absent: None },
        theta: 1_000_000.0,
        local_theta: Some(10_000.0),
        ..GEMMA2
    },
];
