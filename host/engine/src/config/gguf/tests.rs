//! Configs of headers without tensors.

use crate::checkpoint::Checkpoint;
use crate::config::rope::{Rope, Scaling, Yarn};
use crate::config::{Activation, Config, Span};
use crate::{EngineError, ModelFiles};

/// A value of a header.
#[derive(Clone, Copy, Debug)]
enum Is<'a> {
    Flag(bool),
    Size(u32),
    Number(f32),
    Text(&'a str),
    Texts(&'a [&'a str]),
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn value(value: Is<'_>) -> Vec<u8> {
    let (kind, bytes) = match value {
        Is::Flag(flag) => (7u32, vec![u8::from(flag)]),
        Is::Size(size) => (4, size.to_le_bytes().to_vec()),
        Is::Number(number) => (6, number.to_le_bytes().to_vec()),
        Is::Text(value) => (8, text(value)),
        Is::Texts(texts) => {
            let head = [&8u32.to_le_bytes()[..], &(texts.len() as u64).to_le_bytes()].concat();
            (9, [head, texts.iter().flat_map(|value| text(value)).collect()].concat())
        }
    };
    [kind.to_le_bytes().to_vec(), bytes].concat()
}

/// The config of a small model of an architecture whose keys are changed.
fn config(architecture: &str, changes: &[(&str, Option<Is<'_>>)]) -> Result<Config, EngineError> {
    let tokens = ["a", "<eos>", "<end_of_turn>", "b"];
    let own = |key: &str| format!("{architecture}.{key}");
    let mut entries = vec![
        ("general.architecture".to_owned(), Is::Text(architecture)),
        ("tokenizer.ggml.tokens".to_owned(), Is::Texts(&tokens)),
        ("tokenizer.ggml.eos_token_id".to_owned(), Is::Size(1)),
        (own("context_length"), Is::Size(64)),
        (own("embedding_length"), Is::Size(32)),
        (own("block_count"), Is::Size(7)),
        (own("feed_forward_length"), Is::Size(48)),
        (own("attention.head_count"), Is::Size(4)),
        (own("attention.head_count_kv"), Is::Size(2)),
        (own("attention.layer_norm_rms_epsilon"), Is::Number(0.5)),
    ];
    for (key, change) in changes {
        let key = if key.contains("ggml") || key.contains("general") { (*key).to_owned() } else { own(key) };
        entries.retain(|(name, _)| *name != key);
        entries.extend(change.map(|change| (key, change)));
    }
    let mut bytes = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes()].concat();
    bytes.extend((entries.len() as u64).to_le_bytes());
    entries.iter().for_each(|(key, entry)| bytes.extend([text(key), value(*entry)].concat()));
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    let files = vec![("m.gguf", &*bytes.leak())].leak();
    let files = ModelFiles::Embedded { name: "m", files };
    Config::read(&files, &mut Checkpoint::open(&files)?)
}

const FULL: Span = Span { window: None, rope: 0 };

#[test]
fn what_a_llama_leaves_unsaid_is_that_of_the_converters() {
    let config = config("llama", &[]).unwrap();
    let expected = Config {
        architecture: "LlamaForCausalLM".to_owned(),
        vocabulary: 4,
        context: 64,
        hidden: 32,
        intermediate: 48,
        layers: 7,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        norm_eps: 0.5,
        tied: true,
        eos: vec![1, 2],
        attention: vec![FULL; 7],
        ropes: vec![Rope { theta: 10_000.0, scaling: Scaling::None }],
        qkv_bias: false,
        output_bias: false,
        qk_norm: false,
        norm_offset: 0.0,
        post_norms: false,
        activation: Activation::Silu,
        embedding_scale: 1.0,
        attention_scale: 8f32.powf(-0.5),
        attention_softcap: None,
        logit_softcap: None,
    };
    assert_eq!(config, expected);
}

#[test]
fn every_sixth_layer_of_a_gemma3_sees_all_and_turns_by_other_frequencies() {
    let changes = [
        ("attention.sliding_window", Some(Is::Size(16))),
        ("attention.key_length", Some(Is::Size(12))),
        ("rope.freq_base", Some(Is::Number(1e6))),
        ("rope.scaling.factor", Some(Is::Number(8.0))),
        ("final_logit_softcapping", Some(Is::Number(30.0))),
    ];
    let config = config("gemma3", &changes).unwrap();
    let local = Span { window: Some(16), rope: 1 };
    assert_eq!(config.attention, [local, local, local, local, local, FULL, local]);
    let global = Rope { theta: 1e6, scaling: Scaling::Linear { factor: 8.0 } };
    assert_eq!(config.ropes, [global, Rope { theta: 10_000.0, scaling: Scaling::None }]);
    assert!(config.qk_norm && config.post_norms && config.norm_offset == 0.0);
    assert_eq!((config.activation, config.logit_softcap), (Activation::GeluTanh, Some(30.0)));
    assert_eq!((config.embedding_scale, config.attention_scale), (32f32.sqrt(), 12f32.powf(-0.5)));
}

#[test]
fn the_largest_gemma_scales_queries_by_the_width_of_the_model() {
    let changes = [("block_count", Some(Is::Size(62))), ("attention.key_length", Some(Is::Size(12)))];
    assert_eq!(config("gemma3", &changes).unwrap().attention_scale, 8f32.powf(-0.5));
}

#[test]
fn every_other_layer_of_a_gemma2_sees_a_window() {
    let config = config("gemma2", &[("attention.sliding_window", Some(Is::Size(16)))]).unwrap();
    let local = Span { window: Some(16), rope: 0 };
    assert_eq!(config.attention[..3], [local, FULL, local]);
    assert_eq!((config.attention_softcap, config.logit_softcap), (Some(50.0), Some(30.0)));
}

#[test]
fn yarn_grows_vectors_as_its_author_says() {
    let changes = [
        ("rope.scaling.type", Some(Is::Text("yarn"))),
        ("rope.scaling.factor", Some(Is::Number(4.0))),
        ("rope.scaling.original_context_length", Some(Is::Size(16))),
    ];
    let config = config("qwen2", &changes).unwrap();
    assert!(config.qkv_bias && !config.output_bias);
    let yarn = Yarn {
        factor: 4.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_context: 16,
        truncate: true,
        attention_factor: 0.1 * 4f64.ln() + 1.0,
    };
    assert_eq!(config.ropes, [Rope { theta: 10_000.0, scaling: Scaling::Yarn(yarn) }]);
}

#[test]
fn what_a_file_must_not_say_is_refused_by_name() {
    let cases = [
        ("llama", "block_count", None, "missing"),
        ("llama", "block_count", Some(Is::Size(1 << 28)), "up to 4096"),
        ("llama", "embedding_length", Some(Is::Size(0)), "from 1"),
        ("llama", "embedding_length", Some(Is::Text("big")), "whole number"),
        ("llama", "attention.head_count_kv", Some(Is::Size(3)), "divide"),
        ("llama", "attention.key_length", Some(Is::Size(7)), "even"),
        ("llama", "attention.value_length", Some(Is::Size(16)), "must be 8"),
        ("llama", "rope.dimension_count", Some(Is::Size(4)), "must be 8"),
        ("llama", "attention.layer_norm_rms_epsilon", Some(Is::Number(0.0)), "positive"),
        ("llama", "attention.layer_norm_rms_epsilon", None, "missing"),
        ("llama", "attention.causal", Some(Is::Flag(false)), "causal"),
        ("llama", "expert_count", Some(Is::Size(8)), "experts"),
        ("llama", "logit_scale", Some(Is::Number(8.0)), "not implemented"),
        ("llama", "attention.sliding_window", Some(Is::Size(16)), "no rule"),
        ("llama", "rope.scaling.type", Some(Is::Text("longrope")), "longrope"),
        ("gemma3", "attn_logit_softcapping", Some(Is::Number(50.0)), "without a cap"),
        ("gemma3", "attention.sliding_window_pattern", Some(Is::Size(0)), "from 1"),
    ];
    for (architecture, key, change, say) in cases {
        let error = config(architecture, &[(key, change)]).unwrap_err();
        let path = format!("{architecture}.{key}");
        let named =
            matches!(&error, EngineError::Config { file, key, .. } if file == "m.gguf" && *key == path);
        assert!(named && error.to_string().contains(say), "{path}: {error}");
    }
    let error = config("llama", &[("tokenizer.ggml.eos_token_id", Some(Is::Size(4)))]).unwrap_err();
    assert!(error.to_string().contains("below 4"), "{error}");
    let error = config("llama", &[("tokenizer.ggml.tokens", None)]).unwrap_err();
    assert!(error.to_string().contains("llama.vocab_size is missing"), "{error}");
    let error = config("gpt2", &[]).unwrap_err();
    assert!(matches!(&error, EngineError::Architecture { found, .. } if found == &["gpt2"]), "{error}");
}
