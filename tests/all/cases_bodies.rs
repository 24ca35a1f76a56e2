//! Cases of what clients send and do not take in: it is bounded in size, in time and in memory.

use std::time::Duration;

use e2e::{Server, connect};
use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::cases_life::ended;
use super::http_life::await_idle;
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const PATIENCE: Duration = Duration::from_secs(20);
/// Steps that take no time, and room for long answers.
pub(crate) const QUICK: &str = "[models.quick]\nfiles = \"embedded:small\"\nsim = { context = 200000 }\n";

/// Bytes of this process in memory: of the server, and of the test's own clients.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_10_a_prompt_of_three_megabytes_is_read_and_then_refused_for_the_context() {
    let server = Server::embedded();
    let mut body = chat("small", 0, 0.0);
    body["messages"][0]["content"] = json!("shells and apples ".repeat(170_000));
    let refused = server.post(CHAT, &body).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_10_a_body_of_a_gigabyte_is_refused_at_once_however_its_length_is_told() {
    let server = Server::start(QUICK);
    let before = resident();
    let all = (0..16).map(|ix| {
        let address = server.address();
        async move {
            let mut stream = connect(address).await;
            let length =
                if ix % 2 == 0 { "content-length: 1073741824" } else { "transfer-encoding: chunked" };
            let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\n{length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.expect("the head is taken");
            let (mut read, mut write) = stream.into_split();
            // As much as the server takes.
            let sending = async {
                let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
                for _ in 0..1024 {
                    if write.write_all(&chunk).await.is_err() {
                        // Why it is closed may be there to be read.
                        std::future::pending::<()>().await;
                    }
                }
            };
            let mut answer = vec![0; 4096];
            let reading = async {
                let length = read.read(&mut answer).await.unwrap_or(0);
                String::from_utf8_lossy(&answer[..length]).into_owned()
            };
            tokio::select! {
                answer = reading => answer,
                () = sending => String::new(),
            }
        }
    });
    let answers = timeout(PATIENCE, join_all(all)).await.expect("refused in time");
    let refused = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 413")).count();
    // Who goes on sending may find the connection reset before it has read why.
    assert!(refused >= 1, "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.is_empty() || answer.contains("request_too_large")),
        "{answers:?}"
    );
    let grown = resident().saturating_sub(before);
    assert!(grown < 200 << 20, "{} MiB for refused bodies", grown >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_10_a_body_that_drips_is_cut_off_and_its_neighbours_are_answered() {
    let server = Server::start_with(QUICK, |settings| settings.body_timeout = Duration::from_millis(300));
    let dripping = (0..20).map(|_| {
        let address = server.address();
        async move {
            let mut stream = connect(address).await;
            let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n");
            stream.write_all(head.as_bytes()).await.expect("the head is taken");
            for _ in 0..1000 {
                if stream.write_all(b" ").await.is_err() {
                    break;
                }
                let mut answer = [0; 512];
                if let Ok(Ok(length)) = timeout(Duration::from_millis(20), stream.read(&mut answer)).await {
                    return String::from_utf8_lossy(&answer[..length]).into_owned();
                }
            }
            String::new()
        }
    });
    let mut short = chat("quick", 0, 0.0);
    short["max_tokens"] = json!(5);
    let (answers, neighbour) = tokio::join!(join_all(dripping), server.post(CHAT, &short));
    assert_eq!(neighbour.status, 200);
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 408")), "{answers:?}");
}

/// A connection that takes in little, and asks for a stream that is long.
async fn unread(server: &Server, tokens: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(server.address()).await.expect("the server listens");
    let body = json!({
        "model": "quick", "prompt": [5, 6, 7], "max_tokens": tokens, "ignore_eos": true, "stream": true, "logprobs": 5,
    });
    let body = body.to_string();
    let request = format!("POST {TEXT} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("the request is taken");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_33_clients_that_read_nothing_hold_little_are_ended_and_disturb_nobody() {
    let server = Server::start_with(QUICK, |settings| settings.write_timeout = Duration::from_secs(1));
    let mut silent = Vec::new();
    let before = resident();
    for _ in 0..8 {
        silent.push(unread(&server, 6_000).await);
    }
    let mut short = chat("quick", 0, 0.0);
    short["max_tokens"] = json!(20);
    assert_eq!(server.post(CHAT, &short).await.status, 200);
    await_idle(&server).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 256 << 20, "{} MiB for answers that nobody reads", grown >> 20);
    // Nobody reads for longer than the limit; what is read then is what was on its way, and not all of the answer.
    tokio::time::sleep(Duration::from_secs(4)).await;
    for stream in &mut silent {
        let answer = ended(stream).await;
        assert!(!answer.contains("[DONE]"), "it was ended before its end");
    }
    assert_eq!(server.post(CHAT, &short).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_33_a_stream_of_http_2_that_is_not_read_is_ended_and_its_neighbour_is_not() {
    use http_body_util::BodyExt;

    let server = Server::start_with(QUICK, |settings| settings.write_timeout = Duration::from_millis(500));
    let mut connection = super::http_two::connected(&server).await;
    let long = json!({
        "model": "quick", "prompt": [5], "max_tokens": 20000, "ignore_eos": true, "stream": true, "logprobs": 5,
    });
    let request = super::http_two::post_to(TEXT, None, &long);
    let mut unread = connection.send_request(request).await.expect("a response").into_body();
    // Its window is full, and what the model has made since then waits.
    let mut short = chat("quick", 0, 0.0);
    short["max_tokens"] = json!(20);
    await_idle(&server).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let neighbour = super::http_two::post_to(CHAT, None, &short);
    assert_eq!(connection.send_request(neighbour).await.expect("a response").status(), 200);
    let rest = async {
        while let Some(frame) = unread.frame().await {
            if frame.is_err() {
                return "reset";
            }
        }
        "whole"
    };
    assert_eq!(timeout(PATIENCE, rest).await.expect("an end"), "reset");
}
