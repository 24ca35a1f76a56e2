//! Logits equal those of the reference implementation, for every architecture and storage.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::*;
use crate::Engine;

#[derive(Deserialize)]
struct Golden {
    models: BTreeMap<String, Vec<Run>>,
}

/// A prompt, the best token and its logit at every position, and all logits at the last.
#[derive(Deserialize)]
struct Run {
    tokens: Vec<u32>,
    best: Vec<u32>,
    best_logits: Vec<f32>,
    last_logits: Vec<f32>,
}

fn runs(file: &Path, model: Option<&str>) -> Vec<Run> {
    let golden: Golden = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut models = golden.models.into_iter();
    models.find(|(name, _)| model.is_none_or(|model| model == name)).unwrap().1
}

/// The largest difference of a logit, fed token by token and at once.
fn largest_error(engine: &mut GpuEngine, runs: &[Run]) -> f32 {
    let mut error = 0.0f32;
    assert!(!runs.is_empty());
    for (run, id) in runs.iter().zip((0..).step_by(2)) {
        let mut last = Vec::new();
        for (position, token) in run.tokens.iter().enumerate() {
            last = logits(engine, &[row(id, position, &[*token])]).unwrap().remove(0);
            error = error.max((last[run.best[position] as usize] - run.best_logits[position]).abs());
        }
        engine.release(JourneyId(id));
        let at_once = Row { salt: 1, ..row(id + 1, 0, &run.tokens) };
        let at_once = logits(engine, &[at_once]).unwrap().remove(0);
        engine.release(JourneyId(id + 1));
        error = error.max(largest_difference(&last, &run.last_logits));
        error = error.max(largest_difference(&at_once, &run.last_logits));
    }
    error
}

#[test]
fn every_architecture_and_storage_gives_the_logits_of_the_reference() {
    for name in [
        "families/llama3",
        "families/mistral",
        "families/qwen2",
        "families/qwen3",
        "families/gemma2",
        "families/gemma3",
        "random/f32",
        "random/bf16",
        "random/f16-sharded",
        "gguf/llama",
        "gguf/qwen2",
        "gguf/gemma3",
    ] {
        let directory = golden_path(name);
        let runs = runs(&directory.join("golden.json"), None);
        let error = largest_error(&mut open(&directory, options()), &runs);
        assert!(error <= 1e-4, "{name}: largest error of a logit {error}");
    }
}

#[test]
fn the_pair_gives_the_logits_of_the_reference() {
    for name in ["small", "large"] {
        let runs = runs(&golden_path("pair.json"), Some(name));
        let error = largest_error(&mut open(&pair(name), options()), &runs);
        assert!(error <= 1e-4, "{name}: largest error of a logit {error}");
    }
}

#[test]
fn half_precision_stays_near_the_reference() {
    // What rounding makes of logits up to 18. The reference in bf16 is off by 1.1 itself.
    for (name, compute, kv, most) in
        [("small", DType::BF16, KvType::Auto, 2.0), ("small", DType::F32, KvType::F16, 0.05)]
    {
        let runs = runs(&golden_path("pair.json"), Some(name));
        let mut engine = open_as(&pair(name), LoadOptions { kv, ..options() }, compute);
        let error = largest_error(&mut engine, &runs);
        assert!(
            error > 0.0 && error <= most,
            "{name} in {compute:?}, {kv:?}: largest error of a logit {error}"
        );
    }
}
