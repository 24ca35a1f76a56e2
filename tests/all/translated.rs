//! A route over models with different tokenizers.
//!
//! The oracle: the small model's own weights with their rows turned, so that every token has another number. Between the two
//! any routing gives the ids of the small model alone, as every token has its counterpart.

use std::fs;
use std::path::Path;

use e2e::Server;
use journey::Adjustments;
use serde_json::{Value, json};
use tokenrouter::config::Config;
use tokenrouter::runtime::{Ask, Runtime};

use crate::self_pair::{answer, questions};

const ROUTES: &str = r#"
[models.a]
files = "embedded:small"
[models.turned]
files = "."
[routes.every]
models = ["a", "turned"]
policy = "builtin:entropy"
settings = { threshold = 0.0, tokens = 1 }
translate = true
[routes.random]
models = ["a", "turned"]
policy = "builtin:random-share"
settings = { share = 0.5 }
translate = true
[routes.visits]
models = ["turned", "a"]
policy = "builtin:margin"
settings = { threshold = 0.999, tokens = 5 }
translate = true
[routes.drafts]
models = ["a", "turned"]
policy = "builtin:speculative"
translate = true
[routes.together]
models = ["a", "turned"]
policy = "builtin:ensemble"
translate = true
"#;

/// The small model with the ids of its tokens turned by so much.
fn turn(folder: &Path, by: u64) {
    let file =
        |name: &str| tinypair::models::SMALL.files.iter().find(|(file, _)| *file == name).expect("there").1;
    let json = |name: &str| serde_json::from_slice::<Value>(file(name)).expect("JSON");
    let mut tokenizer = json("tokenizer.json");
    let vocabulary = tokenizer["model"]["vocab"].as_object_mut().expect("a vocabulary");
    let size = vocabulary.len() as u64;
    let turned = |id: &Value| json!((id.as_u64().expect("an id") + by) % size);
    vocabulary.values_mut().for_each(|id| *id = turned(id));
    tokenizer["added_tokens"]
        .as_array_mut()
        .expect("a list")
        .iter_mut()
        .for_each(|t| t["id"] = turned(&t["id"]));
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).expect("written");
    fs::write(folder.join("tokenizer_config.json"), file("tokenizer_config.json")).expect("written");
    for name in ["config.json", "generation_config.json"] {
        let mut config = json(name);
        for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
            config[key] = turned(&config[key]);
        }
        fs::write(folder.join(name), config.to_string()).expect("written");
    }
    let mut weights = file("model.safetensors").to_vec();
    let header = u64::from_le_bytes(weights[..8].try_into().expect("8 bytes")) as usize;
    let described: Value = serde_json::from_slice(&weights[8..8 + header]).expect("JSON");
    let place = &described["model.embed_tokens.weight"]["data_offsets"];
    let at = |ix: usize| 8 + header + place[ix].as_u64().expect("an offset") as usize;
    let rows = &mut weights[at(0)..at(1)];
    let row = rows.len() / size as usize;
    rows.rotate_right(row * by as usize);
    fs::write(folder.join("model.safetensors"), weights).expect("written");
}

async fn ids(runtime: &Runtime, route: &str, question: &str, how: &Ask) -> (Vec<u32>, String) {
    let made = answer(runtime, route, question, how).await;
    (made.ids, made.text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_one_model_whatever_its_tokens_are_called() {
    let here = tempfile::tempdir().expect("a folder");
    turn(here.path(), 100);
    let config = Config::parse(ROUTES, here.path()).expect("valid");
    let runtime = Runtime::start(&config, &mut ()).expect("both load");
    let plain = Ask { max_tokens: Some(100), ..Ask::greedy(Vec::new()) };
    let wishes =
        Adjustments { presence: 0.4, frequency: 0.2, repetition: 1.1, bias: vec![(9, 1.5), (40, -2.0)] };
    let adjusted = Ask { adjustments: wishes, tokens_min: 30, ..plain.clone() };
    for how in [plain, adjusted] {
        for question in questions(3) {
            let alone = ids(&runtime, "a", &question, &how).await;
            assert!(alone.0.len() > 10, "an answer worth comparing");
            for route in ["every", "random", "drafts", "together"] {
                let routed = ids(&runtime, route, &question, &how).await;
                assert_eq!(routed, alone, "{route} differs from one model alone on {question:?}");
            }
            // There home is the other model, so only the text is the same; what is biased is not.
            if how.adjustments.bias.is_empty() {
                assert_eq!(ids(&runtime, "visits", &question, &how).await.1, alone.1);
            }
        }
    }
    runtime.shut_down(std::time::Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_see_one_vocabulary() {
    let here = tempfile::tempdir().expect("a folder");
    turn(here.path(), 31);
    let files = here.path().display().to_string();
    let server = Server::start(&ROUTES.replace("files = \".\"", &format!("files = {files:?}")));
    let ask = async |model: &str| {
        let body = json!({"model": model, "temperature": 0, "max_tokens": 40, "logprobs": true, "top_logprobs": 3,
            "messages": [{"role": "user", "content": questions(1)[0]}]});
        server.post("/v1/chat/completions", &body).await.json()
    };
    let (alone, routed) = (ask("a").await, ask("every").await);
    assert_eq!(routed["choices"][0]["message"], alone["choices"][0]["message"]);
    assert_eq!(routed["usage"]["prompt_tokens"], alone["usage"]["prompt_tokens"]);
    let best = |answer: &Value| -> Vec<(String, String)> {
        let tokens = answer["choices"][0]["logprobs"]["content"].as_array().expect("a list").iter();
        tokens.map(|of| (of["token"].to_string(), of["top_logprobs"][0]["token"].to_string())).collect()
    };
    assert_eq!(best(&routed), best(&alone));
}
