//! HTTP/2 by prior knowledge: many requests on one connection, each of which can be taken back alone.

use std::time::Duration;

use e2e::{Server, connect};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::questions::chat;

async fn connected(server: &Server) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(connect(server.address()).await);
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.expect("HTTP/2 is spoken");
    tokio::spawn(connection);
    sender
}

fn post(body: &Value) -> Request<Full<Bytes>> {
    let body = Full::new(body.to_string().into());
    Request::post("http://localhost/v1/chat/completions").body(body).expect("a valid request")
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
