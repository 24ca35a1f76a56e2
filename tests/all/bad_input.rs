//! What is wrong with a configuration is said once, with the key or file and what to do, before anything is served.

use std::fs;
use std::path::Path;

use tokenrouter::config::Config;
use tokenrouter::runtime::{Runtime, builtin_policies};

const PAIR: &str = "[models.a]\nfiles = \"embedded:small\"\n[models.b]\nfiles = \"embedded:large\"\n";

/// The error of starting with a configuration, with its causes.
fn refusal(text: &str, folder: &Path) -> String {
    let config = Config::parse(text, folder).expect("the configuration itself is well-formed");
    let runtime = tokio::runtime::Runtime::new().expect("a tokio runtime");
    let _inside = runtime.enter();
    let Err(error) = Runtime::start(&config, &mut ()) else { panic!("must be refused: {text}") };
    let mut shown = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        shown += &format!(": {error}");
        cause = error.source();
    }
    shown
}

fn route(policy: &str, more: &str) -> String {
    format!("{PAIR}[routes.r]\nmodels = [\"a\", \"b\"]\npolicy = \"{policy}\"\n{more}")
}

#[track_caller]
fn assert_says(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn a_model_that_does_not_exist_is_named() {
    let here = tempfile::tempdir().expect("a folder");
    let error = refusal("[models.a]\nfiles = \"embedded:huge\"", here.path());
    assert_says(&error, &["models.\"a\".files", "huge", "small"]);
    let error = refusal("[models.a]\nfiles = \"nowhere\"", here.path());
    assert_says(&error, &["models.\"a\"", "nowhere", "model.safetensors", ".gguf"]);
}

#[test]
fn torn_weights_are_named() {
    let here = tempfile::tempdir().expect("a folder");
    for (name, bytes) in tinypair::models::SMALL.files {
        let kept = if *name == "model.safetensors" { bytes.len() / 2 } else { bytes.len() };
        fs::write(here.path().join(name), &bytes[..kept]).expect("writable");
    }
    let error = refusal("[models.a]\nfiles = \".\"", here.path());
    assert_says(&error, &["models.\"a\"", "model.safetensors", "damaged"]);
}

#[test]
fn models_of_a_route_must_share_their_tokenizer() {
    let here = tempfile::tempdir().expect("a folder");
    for (name, bytes) in tinypair::models::SMALL.files {
        fs::write(here.path().join(name), bytes).expect("writable");
    }
    let path = here.path().join("tokenizer.json");
    let mut tokenizer: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("text")).expect("JSON");
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().expect("a vocabulary");
    let (a, b) = (vocabulary["A"].clone(), vocabulary["B"].clone());
    vocabulary.insert("A".to_owned(), b);
    vocabulary.insert("B".to_owned(), a);
    fs::write(&path, tokenizer.to_string()).expect("writable");
    let text = "[models.a]\nfiles = \"embedded:large\"\n[models.b]\nfiles = \".\"\n\
        [routes.r]\nmodels = [\"a\", \"b\"]\npolicy = \"builtin:margin\"";
    assert_says(&refusal(text, here.path()), &["routes.\"r\"", "\"a\"", "\"b\"", "different tokenizers"]);
}

#[test]
fn a_policy_that_cannot_be_used_is_named() {
    let here = tempfile::tempdir().expect("a folder");
    let margin = builtin_policies().into_iter().find(|(name, _)| *name == "margin").expect("built in").1;
    let files: [(&str, &[u8]); 3] = [
        ("text.wasm", b"hello"),
        ("module.wasm", b"\0asm\x01\0\0\0"),
        ("torn.wasm", &margin[..margin.len() / 2]),
    ];
    for (name, bytes) in files {
        fs::write(here.path().join(name), bytes).expect("writable");
    }
    assert_says(
        &refusal(&route("builtin:oracle", ""), here.path()),
        &["routes.\"r\".policy", "oracle", "margin"],
    );
    assert_says(&refusal(&route("missing.wasm", ""), here.path()), &["routes.\"r\".policy", "missing.wasm"]);
    assert_says(&refusal(&route("text.wasm", ""), here.path()), &["routes.\"r\".policy", "not"]);
    assert_says(&refusal(&route("module.wasm", ""), here.path()), &["routes.\"r\".policy", "component"]);
    assert_says(&refusal(&route("torn.wasm", ""), here.path()), &["routes.\"r\".policy"]);
}

#[test]
fn settings_that_a_policy_does_not_know_are_named() {
    let here = tempfile::tempdir().expect("a folder");
    let error = refusal(&route("builtin:margin", "settings = { treshold = 0.5 }"), here.path());
    assert_says(&error, &["routes.\"r\"", "treshold", "threshold"]);
    let error = refusal(&route("builtin:margin", "settings = { threshold = 7.0 }"), here.path());
    assert_says(&error, &["routes.\"r\"", "threshold", "7"]);
}
