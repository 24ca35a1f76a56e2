//! `host/server/openapi.json` says what is served: every path and method, every field with its bounds, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use e2e::{Reply, Server};
use serde_json::{Map, Value, json};

use super::experiments::kept_in;
use super::http_keys::{key, line};
use super::schema::{Tries, tries};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

async fn document() -> Value {
    Server::embedded().get("/openapi.json").await.json()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}"))
}

/// A path with something in the place of its parameters, none of which names anything.
fn filled(path: &str) -> String {
    path.split('/')
        .map(|part| if part.starts_with('{') { "nothing" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

#[tokio::test]
async fn every_path_and_method_that_is_served_is_described_and_no_other() {
    let document = document().await;
    let described: BTreeSet<&str> = object(&document["paths"]).keys().map(String::as_str).collect();
    let served: Vec<String> = tokenrouter::http::paths().iter().map(|path| path.replace("{*", "{")).collect();
    assert_eq!(described, served.iter().map(String::as_str).collect());
    for (path, operations) in object(&document["paths"]) {
        // The router itself tells which methods a path has, to whoever asks with another one.
        let reply = Server::embedded().ask(None, "PATCH", &filled(path), "").await;
        assert_eq!(reply.status, 405, "{path}");
        let allowed: BTreeSet<String> =
            reply.header("allow").split(',').map(|method| method.trim().to_lowercase()).collect();
        let mut told: BTreeSet<String> = object(operations).keys().cloned().collect();
        if told.contains("get") {
            told.insert("head".to_owned());
        }
        assert_eq!(told, allowed, "{path}");
        for (method, operation) in object(operations) {
            let method = method.to_uppercase();
            let reply = Server::embedded().ask(None, &method, &filled(path), "").await;
            told_status(operation, &reply, path);
            assert!(!reply.text.contains("\"unknown_url\"") || path.contains('{'), "{method} {path}");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let in_path = parameters.filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{method} {path}");
        }
    }
}

#[track_caller]
fn told_status(operation: &Value, reply: &Reply, path: &str) {
    let told = operation["responses"].get(reply.status.to_string());
    assert!(told.is_some(), "{path} answers {}, which is not described: {}", reply.status, reply.text);
}

/// A body that is answered with one token, with what a field needs beside it.
fn body(path: &str, field: &str) -> Value {
    let mut body = json!({"model": "small", "max_tokens": 1});
    match path {
        CHAT => body["messages"] = json!([{"role": "user", "content": "hi"}]),
        _ => body["prompt"] = json!("hi"),
    }
    if field == "top_logprobs" {
        body["logprobs"] = json!(true);
    }
    if field.starts_with("stream_options") {
        body["stream"] = json!(true);
    }
    if (path, field) == (TEXT, "max_tokens") {
        body["echo"] = json!(true);
    }
    match field {
        "messages[0].tool_call_id" => body["messages"][0]["role"] = json!("tool"),
        "messages[0].tool_calls" => body["messages"][0]["role"] = json!("assistant"),
        // The embedded models' template shows no tools.
        "tools" => body["tool_choice"] = json!("none"),
        _ => {}
    }
    body
}

/// What a value of a field needs beside it.
fn beside(body: &mut Value, field: &str, value: &Value) {
    if field == "tool_choice" && (value == "required" || value.is_object()) {
        body["tools"] = json!([{"type": "function", "function": {"name": "x"}}]);
    }
}

/// Asserts that the field at a place of the body takes what its schema says, and nothing else.
async fn check(
    document: &Value,
    (path, field): (&str, &str),
    schema: &Value,
    put: impl Fn(&mut Value, Value),
) {
    let Tries { accepted, refused } = tries(document, schema);
    assert!(!accepted.is_empty() && !refused.is_empty(), "{path} {field}: {schema}");
    for (values, status) in [(accepted, 200), (refused, 400)] {
        for value in values {
            let mut body = body(path, field);
            beside(&mut body, field, &value);
            put(&mut body, value.clone());
            let reply = Server::embedded().post(path, &body).await;
            let shown: String = value.to_string().chars().take(80).collect();
            assert_eq!(reply.status, status, "{path} {field} = {shown}: {}", reply.text);
            if status == 400 {
                let param = reply.json()["error"]["param"].as_str().unwrap_or_default().to_owned();
                assert!(param.starts_with(field), "{path} {field} = {shown}: {}", reply.text);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_described_field_takes_what_is_described_and_nothing_else() {
    let document = document().await;
    let schemas = &document["components"]["schemas"];
    for (path, request) in [(CHAT, "ChatRequest"), (TEXT, "CompletionRequest")] {
        for (field, schema) in object(&schemas[request]["properties"]) {
            if field == "model" {
                continue;
            }
            check(&document, (path, field), schema, |body, value| body[field] = value).await;
        }
        for (field, schema) in object(&schemas[request]["properties"]["stream_options"]["properties"]) {
            let put = |body: &mut Value, value| body["stream_options"] = json!({ field: value });
            check(&document, (path, &format!("stream_options.{field}")), schema, put).await;
        }
    }
    for (field, schema) in object(&schemas["Message"]["properties"]) {
        let put = |body: &mut Value, value| body["messages"][0][field] = value;
        check(&document, (CHAT, &format!("messages[0].{field}")), schema, put).await;
    }
}

/// Every word in quotes of the parser's sources: its fields are among them.
fn quoted_words() -> BTreeSet<String> {
    let parser = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/server/src/http/parse");
    let mut words = BTreeSet::new();
    for file in fs::read_dir(parser).expect("the parser's folder").flatten() {
        let text = fs::read_to_string(file.path()).expect("text");
        let is_word =
            |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        words.extend(text.split('"').filter(is_word).map(str::to_owned));
    }
    assert!(words.contains("temperature") && words.contains("echo"), "{words:?}");
    words
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_that_is_understood_is_described() {
    let document = document().await;
    let schemas = &document["components"]["schemas"];
    for word in quoted_words().iter().map(String::as_str).chain(["temprature"]) {
        for (path, request) in [(CHAT, "ChatRequest"), (TEXT, "CompletionRequest")] {
            let mut asked = body(path, "");
            asked[word] = json!({"no": {}});
            is_described(&schemas[request], word, &Server::embedded().post(path, &asked).await);
        }
        let mut asked = body(CHAT, "");
        asked["messages"][0][word] = json!({"no": {}});
        is_described(&schemas["Message"], word, &Server::embedded().post(CHAT, &asked).await);
    }
}

#[track_caller]
fn is_described(schema: &Value, field: &str, reply: &Reply) {
    let is_known = reply.status == 200 || reply.json()["error"]["code"] != "unknown_parameter";
    let is_described = schema["properties"].get(field).is_some();
    // The id of a call is understood in a tool's message only.
    assert!(is_known == is_described || field == "tool_call_id", "{field}: {}", reply.text);
    assert_eq!(schema["additionalProperties"], json!(false));
}

/// The bodies that the document gives as examples, by name.
fn examples(operation: &Value) -> Vec<(String, Value)> {
    let content = &operation["requestBody"]["content"]["application/json"];
    let one = content.get("example").map(|value| (String::new(), value.clone()));
    let named = content["examples"].as_object().into_iter().flatten();
    one.into_iter().chain(named.map(|(name, of)| (name.clone(), of["value"].clone()))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn examples_are_answered() {
    let document = document().await;
    for path in [CHAT, TEXT] {
        let operation = &document["paths"][path]["post"];
        let examples = examples(operation);
        assert!(examples.len() > 2);
        for (name, example) in examples {
            let reply = Server::embedded().post(path, &example).await;
            assert_eq!(reply.status, 200, "{path} {name}: {}", reply.text);
            let kind = if example["stream"] == true { "text/event-stream" } else { "application/json" };
            assert_eq!(reply.header("content-type"), kind);
            assert!(operation["responses"]["200"]["content"].get(kind).is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_examples_change_what_they_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let tenants = format!(
        "[tenants.acme]\nkeys = [{}]\n[tenants.operators]\nkeys = [{}]",
        line(1, ""),
        line(2, ", scope = \"admin\"")
    );
    let (server, document) = (kept_in(folder.path(), &tenants), document().await);
    let ask = async |method: &str, (template, path): (&str, &str), body: &Value, status: u16| {
        let operation = &document["paths"][template][method.to_lowercase()];
        let reply = server.ask(Some(&key(2)), method, path, &body.to_string()).await;
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text);
        told_status(operation, &reply, path);
        reply.json()
    };
    let example = |template: &str, method: &str| examples(&document["paths"][template][method]);
    let one = ("/admin/experiments/{name}", "/admin/experiments/one");
    let definition = &example(one.0, "put")[0].1;
    for last in ["promote", "rollback"] {
        ask("PUT", one, definition, 201).await;
        ask("PUT", one, definition, 200).await;
        let template = "/admin/experiments/{name}/{action}";
        let actions = example(template, "post");
        for action in ["weights", "pause", "resume", last] {
            let body = &actions.iter().find(|(name, _)| name == action).expect("an example").1;
            ask("POST", (template, &format!("{}/{action}", one.1)), body, 200).await;
        }
        ask("DELETE", one, &json!({}), 200).await;
    }
    let keys = ("/admin/tenants/{name}/keys", "/admin/tenants/acme/keys");
    let made = ask("POST", keys, &example(keys.0, "post")[0].1, 201).await;
    let id = made["id"].as_str().expect("an id");
    let (template, rotate) = ("/admin/tenants/{name}/keys/{id}/rotate", format!("{}/{id}/rotate", keys.1));
    ask("POST", (template, &rotate), &example(template, "post")[0].1, 201).await;
    ask("DELETE", ("/admin/tenants/{name}/keys/{id}", &format!("{}/{id}", keys.1)), &json!({}), 200).await;
    // What these are about does not exist, and that is all that is wrong with them.
    let activate = "/v1/policies/{name}/activate";
    ask("POST", (activate, "/v1/policies/mine/activate"), &example(activate, "post")[0].1, 404).await;
    ask("POST", ("/v1/feedback", "/v1/feedback"), &example("/v1/feedback", "post")[0].1, 404).await;
}

#[tokio::test]
async fn a_tenant_may_read_it_and_nobody_without_a_key() {
    let (server, _) = super::http_keys::server_of(&format!("[tenants.acme]\nkeys = [{}]", line(1, "")));
    assert_eq!(server.ask(Some(&key(1)), "GET", "/openapi.json", "").await.status, 200);
    assert_eq!(server.ask(None, "GET", "/openapi.json", "").await.status, 401);
}
