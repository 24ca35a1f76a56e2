//! What absent keys mean, and old keys beside new ones.

use serde_json::{Value, json};

use crate::checkpoint::Checkpoint;
use crate::config::rope::{Llama3, Rope, Scaling, Yarn};
use crate::config::{Activation, Config, Span};
use crate::{EngineError, ModelFiles};

/// The config of a class with the sizes that must be stated, and more keys.
fn config(class: &str, more: &Value) -> Result<Config, EngineError> {
    let mut keys = json!({
        "architectures": [class], "vocab_size": 10, "max_position_embeddings": 64, "hidden_size": 1024,
        "intermediate_size": 48, "num_hidden_layers": 7, "num_attention_heads": 32,
    });
    for (key, value) in more.as_object().unwrap() {
        keys[key] = value.clone();
    }
    // An empty safetensors file: a header of two bytes.
    let weights = b"\x02\0\0\0\0\0\0\0{}".as_slice();
    let keys: &[u8] = keys.to_string().into_bytes().leak();
    let files = vec![("config.json", keys), ("model.safetensors", weights)].leak();
    let files = ModelFiles::Embedded { name: "m", files };
    Config::read(&files, &mut Checkpoint::open(&files)?)
}

fn plain(theta: f64) -> Rope {
    Rope { theta, scaling: Scaling::None }
}

const FULL: Span = Span { window: None, rope: 0 };

#[test]
fn absent_keys_mean_what_they_mean_to_each_class() {
    let shape = |class: &str| {
        let config = config(class, &json!({})).unwrap();
        (config.kv_heads, config.head_dim, config.tied, config.ropes)
    };
    assert_eq!(shape("LlamaForCausalLM"), (32, 32, false, vec![plain(1e4)]));
    assert_eq!(shape("MistralForCausalLM"), (8, 32, false, vec![plain(1e4)]));
    assert_eq!(shape("Qwen2ForCausalLM"), (32, 32, false, vec![plain(1e4)]));
    assert_eq!(shape("Qwen3ForCausalLM"), (32, 128, false, vec![plain(1e4)]));
    assert_eq!(shape("Gemma2ForCausalLM"), (4, 256, true, vec![plain(1e4)]));
    assert_eq!(shape("Gemma3ForCausalLM"), (4, 256, true, vec![plain(1e6), plain(1e4)]));
    let null = config("MistralForCausalLM", &json!({"num_key_value_heads": null})).unwrap();
    assert_eq!(null.kv_heads, 32);
}

#[test]
fn biases_and_norms_are_those_of_the_class() {
    let of = |class: &str, more| {
        let config = config(class, &more).unwrap();
        (config.qkv_bias, config.output_bias, config.qk_norm, config.norm_offset, config.post_norms)
    };
    let bias = || json!({"attention_bias": true});
    assert_eq!(of("LlamaForCausalLM", json!({})), (false, false, false, 0.0, false));
    assert_eq!(of("LlamaForCausalLM", bias()), (true, true, false, 0.0, false));
    assert_eq!(of("Qwen2ForCausalLM", json!({})), (true, false, false, 0.0, false));
    assert_eq!(of("Qwen3ForCausalLM", json!({})), (false, false, true, 0.0, false));
    assert_eq!(of("Qwen3ForCausalLM", bias()), (true, true, true, 0.0, false));
    assert_eq!(of("Gemma2ForCausalLM", json!({})), (false, false, false, 1.0, true));
    assert_eq!(of("Gemma3ForCausalLM", json!({})), (false, false, true, 1.0, true));
    let error = config("MistralForCausalLM", &bias()).unwrap_err();
    assert!(error.to_string().contains("attention_bias"), "{error}");
}

#[test]
fn windows_are_where_the_class_has_them() {
    let windows = |class: &str, more: Value| {
        let spans = config(class, &more).unwrap().attention;
        spans.into_iter().map(|span| span.window.unwrap_or(0)).collect::<Vec<_>>()
    };
    assert_eq!(windows("MistralForCausalLM", json!({})), [4096; 7]);
    assert_eq!(windows("MistralForCausalLM", json!({"sliding_window": null})), [0; 7]);
    let late = json!({"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 5});
    assert_eq!(windows("Qwen2ForCausalLM", late.clone()), [0, 0, 0, 0, 0, 9, 9]);
    assert_eq!(windows("Qwen3ForCausalLM", late), [0, 0, 0, 0, 0, 9, 9]);
    assert_eq!(windows("Qwen2ForCausalLM", json!({"sliding_window": 9, "max_window_layers": 5})), [0; 7]);
    assert_eq!(windows("Gemma2ForCausalLM", json!({"sliding_window": 9})), [9, 0, 9, 0, 9, 0, 9]);
    assert_eq!(windows("Gemma3ForCausalLM", json!({"sliding_window": 9})), [9, 9, 9, 9, 9, 0, 9]);
    let every_third = json!({"sliding_window": 9, "sliding_window_pattern": 3});
    assert_eq!(windows("Gemma3ForCausalLM", every_third), [9, 9, 0, 9, 9, 0, 9]);
    let local = Span { window: Some(4096), rope: 1 };
    assert_eq!(config("Gemma3ForCausalLM", &json!({})).unwrap().attention[4..6], [local, FULL]);
}

#[test]
fn windows_that_contradict_themselves_are_refused() {
    let (full, sliding) = (vec!["full_attention"; 7], vec!["sliding_attention"; 7]);
    let cases = [
        ("LlamaForCausalLM", json!({"layer_types": sliding}), "layer_types", "cannot"),
        ("MistralForCausalLM", json!({"layer_types": full}), "layer_types", "cannot"),
        ("Qwen2ForCausalLM", json!({"layer_types": sliding}), "sliding_window", "layer 0"),
        ("Qwen2ForCausalLM", json!({"layer_types": full[..6]}), "layer_types", "7 layers"),
        ("Qwen3ForCausalLM", json!({"layer_types": ["chunked_attention"]}), "layer_types", "chunked"),
        ("Gemma3ForCausalLM", json!({"sliding_window": null}), "sliding_window", "layer 0"),
        (
            "Gemma3ForCausalLM",
            json!({"use_bidirectional_attention": true}),
            "use_bidirectional_attention",
            "causal",
        ),
        ("Gemma3ForCausalLM", json!({"attn_logit_softcapping": 50.0}), "attn_logit_softcapping", "without"),
    ];
    for (class, more, key, say) in cases {
        let error = config(class, &more).unwrap_err();
        let named = matches!(&error, EngineError::Config { key: named, .. } if named == key);
        assert!(named && error.to_string().contains(say), "{class} {more}: {error}");
    }
}

#[test]
fn old_keys_of_positions_mean_the_same_as_new_ones() {
    let rope = |class: &str, more: Value| config(class, &more).unwrap().ropes;
    let scaling = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    });
    let mut new = scaling.clone();
    new["rope_theta"] = json!(5e5);
    let old = rope("LlamaForCausalLM", json!({"rope_theta": 5e5, "rope_scaling": scaling}));
    let llama3 = Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_context: 32 };
    assert_eq!(old, [Rope { theta: 5e5, scaling: Scaling::Llama3(llama3) }]);
    assert_eq!(old, rope("LlamaForCausalLM", json!({"rope_parameters": new})));

    let linear = json!({"rope_type": "linear", "factor": 8.0});
    let old = json!({"rope_theta": 2e6, "rope_local_base_freq": 3e4, "rope_scaling": linear});
    let new = json!({"rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
        "sliding_attention": {"rope_theta": 3e4},
    }});
    let old = rope("Gemma3ForCausalLM", old);
    assert_eq!(old, [Rope { theta: 2e6, scaling: Scaling::Linear { factor: 8.0 } }, plain(3e4)]);
    assert_eq!(old, rope("Gemma3ForCausalLM", new));
}

#[test]
fn yarn_takes_its_growth_from_the_keys_that_there_are() {
    let yarn = |more: Value| {
        let mut keys = json!({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16});
        more.as_object().unwrap().iter().for_each(|(key, value)| keys[key] = value.clone());
        match &config("Qwen3ForCausalLM", &json!({"rope_scaling": keys})).unwrap().ropes[0].scaling {
            Scaling::Yarn(yarn) => yarn.clone(),
            other => panic!("{other:?}"),
        }
    };
    let growth = |scale: f64| 0.1 * scale * 4f64.ln() + 1.0;
    let expected = Yarn {
        factor: 4.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_context: 16,
        truncate: true,
        attention_factor: growth(1.0),
    };
    assert_eq!(yarn(json!({})), expected);
    assert_eq!(yarn(json!({"attention_factor": 0.5})).attention_factor, 0.5);
    let scaled = yarn(json!({"mscale": 2.0, "mscale_all_dim": 0.5, "truncate": false, "beta_fast": 8}));
    assert_eq!(scaled.attention_factor, growth(2.0) / growth(0.5));
    assert_eq!((scaled.truncate, scaled.beta_fast), (false, 8.0));
}

#[test]
fn gemma_scales_embeddings_queries_and_logits_by_its_keys() {
    let config = config("Gemma3ForCausalLM", &json!({"query_pre_attn_scalar": 168})).unwrap();
    assert_eq!((config.embedding_scale, config.attention_scale), (32.0, 168f64.powf(-0.5) as f32));
    assert_eq!((config.attention_softcap, config.logit_softcap), (None, None));
    assert_eq!(config.activation, Activation::GeluTanh);
    let softcaps = |more: Value| {
        let config = self::config("Gemma2ForCausalLM", &more).unwrap();
        (config.attention_softcap, config.logit_softcap)
    };
    assert_eq!(softcaps(json!({})), (Some(50.0), Some(30.0)));
    let keys = json!({"attn_logit_softcapping": null, "final_logit_softcapping": 5});
    assert_eq!(softcaps(keys), (None, Some(5.0)));
}
