//! Those who ask: some read to the end, some leave, some ask for what cannot be, some read nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use e2e::Events;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::report::Report;

/// Sets everybody to work.
pub(crate) fn begin(
    work: &mut JoinSet<()>,
    address: SocketAddr,
    report: &Arc<Report>,
    stop: &CancellationToken,
) {
    for client in 0..24 {
        let (report, stop) = (Arc::clone(report), stop.clone());
        work.spawn(async move {
            for number in 0.. {
                if stop.is_cancelled() {
                    return;
                }
                let seed = client + 24 * number;
                match client {
                    0..8 => stream(address, &report, seed).await,
                    8..12 => whole(address, &report, seed).await,
                    12..18 => leave(address, &report, seed).await,
                    18..20 => bad(address, &report, seed).await,
                    _ => unread(address, &report, seed).await,
                }
            }
        });
    }
}

fn body(seed: u64) -> Value {
    let models = ["small", "large", "pair/entropy", "pair/random", "pair/speculative", "pair/watched"];
    json!({
        "model": models[seed as usize % models.len()],
        "messages": [{"role": "user", "content": format!("Tom has {} coins. He buys {} more coins. How many?", seed % 40, seed % 7)}],
        "max_tokens": 20 + seed % 180,
        "temperature": (seed % 3) as f64 * 0.5,
        "seed": seed,
        "user": format!("user {}", seed % 1000),
        "ignore_eos": seed.is_multiple_of(2),
        "logprobs": seed.is_multiple_of(5),
        "route_trace": seed.is_multiple_of(7),
        "stop": if seed.is_multiple_of(4) { json!(["\n\n\n"]) } else { Value::Null },
    })
}

async fn stream(address: SocketAddr, report: &Report, seed: u64) {
    let mut events = Events::open(address, None, CHAT, &streamed(seed)).await;
    if events.status != 200 {
        let refusal = events.refusal().await;
        report.answered("stream", (refusal.status, &refusal.text), &[200]);
        return sleep(SOON).await;
    }
    report.answered("stream", (200, ""), &[200]);
    match timeout(PATIENCE, events.rest()).await {
        Err(_) => report.wrong(format!("a stream does not end: {}", body(seed))),
        Ok(data) => {
            let reasons = data.iter().filter(|data| data.contains("\"finish_reason\":\"")).count();
            if data.last().is_none_or(|last| last != "[DONE]") || reasons != 1 {
                report.wrong(format!("a stream ends with {:?}", data.last()));
            }
            report.made(data.len());
        }
    }
}

async fn whole(address: SocketAddr, report: &Report, seed: u64) {
    let answer = e2e::ask(address, None, ("POST", CHAT), &body(seed).to_string()).await;
    report.answered("whole", (answer.status, &answer.text), &[200]);
    if answer.status == 429 {
        return sleep(SOON).await;
    }
    let answer: Value = serde_json::from_str(&answer.text).unwrap_or_default();
    let (id, tokens) = (&answer["id"], answer["usage"]["completion_tokens"].as_u64().unwrap_or(0));
    report.made(tokens as usize);
    if seed.is_multiple_of(3) {
        let score = json!({"id": id, "score": 0.5}).to_string();
        let reply = e2e::ask(address, None, ("POST", "/v1/feedback"), &score).await;
        // Answers without an experiment have nobody whom a score would tell anything.
        report.answered("feedback", (reply.status, &reply.text), &[200, 202, 204, 400, 404, 409]);
    }
}

/// Leaves at once, or after some tokens.
async fn leave(address: SocketAddr, report: &Report, seed: u64) {
    let mut events = Events::open(address, None, CHAT, &streamed(seed)).await;
    report.answered("left", (events.status, ""), &[200]);
    if events.status != 200 {
        return sleep(SOON).await;
    }
    for _ in 0..seed % 9 {
        if events.next().await.is_none() {
            return;
        }
    }
}

async fn bad(address: SocketAddr, report: &Report, seed: u64) {
    let mut body = body(seed);
    let text = match seed % 7 {
        0 => "{".to_owned(),
        1 => "[]".to_owned(),
        2 => "x".repeat(5_000_000),
        other => {
            let (key, value) = [
                ("model", json!("nobody")),
                ("temperature", json!("hot")),
                ("max_tokens", json!(100_000)),
                ("logit_bias", json!({"99999999": 1})),
            ][other as usize - 3]
                .clone();
            body[key] = value;
            body.to_string()
        }
    };
    let refused = e2e::ask(address, None, ("POST", CHAT), &text).await;
    report.answered("bad", (refused.status, &refused.text), &[400, 404, 413]);
    sleep(SOON).await;
}

/// Asks, reads nothing, and goes after a while.
async fn unread(address: SocketAddr, report: &Report, seed: u64) {
    let Ok(mut connection) = TcpStream::connect(address).await else {
        return report.wrong("nobody listens".to_owned());
    };
    let body = streamed(seed).to_string();
    let request = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    if let Err(error) = connection.write_all(request.as_bytes()).await {
        report.wrong(format!("a request is not taken: {error}"));
    }
    report.answered("unread", (0, ""), &[0]);
    sleep(Duration::from_millis(500 + seed % 3000)).await;
}

fn streamed(seed: u64) -> Value {
    let mut body = body(seed);
    body["stream"] = json!(true);
    body
}

const CHAT: &str = "/v1/chat/completions";
const SOON: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(120);
