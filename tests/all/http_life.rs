//! Connections and the server's life: bounds, timeouts, clients that leave, shutdown.

use std::time::Duration;

use e2e::{Server, connect};
use serde_json::{Value, json};
use tokenrouter::runtime::Model;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const LARGE: &str = "[models.large]\nfiles = \"embedded:large\"\n";
const LEFT_ALONE: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(20);

/// A request whose answer is long: hot, so that the end token is seldom drawn.
fn long_answer(model: &str, seed: u64) -> Value {
    let mut body = chat(model, 0, 2.0);
    body["seed"] = json!(seed);
    body["max_tokens"] = json!(800);
    body["ignore_eos"] = json!(true);
    body
}

/// Waits until no model has anything of any journey. On a machine that has time this takes milliseconds; the limit is
/// for one that does not, and still finds a journey that stays for ever.
pub(crate) async fn await_idle(server: &Server) {
    let idle = async {
        let catalog = server.runtime().catalog();
        let busy = |model: &Model| model.meter.journeys() != (0, 0) || model.meter.kv_tokens() > 0;
        while catalog.models.values().any(|model| busy(model)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LEFT_ALONE, idle).await.expect("every journey is let go");
}

/// Asks for a whole answer and leaves before it comes. Where this thread is kept from running for as long as an answer
/// takes, it asks again.
async fn leaves(server: &Server, body: &Value) -> bool {
    for _ in 0..20 {
        if timeout(Duration::from_millis(5), server.post(CHAT, body)).await.is_err() {
            return true;
        }
    }
    false
}

/// All that the server says on a connection until it closes it.
async fn said(stream: &mut tokio::net::TcpStream) -> String {
    let mut answer = Vec::new();
    timeout(LONG, stream.read_to_end(&mut answer)).await.expect("closed in time").expect("readable");
    String::from_utf8(answer).expect("UTF-8")
}

/// A machine that is busy with other things can only make this slower, so the best of three counts.
#[tokio::test]
async fn a_journey_is_gone_from_every_subserver_within_a_second_of_its_client() {
    let server = Server::start(tokenrouter::config::EMBEDDED);
    let mut best = Duration::MAX;
    for seed in 0..3 {
        let mut stream = server.stream(CHAT, &long_answer("pair/random@share=0.5", seed)).await;
        for _ in 0..8 {
            assert!(stream.next().await.is_some(), "the answer is long enough to be left");
        }
        let left = Instant::now();
        drop(stream);
        await_idle(&server).await;
        best = best.min(left.elapsed());
    }
    assert!(best < Duration::from_secs(1), "gone after {best:?}");
}

#[tokio::test]
async fn clients_that_leave_take_their_journeys_with_them() {
    let server = Server::start(tokenrouter::config::EMBEDDED);
    let mut streams = Vec::new();
    for seed in 0..24 {
        let model = ["small", "pair/entropy", "pair/random"][seed % 3];
        streams.push(server.stream(CHAT, &long_answer(model, seed as u64)).await);
    }
    for stream in streams.iter_mut().step_by(2) {
        // Half of them have seen tokens, the rest may still be in line or in the prompt.
        for _ in 0..3 {
            assert!(stream.next().await.is_some());
        }
    }
    drop(streams);
    await_idle(&server).await;
    // One that waits for a whole answer and leaves.
    let body = long_answer("pair/random", 1);
    assert!(leaves(&server, &body).await, "the answer is long enough to be left");
    await_idle(&server).await;
    let cancelled = server.get("/metrics").await.text;
    assert!(!cancelled.contains("tokenrouter_request_cancelled_total 0"), "{cancelled}");
    assert_eq!(server.post(CHAT, &chat("pair/entropy", 0, 0.0)).await.status, 200);
}

#[tokio::test]
async fn a_request_beyond_the_queue_is_told_to_come_again() {
    let config = format!("[server]\njourneys_max = 1\nqueue_max = 1\n{LARGE}");
    let server = Server::start(&config);
    let mut held = Vec::new();
    // One is answered, one is on its way to a place, one is in line; the next one must be refused.
    let refused = loop {
        assert!(held.len() < 8, "the line is bounded");
        let stream = server.stream(CHAT, &long_answer("large", held.len() as u64)).await;
        if stream.status != 200 {
            break stream.refusal().await;
        }
        held.push(stream);
    };
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    assert_eq!(refused.json()["error"]["code"], "rate_limit_exceeded");
}

#[tokio::test]
async fn a_waiting_stream_is_kept_alive_by_comments() {
    let config = format!("[server]\njourneys_max = 1\n{LARGE}");
    let server = Server::start_with(&config, |settings| settings.ping_interval = Duration::from_millis(5));
    let _first = server.stream(CHAT, &long_answer("large", 1)).await;
    let mut second = server.stream(CHAT, &chat("large", 1, 0.0)).await;
    second.chunks().await;
    assert!(second.comments.iter().any(|comment| comment == "ping"), "{:?}", second.comments);
}

#[tokio::test]
async fn a_large_body_is_refused_and_the_connection_lives() {
    let config = format!("[server]\nbody_bytes_max = 1000\n{LARGE}");
    let server = Server::start(&config);
    let mut body = chat("large", 0, 0.0);
    body["user"] = json!("x".repeat(3_000_000));
    let reply = server.post(CHAT, &body).await;
    assert_eq!(reply.status, 413);
    assert_eq!(reply.json()["error"]["code"], "request_too_large");
    // Without a declared length, and another request on the same connection.
    let mut stream = connect(server.address()).await;
    let chunk = format!("3e8\r\n{}\r\n", "y".repeat(1000));
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(50)
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = said(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("{\"status\":\"alive\"}"), "{answer}");
}

#[tokio::test]
async fn a_client_that_drips_is_cut_off() {
    let server = Server::start_with(LARGE, |settings| {
        settings.header_timeout = Duration::from_millis(100);
        settings.body_timeout = Duration::from_millis(100);
    });
    let mut body = connect(server.address()).await;
    body.write_all(format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{").as_bytes())
        .await
        .unwrap();
    let answer = said(&mut body).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"), "{answer}");
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n", "POST / HTTP/1.1\r\nhost: x"] {
        let mut silent = connect(server.address()).await;
        silent.write_all(beginning.as_bytes()).await.unwrap();
        let answer = said(&mut silent).await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn request_ids_are_kept_or_made() {
    let server = Server::embedded();
    let mut stream = connect(server.address()).await;
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nx-request-id: mine-1\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(said(&mut stream).await.contains("x-request-id: mine-1\r\n"));
    let (first, second) = (server.get("/health").await, server.get("/health").await);
    assert!(first.header("x-request-id").starts_with("req-"));
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

#[tokio::test]
async fn probes_and_metrics_answer() {
    let server = Server::embedded();
    assert_eq!((server.get("/health").await.status, server.get("/ready").await.status), (200, 200));
    let metrics = server.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4");
    assert!(metrics.text.contains("# TYPE tokenrouter_num_requests_running gauge"));
}

#[tokio::test]
async fn a_shutdown_lets_answers_end_and_refuses_new_ones() {
    let server = Server::start(&format!("[server]\njourneys_max = 4\n{LARGE}"));
    let mut streams = Vec::new();
    for seed in 0..12 {
        streams.push(server.stream(CHAT, &long_answer("large", seed)).await);
    }
    // Most of them wait in line, and are answered too.
    server.begin_shutdown();
    // Asked at once, while the longest of many answers is still being given.
    let body = chat("large", 0, 0.0);
    let (ready, refused, health) =
        tokio::join!(server.get("/ready"), server.post(CHAT, &body), server.get("/health"));
    assert_eq!((ready.status, refused.status, health.status), (503, 503, 200));
    assert_eq!(refused.json()["error"]["type"], "server_error");
    assert!(!refused.header("retry-after").is_empty());
    for mut stream in streams {
        let chunks = stream.chunks().await;
        let last = &chunks.last().unwrap()["choices"][0];
        assert!(last["finish_reason"].is_string(), "the answer ended well: {last}");
    }
}

#[tokio::test]
async fn an_answer_that_outlasts_the_deadline_ends_with_an_error() {
    let server = Server::start_with(LARGE, |settings| settings.drain = Duration::ZERO);
    let mut stream = server.stream(CHAT, &long_answer("large", 1)).await;
    assert!(stream.next().await.is_some());
    let began = Instant::now();
    server.begin_shutdown();
    let data = stream.rest().await;
    let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
    assert_eq!(last["error"]["type"], "server_error", "{last}");
    assert!(!data.iter().any(|data| data == "[DONE]"));
    drop(server);
    assert!(began.elapsed() < LONG);
}
