//! Answers whose events a test invents, so that every way of ending is met.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use journey::{FinishReason, Made, Role, Sampled};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::config::Config;
use crate::http::error::ApiError;
use crate::http::running::Running;
use crate::runtime::{Ask, Event, Runtime};

/// An answer of a real route with events that did not happen.
async fn answer(events: Vec<Event>) -> (Vec<Answer>, Arc<Runtime>) {
    let config = Config::parse("[models.m]\nfiles = \"embedded:small\"", Path::new("")).unwrap();
    let runtime = Arc::new(Runtime::start(&config, &mut ()).unwrap());
    let selected = runtime.catalog().select("m").unwrap();
    let ask = Ask { max_tokens: Some(1), ..Ask::greedy(vec![5]) };
    let mut answer = runtime.submit(&selected, ask).unwrap();
    let (sender, receiver) = mpsc::channel(events.len() + 1);
    for event in events {
        sender.send(event).await.unwrap();
    }
    answer.events = receiver;
    (vec![answer], runtime)
}

fn made(text: &str) -> Event {
    let sampled = Sampled { token: 7, logprob: -0.5, ..Sampled::default() };
    Event::Made(Made { by: Role(0), sampled, text: text.to_owned(), proposal: None })
}

fn report(shape: Shape, answers: &[Answer]) -> Report {
    let prompt = Shown { tokens: vec![5; 3], own: Vec::new(), text: None };
    Report::new(Dialect::Chat, shape, ("m".to_owned(), 1), answers).with_prompts(&[prompt])
}

async fn streamed(events: Vec<Event>, shape: Shape) -> Vec<String> {
    let (answers, runtime) = answer(events).await;
    let report = report(shape, &answers);
    let response =
        stream::response(Told::new(answers), report, Running::default().begin(), Duration::from_secs(15));
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    runtime.shut_down(Duration::ZERO).await;
    let body = String::from_utf8(body.to_vec()).unwrap();
    body.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
}

async fn collected(events: Vec<Event>, shape: Shape) -> Result<Value, ApiError> {
    let (answers, runtime) = answer(events).await;
    let report = report(shape, &answers);
    let collected = whole::collect(Told::new(answers), report).await;
    runtime.shut_down(Duration::ZERO).await;
    collected
}

fn parsed(data: &[String]) -> Vec<Value> {
    data.iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_stream_has_the_order_that_clients_rely_on() {
    let events = vec![made("a"), made(""), made("b"), Event::Finished(FinishReason::Stop)];
    let shape = Shape { stream: true, include_usage: true, ..Shape::default() };
    let mut data = streamed(events, shape).await;
    assert_eq!(data.pop().as_deref(), Some("[DONE]"));
    let chunks = parsed(&data);
    let deltas: Vec<&Value> = chunks[..4].iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(
        deltas,
        [
            &json!({"role": "assistant", "content": ""}),
            &json!({"content": "a"}),
            &json!({"content": "b"}),
            &json!({})
        ]
    );
    let reasons: Vec<&Value> =
        chunks[..4].iter().map(|chunk| &chunk["choices"][0]["finish_reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &Value::Null, &Value::Null, &json!("stop")]);
    assert!(chunks[..4].iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
    assert_eq!((chunks.len(), &chunks[4]["choices"]), (5, &json!([])));
    assert_eq!(chunks[4]["usage"]["completion_tokens_by_model"], json!({"m": 3}));
    assert_eq!(chunks[4]["usage"]["total_tokens"], 6);
}

#[tokio::test]
async fn an_answer_that_fails_in_mid_stream_ends_with_an_error_and_no_reason() {
    for (last, word) in [(Some("weights melted"), "weights melted"), (None, "cut off")] {
        let mut events = vec![made("a")];
        events.extend(last.map(|message| Event::Failed { message: message.to_owned() }));
        let shape = Shape { stream: true, include_usage: true, ..Shape::default() };
        let chunks = parsed(&streamed(events, shape).await);
        assert_eq!(chunks.len(), 3, "the role, a token, the error");
        assert_eq!(chunks[2]["error"]["type"], "server_error");
        assert!(chunks[2]["error"]["message"].as_str().unwrap().contains(word));
        assert!(chunks[..2].iter().all(|chunk| chunk["choices"][0]["finish_reason"].is_null()));
    }
}

#[tokio::test]
async fn a_whole_answer_that_fails_is_a_server_error() {
    for events in [vec![made("a"), Event::Failed { message: "melted".to_owned() }], vec![made("a")]] {
        let error = collected(events, Shape::default()).await.expect_err("no answer");
        assert_eq!(error.object()["error"]["type"], "server_error");
        assert_eq!(error.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}

#[tokio::test]
async fn a_policy_that_failed_is_named_in_the_trace() {
    let events = || {
        let fault = "it trapped".to_owned();
        vec![made("a"), Event::FellBack { fault }, made("b"), Event::Finished(FinishReason::Length)]
    };
    let shape = Shape { route_trace: true, token_ids: true, ..Shape::default() };
    let whole = collected(events(), shape).await.unwrap();
    assert_eq!(whole["route_trace"]["fell_back"], "it trapped");
    assert_eq!(whole["route_trace"]["tokens"].as_array().unwrap().len(), 2);
    assert_eq!(whole["choices"][0]["token_ids"], json!([7, 7]));
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let mut data = streamed(events(), Shape { stream: true, ..shape }).await;
    data.pop();
    let chunks = parsed(&data);
    assert!(chunks[1]["route_trace"]["fell_back"].is_null());
    assert_eq!(chunks[2]["route_trace"]["fell_back"], "it trapped");
    assert_eq!(chunks[2]["route_trace"]["tokens"][0]["text"], "b");
}
