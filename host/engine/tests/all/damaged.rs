//! Torn and contradictory tensor files: each is told by name, none panics.

use engine::{EngineError, LoadOptions, ModelFiles, inspect, load};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::checkpoints::{Copied, random};

const WEIGHTS: &str = "model.safetensors";

/// The parts of a safetensors file.
fn parts(file: &[u8]) -> (Value, Vec<u8>) {
    let len = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&file[8..8 + len]).unwrap(), file[8 + len..].to_vec())
}

fn joined(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A copy of the random model with a changed header.
fn with_header(change: impl FnOnce(&mut Value)) -> Copied {
    let copy = Copied::of(&random("f32"));
    let (mut header, data) = parts(&copy.read(WEIGHTS));
    change(&mut header);
    copy.write(WEIGHTS, &joined(&header, &data))
}

fn error(copy: &Copied) -> EngineError {
    let inspected = inspect(&copy.files()).unwrap_err();
    let loaded = copy.open().err().unwrap();
    assert_eq!(inspected.to_string(), loaded.to_string());
    loaded
}

#[test]
fn a_missing_tensor_is_named() {
    let copy = with_header(|header| {
        header.as_object_mut().unwrap().remove("model.layers.1.mlp.up_proj.weight");
    });
    let error = error(&copy);
    assert!(
        matches!(&error, EngineError::MissingTensor { tensor, file }
            if tensor == "model.layers.1.mlp.up_proj.weight" && file == WEIGHTS),
        "{error}"
    );
}

#[test]
fn a_shape_that_does_not_fit_is_told_with_both_shapes() {
    let copy =
        Copied::of(&random("f32")).edit("config.json", |config| config["intermediate_size"] = json!(32));
    let error = error(&copy);
    let text = "tensor model.layers.0.mlp.gate_proj.weight in model.safetensors has shape [24, 16], but the config asks for [32, 16]";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_type_that_is_not_read_is_named() {
    let copy = with_header(|header| header["lm_head.weight"]["dtype"] = json!("F8_E4M3"));
    let error = error(&copy);
    assert!(matches!(&error, EngineError::TensorType { found, .. } if found == "F8_E4M3"), "{error}");
}

#[test]
fn bytes_that_do_not_fit_the_shape_are_damage() {
    let damaged = |copy: Copied, say: &str| {
        let error = error(&copy);
        let said = matches!(&error, EngineError::Damaged { file, problem } if file == WEIGHTS && problem.contains(say));
        assert!(said, "{error}");
    };
    damaged(with_header(|header| header["lm_head.weight"]["dtype"] = json!("F16")), "lm_head.weight");
    let beyond = |header: &mut Value| header["model.norm.weight"]["data_offsets"] = json!([0, 1u64 << 60]);
    damaged(with_header(beyond), "model.norm.weight");
    let turned = |header: &mut Value| header["model.norm.weight"]["data_offsets"] = json!([64, 0]);
    damaged(with_header(turned), "model.norm.weight");
    damaged(with_header(|header| header["model.norm.weight"] = json!(3)), "model.norm.weight");
    damaged(Copied::of(&random("f32")).write(WEIGHTS, &[]), "0 bytes");
    damaged(Copied::of(&random("f32")).write(WEIGHTS, &[255; 40]), "header");
    damaged(Copied::of(&random("f32")).write(WEIGHTS, b"\x04\0\0\0\0\0\0\0nope"), "not valid JSON");
}

#[test]
fn a_shape_beyond_any_number_is_damage() {
    let huge = 1u64 << 28;
    let copy = with_header(|header| {
        header["model.embed_tokens.weight"]["shape"] = json!([huge, huge]);
        header["model.norm.weight"]["shape"] = json!([huge]);
    });
    let copy = copy.edit("config.json", |config| {
        config["vocab_size"] = json!(huge);
        config["hidden_size"] = json!(huge);
    });
    let error = error(&copy);
    assert!(
        matches!(&error, EngineError::Damaged { problem, .. } if problem.contains("embed_tokens")),
        "{error}"
    );
}

#[test]
fn a_missing_shard_and_a_shard_elsewhere_are_refused() {
    let shard = "model-00002-of-00002.safetensors";
    let error = error(&Copied::of(&random("f16-sharded")).remove(shard));
    assert!(matches!(&error, EngineError::MissingFile { file, .. } if file == shard), "{error}");
    let index = "model.safetensors.index.json";
    let copy = Copied::of(&random("f16-sharded"))
        .edit(index, |index| index["weight_map"]["model.norm.weight"] = json!("../other/model.safetensors"));
    assert!(matches!(self::error(&copy), EngineError::Config { key, .. } if key == "weight_map"));
    let copy = Copied::of(&random("f16-sharded")).write(index, b"{}");
    assert!(matches!(self::error(&copy), EngineError::Json { file, .. } if file == index));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However a file is cut, loading says so: no length is taken on trust.
    #[test]
    fn a_file_cut_anywhere_is_refused(cut in 0.0f64..1.0) {
        let copy = Copied::of(&random("f32"));
        let whole = copy.read(WEIGHTS);
        let copy = copy.write(WEIGHTS, &whole[..(whole.len() as f64 * cut) as usize]);
        let error = error(&copy);
        prop_assert!(matches!(&error, EngineError::Damaged { file, .. } if file == WEIGHTS), "{}", error);
    }

    /// Changed bytes may give another valid model, but never a panic.
    #[test]
    fn changed_bytes_never_panic(at in 0usize..2600, byte: u8) {
        let copy = Copied::of(&random("f32"));
        let mut content = copy.read(WEIGHTS);
        content[at] = byte;
        let copy = copy.write(WEIGHTS, &content);
        let loaded = load("x", &copy.files(), LoadOptions::default(), &mut |_| ()).map(drop);
        match (inspect(&copy.files()), loaded) {
            (Ok(_), Ok(())) | (Err(_), Err(_)) => {}
            // Whoever inspects a file reads its header; a weight that is no number is found where weights are read.
            (Ok(_), Err(EngineError::NotFiniteWeights { .. })) => {}
            (inspected, loaded) => prop_assert!(false, "inspected {:?}, loaded {:?}", inspected.is_ok(), loaded),
        }
    }
}

#[test]
fn a_directory_that_is_none_is_a_missing_file() {
    let files = ModelFiles::Directory("no/such/place".into());
    let error = inspect(&files).unwrap_err();
    let text = "model.safetensors is missing from no/such/place; a checkpoint needs model.safetensors, or";
    assert!(error.to_string().starts_with(text) && error.to_string().contains(".gguf"), "{error}");
}
