//! Every refusal: its status, its field, its code, and that the server goes on.

use e2e::{Reply, Server};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// Asserts OpenAI's error format and gives the message.
#[track_caller]
fn refused(reply: &Reply, status: u16, param: Option<&str>, code: &str) -> String {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(reply.header("content-type"), "application/json");
    assert!(!reply.header("x-request-id").is_empty());
    let error = &reply.json()["error"];
    assert_eq!((&error["param"], &error["code"]), (&json!(param), &json!(code)), "{error}");
    assert!(error["type"].is_string());
    error["message"].as_str().expect("a message").to_owned()
}

async fn chat(extra: Value) -> Reply {
    let mut body =
        json!({"model": "small", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra);
    Server::embedded().post(CHAT, &body).await
}

#[tokio::test]
async fn bodies_that_are_no_request_are_refused_as_json() {
    let server = Server::embedded();
    for body in ["[]", "1", "", "{", "null", "{\"temperature\": NaN}", "\u{feff}{}"] {
        refused(&server.post_raw(CHAT, body).await, 400, None, "invalid_json");
    }
    refused(&server.post_raw(CHAT, *b"{\"model\": \"\xff\xfe\"}").await, 400, None, "invalid_json");
    refused(&server.post_raw(TEXT, "[".repeat(100_000)).await, 400, None, "invalid_json");
}

#[tokio::test]
async fn fields_are_refused_by_name() {
    for (extra, param, code) in [
        (json!({"temperature": "hot"}), "temperature", "invalid_type"),
        (json!({"temperature": 3}), "temperature", "invalid_value"),
        (json!({"n": 0}), "n", "invalid_value"),
        (json!({"n": 129}), "n", "invalid_value"),
        (json!({"n": "2"}), "n", "invalid_type"),
        (json!({"echo": true}), "echo", "unknown_parameter"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function", "missing_required_parameter"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type", "invalid_value"),
        (json!({"logit_bias": {"-1": 1e9}}), "logit_bias", "invalid_value"),
        (json!({"stop_token_ids": [-1, 2_147_483_648u32]}), "stop_token_ids[0]", "invalid_type"),
        (json!({"stop": vec!["x"; 100_000]}), "stop", "invalid_value"),
        (json!({"max_tokens": -1}), "max_tokens", "invalid_value"),
        (json!({"temprature": 1}), "temprature", "unknown_parameter"),
        (json!({"messages": []}), "messages", "invalid_value"),
        (json!({"messages": [{"role": "user", "content": 1}]}), "messages[0].content", "invalid_type"),
        (json!({"model": null}), "model", "missing_required_parameter"),
    ] {
        refused(&chat(extra).await, 400, Some(param), code);
    }
}

#[tokio::test]
async fn unknown_models_are_all_answered_alike() {
    for name in ["smal", "", "pair", "pair/entropy/", "gpt-4", "nobody@x=1"] {
        let message = refused(&chat(json!({ "model": name })).await, 404, Some("model"), "model_not_found");
        assert_eq!(message, format!("the model {name:?} does not exist; GET /v1/models lists what does"));
    }
    let reply = Server::embedded().get("/v1/models/smal").await;
    refused(&reply, 404, Some("model"), "model_not_found");
}

#[tokio::test]
async fn bad_settings_after_the_name_are_refused() {
    for (name, word) in [
        ("pair/entropy@treshold=1", "treshold"),
        ("pair/entropy@threshold=-1", "threshold"),
        ("pair/entropy@threshold=NaN", "threshold"),
        ("pair/entropy@threshold", "setting=number"),
        ("pair/entropy@threshold=much", "setting=number"),
        ("small@threshold=1", "no policy"),
    ] {
        let message = refused(&chat(json!({ "model": name })).await, 400, Some("model"), "invalid_value");
        assert!(message.contains(word), "{message}");
    }
}

#[tokio::test]
async fn what_does_not_fit_the_context_is_refused_with_both_numbers() {
    let long = "many words and more ".repeat(3000);
    let reply = chat(json!({"messages": [{"role": "user", "content": long}], "model": "pair/entropy"})).await;
    let message = refused(&reply, 400, Some("messages"), "context_length_exceeded");
    assert!(message.contains("1024"), "{message}");
    for (limit, most) in [("max_tokens", 1024), ("max_completion_tokens", 1_000_000_000_000u64)] {
        let reply = chat(json!({"max_tokens": null, limit: most})).await;
        let message = refused(&reply, 400, Some(limit), "context_length_exceeded");
        assert!(message.contains("1024") && message.contains(&most.to_string()), "{message}");
    }
    let server = Server::embedded();
    let reply = server.post(TEXT, &json!({"model": "small", "prompt": vec![5; 1024], "max_tokens": 1})).await;
    let message = refused(&reply, 400, Some("prompt"), "context_length_exceeded");
    assert!(message.contains("1024 tokens and 1 more"), "{message}");
    let reply = server.post(TEXT, &json!({"model": "small", "prompt": vec![5; 1023], "max_tokens": 1})).await;
    assert_eq!(reply.status, 200, "what just fits is answered: {}", reply.text);
}

#[tokio::test]
async fn empty_prompts_and_strange_tokens_are_refused() {
    let server = Server::embedded();
    let text = async |prompt: Value| server.post(TEXT, &json!({"model": "small", "prompt": prompt})).await;
    refused(&text(json!("")).await, 400, Some("prompt"), "invalid_value");
    refused(&text(json!([])).await, 400, Some("prompt"), "invalid_value");
    refused(&text(json!([[]])).await, 400, Some("prompt[0]"), "invalid_value");
    refused(&text(json!([5, 672])).await, 400, Some("prompt[1]"), "invalid_value");
    refused(&text(json!([5, 4_294_967_296u64])).await, 400, Some("prompt[1]"), "invalid_value");
    refused(&text(json!([5, -1])).await, 400, Some("prompt[1]"), "invalid_type");
    refused(&text(Value::Null).await, 400, Some("prompt"), "missing_required_parameter");
}

#[tokio::test]
async fn temperatures_near_zero_are_answered() {
    for temperature in [1e-320, 1e-30, 1e-6, 0.01] {
        let greedy = chat(json!({"temperature": 0, "max_tokens": 5})).await.json();
        let cold = chat(json!({"temperature": temperature, "max_tokens": 5})).await;
        assert_eq!(cold.status, 200, "{}", cold.text);
        assert_eq!(cold.json()["choices"], greedy["choices"], "{temperature}");
    }
}

#[tokio::test]
async fn paths_and_methods_are_refused_as_json() {
    let server = Server::embedded();
    refused(&server.get("/v1/nothing").await, 404, None, "unknown_url");
    refused(&server.get("/v1/models/").await, 404, None, "unknown_url");
    refused(&server.get("/v1/models/%FF").await, 404, Some("model"), "model_not_found");
    refused(&server.get(CHAT).await, 405, None, "method_not_allowed");
    refused(&server.post("/health", &json!({})).await, 405, None, "method_not_allowed");
}
