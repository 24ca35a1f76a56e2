//! HTTP/2 by prior knowledge: many requests on one connection, each of which can be taken back alone.

use std::time::Duration;

use e2e::{Server, connect};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::http_life::await_idle;
use super::questions::chat;

/// A connection.
pub(crate) async fn connected(server: &Server) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(connect(server.address()).await);
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.expect("HTTP/2 is spoken");
    tokio::spawn(connection);
    sender
}

fn post(body: &Value) -> Request<Full<Bytes>> {
    post_to("/v1/chat/completions", None, body)
}

/// A request, with an API key or without.
pub(crate) fn post_to(path: &str, key: Option<&str>, body: &Value) -> Request<Full<Bytes>> {
    let request = Request::post(format!("http://localhost{path}"));
    let request = key
        .into_iter()
        .fold(request, |request, key| request.header("authorization", format!("Bearer {key}")));
    request.body(Full::new(body.to_string().into())).expect("a valid request")
}

#[tokio::test]
async fn one_stream_is_reset_and_its_neighbour_goes_on() {
    let server = Server::start("[models.large]\nfiles = \"embedded:large\"\n");
    let mut connection = connected(&server).await;
    let mut long = chat("large", 0, 2.0);
    long["stream"] = json!(true);
    long["seed"] = json!(1);
    long["max_tokens"] = json!(800);
    let mut left = connection.send_request(post(&long)).await.unwrap().into_body();
    assert!(left.frame().await.is_some());
    let neighbour = connection.send_request(post(&chat("large", 1, 0.0)));
    drop(left);
    let neighbour = neighbour.await.unwrap();
    assert_eq!(neighbour.status(), 200);
    let body = neighbour.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let cancelled = async {
        while !server.runtime().metrics_page().contains("tokenrouter_request_cancelled_total 1") {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), cancelled).await.expect("the reset ends its journey");
}

/// Streams that are opened and taken back as fast as a client can: the connection may be ended for it, others see nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_24_a_flood_of_resets_disturbs_nobody_else() {
    let server = Server::start("[models.large]\nfiles = \"embedded:large\"\n");
    let mut other = connected(&server).await;
    let flood = async {
        let mut connection = connected(&server).await;
        let mut long = chat("large", 0, 2.0);
        long["stream"] = json!(true);
        long["max_tokens"] = json!(800);
        for _ in 0..2_000 {
            if connection.ready().await.is_err() {
                return true;
            }
            // Dropped before its answer: the stream is reset.
            drop(connection.send_request(post(&long)));
            tokio::task::yield_now().await;
        }
        false
    };
    let neighbour = other.send_request(post(&chat("large", 1, 0.0)));
    let (_ended, neighbour) = tokio::join!(flood, neighbour);
    let neighbour = neighbour.expect("the neighbour is answered");
    assert_eq!(neighbour.status(), 200);
    await_idle(&server).await;
    assert_eq!(server.post("/v1/chat/completions", &chat("large", 1, 0.0)).await.status, 200);
}

/// As many streams as are announced, and not one more, are served at once on a connection; the rest wait in the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_streams_are_all_answered() {
    let server = Server::start("[models.small]\nfiles = \"embedded:small\"\n");
    let connection = connected(&server).await;
    let mut body = chat("small", 1, 0.0);
    body["max_tokens"] = json!(2);
    let all = (0..400).map(|_| {
        let (mut connection, request) = (connection.clone(), post(&body));
        async move { connection.send_request(request).await.expect("an answer").status() }
    });
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|status| *status == 200), "{all:?}");
}

#[tokio::test]
async fn headers_beyond_the_limit_are_refused_clearly() {
    let server = Server::embedded();
    let mut connection = connected(server).await;
    let mut request = post(&chat("small", 0, 0.0));
    request.headers_mut().insert("x-large", "y".repeat(100_000).parse().expect("a value"));
    let refused = connection.send_request(request).await.expect("an answer");
    assert_eq!(refused.status(), 431);
    let answered = connection.send_request(post(&chat("small", 0, 0.0))).await.expect("the connection lives");
    assert_eq!(answered.status(), 200);
}
