//! Logits and token ids equal those of the reference implementation. `tests/golden/make.py` makes the files.

use engine::{ChatMessage, Loaded, ModelFiles, Row, inspect};
use journey::{Draw, JourneyId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

use crate::checkpoints::{golden, open, pair, random};

#[derive(Deserialize)]
struct Golden {
    models: BTreeMap<String, Vec<Run>>,
    #[serde(default)]
    texts: Vec<Text>,
    #[serde(default)]
    chats: Vec<Chat>,
}

/// A prompt, the best token and its logit at every position, and all logits at the last.
#[derive(Deserialize)]
struct Run {
    tokens: Vec<u32>,
    best: Vec<u32>,
    best_logits: Vec<f32>,
    last_logits: Vec<f32>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Chat {
    messages: Vec<Message>,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: String,
}

fn read(path: &Path) -> Golden {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Feeds one token at a time and returns the largest difference of a logit.
fn largest_error(loaded: &mut Loaded, run: &Run, journey: JourneyId) -> f32 {
    let draws = &[Draw { candidates: 1, ..Draw::GREEDY }];
    let mut error = 0.0f32;
    for (position, token) in run.tokens.iter().enumerate() {
        let row = Row { journey, salt: 0, from: position, tokens: &[*token], draws };
        let mut last = Vec::new();
        let step = loaded.engine.step_watched(&[row], &mut |_, logits| last = logits.to_vec()).unwrap();
        let sampled = &step[0];
        assert_eq!(sampled.candidates[0].logit, last[sampled.token as usize]);
        // Of both that are best, so that they are the same or as near as the error.
        for ours in [sampled.candidates[0].logit, last[run.best[position] as usize]] {
            error = error.max((ours - run.best_logits[position]).abs());
        }
        if position + 1 == run.tokens.len() {
            assert_eq!(last.len(), run.last_logits.len());
            let pairs = last.iter().zip(&run.last_logits);
            error = pairs.map(|(ours, theirs)| (ours - theirs).abs()).fold(error, f32::max);
        }
    }
    error
}

fn check(mut loaded: Loaded, runs: &[Run], tolerance: f32) {
    assert!(!runs.is_empty());
    for (journey, run) in (0..).map(JourneyId).zip(runs) {
        let error = largest_error(&mut loaded, run, journey);
        assert!(error <= tolerance, "largest error of a logit {error}");
    }
}

#[test]
fn the_pair_gives_the_logits_of_the_reference() {
    for (name, runs) in read(&golden("pair.json")).models {
        check(open(&pair(&name)).unwrap(), &runs, TOLERANCE);
    }
}

#[test]
fn an_untied_model_in_every_storage_gives_the_logits_of_the_reference() {
    for variant in ["f32", "bf16", "f16-sharded"] {
        let directory = random(variant);
        let runs = &read(&directory.join("golden.json")).models[variant];
        check(open(&directory).unwrap(), runs, TOLERANCE);
    }
}

#[test]
fn every_architecture_gives_the_logits_of_the_reference() {
    for (path, architecture, tolerance) in FAMILIES {
        let directory = golden(path);
        let spec = inspect(&ModelFiles::Directory(directory.clone())).unwrap();
        assert_eq!(spec.architecture, architecture);
        let runs = read(&directory.join("golden.json")).models.into_values().next();
        check(open(&directory).unwrap(), &runs.unwrap(), tolerance);
    }
}

#[test]
fn texts_and_chats_give_the_token_ids_of_the_reference() {
    let golden = read(&golden("pair.json"));
    let tokenizer = open(&pair("large")).unwrap().tokenizer;
    assert!(golden.texts.len() >= 3 && golden.chats.len() >= 3);
    for Text { text, ids } in golden.texts {
        assert_eq!(tokenizer.encode(&text).unwrap(), ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids), text);
    }
    for Chat { messages, ids } in golden.chats {
        let message = |Message { role, content }| ChatMessage { role, content };
        let messages: Vec<ChatMessage> = messages.into_iter().map(message).collect();
        assert_eq!(tokenizer.encode_chat(&messages).unwrap(), ids);
    }
}

const TOLERANCE: f32 = 1e-4;

/// Activations are rounded to eight bits where weights are quantised, and these models, with their sharp attention, make
/// the most of it: up to 0.23. That the weights are read exactly is for the oracle to say.
const TOLERANCE_QUANTISED: f32 = 0.5;

/// The tiny models, one for each set of differences between architectures.
const FAMILIES: [(&str, &str, f32); 9] = [
    ("families/llama3", "LlamaForCausalLM", TOLERANCE),
    ("families/mistral", "MistralForCausalLM", TOLERANCE),
    ("families/qwen2", "Qwen2ForCausalLM", TOLERANCE),
    ("families/qwen3", "Qwen3ForCausalLM", TOLERANCE),
    ("families/gemma2", "Gemma2ForCausalLM", TOLERANCE),
    ("families/gemma3", "Gemma3ForCausalLM", TOLERANCE),
    ("gguf/llama", "LlamaForCausalLM", TOLERANCE),
    ("gguf/qwen2", "Qwen2ForCausalLM", TOLERANCE_QUANTISED),
    ("gguf/gemma3", "Gemma3ForCausalLM", TOLERANCE),
];
