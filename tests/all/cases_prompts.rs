//! Situations of prompts and vocabularies: a doubled BOS, models whose logits are padded.

use std::fs;
use std::path::Path;

use e2e::Server;
use serde_json::{Value, json};

fn file(name: &str) -> &'static [u8] {
    tinypair::models::SMALL.files.iter().find(|(file, _)| *file == name).expect("there").1
}

/// The small model's files in a folder, with a change to one of those in JSON.
fn small_with(folder: &Path, changed: &str, change: impl FnOnce(&mut Value)) {
    for (name, bytes) in tinypair::models::SMALL.files {
        let to = folder.join(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::write(to, bytes).expect("written");
    }
    let mut json: Value = serde_json::from_slice(file(changed)).expect("JSON");
    change(&mut json);
    fs::write(folder.join(changed), json.to_string()).expect("written");
}

/// The small model, the one in a folder, and a route that moves between them at every token.
fn server(folder: &Path) -> Server {
    let files = folder.display().to_string();
    Server::start(&format!(
        "[models.small]\nfiles = \"embedded:small\"\n[models.other]\nfiles = {files:?}\n\
         [routes.both]\nmodels = [\"other\", \"small\"]\npolicy = \"builtin:entropy\"\n\
         settings = {{ threshold = 0.0, tokens = 1 }}\n"
    ))
}

async fn answer(server: &Server, model: &str) -> Value {
    let body = json!({"model": model, "temperature": 0, "max_tokens": 40, "return_token_ids": true,
        "messages": [{"role": "user", "content": "Tom has 3 coins. He buys 4 more. How many has he?"}]});
    let reply = server.post("/v1/chat/completions", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// A template that writes BOS, and a tokenizer that adds it: there is one, on the first prompt and on each resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_13_there_is_one_bos_whoever_writes_it() {
    let plain: Value = serde_json::from_slice(file("tokenizer_config.json")).expect("JSON");
    let template = plain["chat_template"].as_str().expect("a template").to_owned();
    for (writes, adds) in [(true, true), (true, false), (false, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        small_with(folder.path(), "tokenizer_config.json", |config| {
            config["add_bos_token"] = json!(adds);
            let begin = if writes { "{{ bos_token }}" } else { "" };
            config["chat_template"] = json!(format!("{begin}{template}"));
        });
        let server = server(folder.path());
        let bare = answer(&server, "small").await;
        for model in ["other", "both"] {
            let told = answer(&server, model).await;
            let ids: Vec<u64> =
                told["prompt_token_ids"].as_array().expect("ids").iter().filter_map(Value::as_u64).collect();
            let rest: Vec<u64> =
                bare["prompt_token_ids"].as_array().expect("ids").iter().filter_map(Value::as_u64).collect();
            assert_eq!((ids[0], &ids[1..]), (0, &*rest), "{model}: one BOS, and the prompt");
            assert_eq!(told["usage"]["prompt_tokens"], rest.len() + 1);
        }
        let (other, both) = (answer(&server, "other").await, answer(&server, "both").await);
        // The twin that is visited reads the same sequence.
        assert_eq!(both["choices"][0]["token_ids"], other["choices"][0]["token_ids"]);
    }
}

/// Logits for ids that no token has, as those of Qwen's larger models: no difference of vocabularies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_15_padding_is_no_mismatch() {
    const PADDED: usize = 704;
    let folder = tempfile::tempdir().expect("a folder");
    small_with(folder.path(), "config.json", |config| config["vocab_size"] = json!(PADDED));
    let weights = file("model.safetensors");
    let begin = 8 + u64::from_le_bytes(weights[..8].try_into().expect("8 bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&weights[8..begin]).expect("JSON");
    let embedding = &mut header["model.embed_tokens.weight"];
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let (from, to) = (number(&embedding["data_offsets"][0]), number(&embedding["data_offsets"][1]));
    let more = (to - from) / number(&embedding["shape"][0]) * (PADDED - number(&embedding["shape"][0]));
    embedding["shape"][0] = json!(PADDED);
    for tensor in header.as_object_mut().expect("tensors").values_mut() {
        let Some(offsets) = tensor["data_offsets"].as_array_mut() else { continue };
        offsets
            .iter_mut()
            .filter(|offset| number(offset) >= to)
            .for_each(|offset| *offset = json!(number(offset) + more));
    }
    let data = &weights[begin..];
    let header = header.to_string();
    let padded = [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &data[..to],
        &vec![0; more],
        &data[to..],
    ];
    fs::write(folder.path().join("model.safetensors"), padded.concat()).expect("written");
    let server = server(folder.path());
    let alone = answer(&server, "small").await;
    for model in ["other", "both"] {
        assert_eq!(answer(&server, model).await["choices"], alone["choices"], "{model}");
    }
}
