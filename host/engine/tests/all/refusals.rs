//! Configs and tokenizers that this engine cannot follow are refused by their key.

use engine::{EngineError, inspect};
use serde_json::{Value, json};

use crate::checkpoints::{Copied, pair, random};

fn config(change: impl FnOnce(&mut Value)) -> EngineError {
    inspect(&Copied::of(&random("f32")).edit("config.json", change).files()).unwrap_err()
}

#[test]
fn keys_that_would_change_the_numbers_are_refused_by_name() {
    let cases = [
        ("mlp_bias", json!(true), "bias"),
        ("hidden_act", json!("gelu"), "silu"),
        ("quantization_config", json!({"bits": 4}), "null"),
        ("sliding_window", json!(512), "null"),
        ("hidden_size", Value::Null, "missing"),
        ("hidden_size", json!(-16), "whole number"),
        ("vocab_size", json!("many"), "whole number"),
        ("num_attention_heads", json!(0), "whole number"),
        ("num_hidden_layers", json!(1u64 << 40), "whole number"),
        ("num_key_value_heads", json!(3), "divide"),
        ("head_dim", json!(7), "even"),
        ("rms_norm_eps", json!(-1.0), "positive"),
        ("tie_word_embeddings", json!("yes"), "true or false"),
        ("eos_token_id", json!(288), "below 288"),
        ("eos_token_id", json!([1, "x"]), "token id"),
    ];
    for (key, value, say) in cases {
        let error = config(|config| config[key] = value.clone());
        let named = matches!(&error, EngineError::Config { file, key: named, .. } if file == "config.json" && named == key);
        assert!(named && error.to_string().contains(say), "{key} = {value}: {error}");
    }
}

#[test]
fn rotary_positions_that_are_not_implemented_are_refused_by_name() {
    let llama3 =
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0});
    let cases = [
        ("rope_parameters", json!({"rope_type": "default", "rope_theta": 0}), "rope_theta", "positive"),
        ("rope_scaling", json!({"rope_type": "dynamic", "factor": 8.0}), "rope_type", "dynamic"),
        ("rope_scaling", json!({"type": "longrope", "factor": 8.0}), "rope_type", "longrope"),
        ("rope_scaling", json!({"factor": 2.0}), "rope_type", "missing"),
        ("rope_scaling", json!({"rope_type": "linear"}), "factor", "missing"),
        ("rope_scaling", json!({"rope_type": "llama3", "factor": 8.0}), "low_freq_factor", "missing"),
        ("rope_scaling", llama3, "high_freq_factor", "above"),
        ("rope_parameters", json!({"rope_type": "yarn", "rope_theta": 1e4}), "factor", "missing"),
        ("rope_parameters", json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor", "whole"),
        ("rope_parameters", json!({"full_attention": {"rope_theta": 1e4}}), "full_attention", "one rotary"),
    ];
    for (key, value, inner, say) in cases {
        let error = config(|config| config[key] = value.clone());
        let path = format!("{key}.{inner}");
        let named = matches!(&error, EngineError::Config { key: named, .. } if *named == path);
        assert!(named && error.to_string().contains(say), "{key} = {value}: {error}");
    }
}

#[test]
fn sizes_beyond_reason_are_refused_without_being_allocated() {
    let error = config(|config| config["num_hidden_layers"] = json!(1 << 28));
    assert!(matches!(&error, EngineError::Config { key, .. } if key == "num_hidden_layers"), "{error}");
    let error = config(|config| config["num_hidden_layers"] = json!(1 << 12));
    assert!(
        matches!(&error, EngineError::MissingTensor { tensor, .. } if tensor.contains("layers.2.")),
        "{error}"
    );
    let error = config(|config| config["num_attention_heads"] = json!(1 << 28));
    assert!(matches!(&error, EngineError::TensorShape { .. }), "{error}");
    let long = Copied::of(&random("f32")).edit("config.json", |config| {
        config["max_position_embeddings"] = json!(1 << 28);
    });
    assert_eq!(engine::Engine::spec(&long.open().unwrap().engine).context, 1 << 28);
}

#[test]
fn plain_rotary_positions_are_read_from_old_and_new_keys() {
    let old = Copied::of(&random("f32")).edit("config.json", |config| {
        config["rope_parameters"] = Value::Null;
        config["rope_scaling"] = Value::Null;
        config["rope_theta"] = json!(500.0);
    });
    assert_eq!(inspect(&old.files()).unwrap().head_dim, 6);
}

#[test]
fn another_architecture_is_refused_by_name() {
    let error = config(|config| config["architectures"] = json!(["GemmaForCausalLM"]));
    assert!(
        matches!(&error, EngineError::Architecture { found, .. } if found == &["GemmaForCausalLM"]),
        "{error}"
    );
    let error = config(|config| config["architectures"] = Value::Null);
    assert!(matches!(&error, EngineError::Architecture { found, .. } if found.is_empty()), "{error}");
}

#[test]
fn files_that_are_missing_or_no_json_are_named() {
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        let error = Copied::of(&random("f32")).remove(file).open().err().unwrap();
        assert!(matches!(&error, EngineError::MissingFile { file: named, .. } if named == file), "{error}");
    }
    for file in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
        let error = Copied::of(&random("f32")).write(file, b"{\"a\": ").open().err().unwrap();
        assert!(matches!(&error, EngineError::Json { file: named, .. } if named == file), "{error}");
    }
}

#[test]
fn a_tokenizer_that_does_not_fit_is_refused() {
    let open = |copy: Copied| copy.open().err().unwrap();
    let small = || Copied::of(&pair("small"));
    let error =
        open(small().edit("tokenizer.json", |tokenizer| tokenizer["model"] = json!({"type": "None"})));
    assert!(matches!(&error, EngineError::Tokenizer { file, .. } if file == "tokenizer.json"), "{error}");
    let error = open(small().edit("tokenizer.json", |tokenizer| tokenizer["decoder"] = Value::Null));
    assert!(error.to_string().contains("decoder"), "{error}");
    let error =
        open(small().edit("tokenizer.json", |tokenizer| tokenizer["added_tokens"][1]["id"] = json!(5)));
    assert!(error.to_string().contains("<|im_start|>"), "{error}");
    let error = open(
        small().edit("tokenizer.json", |tokenizer| tokenizer["model"]["vocab"]["far"] = json!(4_000_000)),
    );
    assert!(error.to_string().contains("4000000"), "{error}");
    let error =
        open(small().edit("tokenizer.json", |tokenizer| tokenizer["model"]["vocab"]["new"] = json!(672)));
    assert!(matches!(&error, EngineError::Config { key, .. } if key == "vocab_size"), "{error}");
    let error = open(small().write("chat_template.jinja", b"{% if %}"));
    assert!(matches!(&error, EngineError::Template { .. }), "{error}");
    let error = open(small().write("chat_template.jinja", &[0xFF]));
    assert!(matches!(&error, EngineError::Template { .. }), "{error}");
}
