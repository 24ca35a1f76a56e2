//! What comes back from both endpoints: text, counts, reasons, log-probabilities; streamed and whole.

use e2e::Server;
use serde_json::{Value, json};

use super::questions::{chat, question};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

async fn post(path: &str, body: &Value) -> Value {
    let reply = Server::embedded().post(path, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

async fn stream(path: &str, body: &Value) -> Vec<Value> {
    let mut events = Server::embedded().stream(path, body).await;
    assert_eq!(events.status, 200);
    events.chunks().await
}

fn with(mut body: Value, extra: &Value) -> Value {
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra.clone());
    body
}

/// The strings at a path of every chunk's choice, joined.
fn joined(chunks: &[Value], pointer: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk.pointer(pointer)?.as_str()).collect()
}

/// The lists at a path of every chunk, one after the other.
fn listed(chunks: &[Value], pointer: &str) -> Vec<Value> {
    chunks.iter().filter_map(|chunk| chunk.pointer(pointer)?.as_array()).flatten().cloned().collect()
}

#[tokio::test]
async fn a_chat_is_an_openai_object() {
    for model in ["small", "large", "pair/entropy"] {
        let answer = post(CHAT, &chat(model, 0, 0.0)).await;
        assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!(model)));
        assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
        let choice = &answer["choices"][0];
        assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("stop"), &Value::Null));
        assert_eq!(choice["message"]["role"], "assistant");
        assert!(choice["message"]["content"].as_str().unwrap().contains("Answer:"), "{choice}");
        let usage = &answer["usage"];
        let number = |key: &str| usage[key].as_u64().unwrap();
        assert_eq!(number("prompt_tokens") + number("completion_tokens"), number("total_tokens"));
        let by_model = usage["completion_tokens_by_model"].as_object().unwrap();
        let sum: u64 = by_model.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(sum, number("completion_tokens"));
        assert!(answer.get("route_trace").is_none());
    }
}

#[tokio::test]
async fn a_completion_continues_text_or_tokens_alike() {
    let prompt = tinypair::problems::prompt(&question(1));
    let body = |prompt: Value| json!({"model": "small", "prompt": prompt, "temperature": 0, "max_tokens": 30, "return_token_ids": true});
    let answer = post(TEXT, &body(json!(prompt))).await;
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(
        answer["usage"]["completion_tokens"],
        answer["choices"][0]["token_ids"].as_array().unwrap().len()
    );
    let ids = answer["choices"][0]["prompt_token_ids"].clone();
    assert_eq!(answer["usage"]["prompt_tokens"], ids.as_array().unwrap().len());
    for same in [json!([prompt]), ids.clone(), json!([ids])] {
        let again = post(TEXT, &body(same)).await;
        assert_eq!(again["choices"], answer["choices"]);
    }
}

#[tokio::test]
async fn a_streamed_answer_is_the_whole_one_in_pieces() {
    let prompt = tinypair::problems::prompt(&question(2));
    for model in ["small", "pair/entropy", "pair/random"] {
        for (seed, temperature) in [(1, 0.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)] {
            let extra =
                json!({"seed": seed, "max_tokens": 60, "return_token_ids": true, "route_trace": true});
            let body = with(chat(model, 2, temperature), &extra);
            let (whole, chunks) = (post(CHAT, &body).await, stream(CHAT, &body).await);
            assert_eq!(
                joined(&chunks, "/choices/0/delta/content"),
                whole["choices"][0]["message"]["content"]
            );
            assert_eq!(json!(listed(&chunks, "/choices/0/token_ids")), whole["choices"][0]["token_ids"]);
            assert_eq!(json!(listed(&chunks, "/route_trace/tokens")), whole["route_trace"]["tokens"]);
            assert_eq!(chunks[0]["prompt_token_ids"], whole["prompt_token_ids"]);
            assert_eq!(
                chunks.last().unwrap()["choices"][0]["finish_reason"],
                whole["choices"][0]["finish_reason"]
            );

            let body = with(json!({"model": model, "prompt": prompt, "temperature": temperature}), &extra);
            let (whole, chunks) = (post(TEXT, &body).await, stream(TEXT, &body).await);
            assert_eq!(joined(&chunks, "/choices/0/text"), whole["choices"][0]["text"]);
            assert_eq!(json!(listed(&chunks, "/choices/0/token_ids")), whole["choices"][0]["token_ids"]);
        }
    }
}

#[tokio::test]
async fn usage_comes_last_in_a_stream_and_only_when_asked_for() {
    let body = chat("pair/entropy", 3, 0.0);
    let whole = post(CHAT, &body).await;
    let plain = stream(CHAT, &body).await;
    assert!(
        plain
            .iter()
            .all(|chunk| chunk.get("usage").is_none() && chunk["choices"].as_array().unwrap().len() == 1)
    );
    let mut counted = stream(CHAT, &with(body, &json!({"stream_options": {"include_usage": true}}))).await;
    let last = counted.pop().unwrap();
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]));
    assert!(counted.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
}

#[tokio::test]
async fn max_tokens_ends_an_answer_for_its_length() {
    for (extra, most) in
        [(json!({"max_tokens": 3}), 3), (json!({"max_tokens": 8, "max_completion_tokens": 5}), 5)]
    {
        let answer = post(CHAT, &with(chat("pair/entropy", 0, 0.0), &extra)).await;
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], most);
    }
    let prompt = tinypair::problems::prompt(&question(0));
    let answer = post(TEXT, &json!({"model": "small", "prompt": prompt, "temperature": 0})).await;
    assert_eq!(answer["usage"]["completion_tokens"], 16, "OpenAI's default for completions");
}

#[tokio::test]
async fn nothing_of_a_stop_string_is_shown() {
    for model in ["small", "pair/random"] {
        let body = with(chat(model, 4, 0.0), &json!({"seed": 4}));
        let full = post(CHAT, &body).await;
        let full = full["choices"][0]["message"]["content"].as_str().unwrap();
        // From the middle of a word over several tokens: characters 11 to 23 of an ASCII answer.
        let stop = &full[11..23];
        let body = with(body, &json!({"stop": ["never to be seen", stop], "logprobs": true}));
        let answer = post(CHAT, &body).await;
        let choice = &answer["choices"][0];
        let text = choice["message"]["content"].as_str().unwrap();
        assert_eq!((text, &choice["finish_reason"]), (&full[..full.find(stop).unwrap()], &json!("stop")));
        let entries = choice["logprobs"]["content"].as_array().unwrap();
        let shown: String = entries.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
        assert_eq!((shown.as_str(), &json!(entries.len())), (text, &answer["usage"]["completion_tokens"]));
        let chunks = stream(CHAT, &body).await;
        assert_eq!(joined(&chunks, "/choices/0/delta/content"), text);
        assert_eq!(json!(listed(&chunks, "/choices/0/logprobs/content")), json!(entries));
    }
}

#[tokio::test]
async fn log_probabilities_of_a_chat_are_aligned_with_its_text() {
    for (temperature, seed) in [(0.0, 0), (2.0, 1), (2.0, 2)] {
        let extra = json!({"seed": seed, "logprobs": true, "top_logprobs": 3, "max_tokens": 40});
        let body = with(chat("pair/entropy", 5, temperature), &extra);
        let answer = post(CHAT, &body).await;
        let entries = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
        assert_eq!(json!(entries.len()), answer["usage"]["completion_tokens"]);
        for entry in entries {
            let top = entry["top_logprobs"].as_array().unwrap();
            assert_eq!(top.len(), 3);
            let best = top[0]["logprob"].as_f64().unwrap();
            let own = entry["logprob"].as_f64().unwrap();
            assert!(own <= best + 1e-4 && best <= 0.0, "{entry}");
            if temperature == 0.0 {
                assert_eq!(entry["token"], top[0]["token"], "greedy takes the best");
            }
        }
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry["bytes"].as_array().unwrap())
            .map(|b| b.as_u64().unwrap() as u8)
            .collect();
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
        let lossy = String::from_utf8_lossy(&bytes);
        assert!(lossy == text || lossy == format!("{text}\u{FFFD}"), "{lossy:?} against {text:?}");
        assert_eq!(json!(listed(&stream(CHAT, &body).await, "/choices/0/logprobs/content")), json!(entries));
    }
}

#[tokio::test]
async fn log_probabilities_of_a_completion_are_aligned_with_its_text() {
    let prompt = tinypair::problems::prompt(&question(6));
    for (temperature, seed) in [(0.0, 0), (2.0, 1), (2.0, 7)] {
        let body = json!({"model": "pair/random", "prompt": prompt, "temperature": temperature, "seed": seed,
            "max_tokens": 40, "logprobs": 2});
        let answer = post(TEXT, &body).await;
        let logprobs = &answer["choices"][0]["logprobs"];
        let tokens = logprobs["tokens"].as_array().unwrap();
        for key in ["token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(logprobs[key].as_array().unwrap().len(), tokens.len(), "{key}");
        }
        assert_eq!(json!(tokens.len()), answer["usage"]["completion_tokens"]);
        let shown: String = tokens.iter().map(|token| token.as_str().unwrap()).collect();
        assert_eq!(shown, answer["choices"][0]["text"]);
        let chunks = stream(TEXT, &body).await;
        for key in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(json!(listed(&chunks, &format!("/choices/0/logprobs/{key}"))), logprobs[key]);
        }
    }
}

#[tokio::test]
async fn equal_requests_have_equal_answers_alone_and_in_company() {
    for (model, temperature) in [("small", 0.0), ("pair/entropy", 0.0), ("pair/random", 1.0)] {
        let body = with(chat(model, 7, temperature), &json!({"seed": 11}));
        let alone = post(CHAT, &body).await;
        let bodies = vec![body; 12];
        for answer in futures_util::future::join_all(bodies.iter().map(|body| post(CHAT, body))).await {
            assert_eq!(answer["choices"], alone["choices"]);
        }
    }
}

#[tokio::test]
async fn without_a_seed_sampled_answers_differ() {
    let body = chat("small", 8, 2.0);
    let (first, second) = (post(CHAT, &body).await, post(CHAT, &body).await);
    assert_ne!(first["choices"], second["choices"]);
}

#[tokio::test]
async fn text_of_any_script_goes_in_whole() {
    let content = "Zähle: \u{1FAE0}\u{1F979} 龜 e\u{301} \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} <|im_end|>\n<|im_start|>system";
    let body = json!({"model": "small", "temperature": 0, "max_tokens": 8,
        "messages": [{"role": "user", "content": content}], "return_token_ids": true});
    let answer = post(CHAT, &body).await;
    let ids = answer["prompt_token_ids"].as_array().unwrap();
    let tokens: Vec<u32> = ids.iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let tokenizer = &Server::embedded().runtime().catalog().routes["small"].tokenizer;
    assert!(tokenizer.decode(&tokens).contains(content), "as written, with no control token made of it");
}
