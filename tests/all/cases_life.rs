//! Cases of the server's life: silence, failures in mid-stream, hostile parameters, readiness, drain.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use e2e::{Server, connect};
use serde_json::{Value, json};
use tokenrouter::config::Config;
use tokenrouter::control::Control;
use tokenrouter::http::{HttpSettings, serve_when};
use tokenrouter::runtime::Runtime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::cases_bodies::QUICK;
use super::cases_cancel::metric;
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const PATIENCE: Duration = Duration::from_secs(20);
/// All that the server says until it closes the connection.
pub(crate) async fn ended(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset is an end, too.
    if timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed in time").is_err() {
        answer.extend_from_slice(b"(reset)");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_26_streams_get_comments_in_line_and_in_long_gaps_and_whole_answers_do_not() {
    let slow =
        "[server]\njourneys_max = 1\n[models.slow]\nfiles = \"embedded:small\"\nsim = { fixed_ms = 120.0 }\n";
    let server = Server::start_with(slow, |settings| settings.ping_interval = Duration::from_millis(20));
    let body = json!({"model": "slow", "prompt": [5, 6], "max_tokens": 5, "ignore_eos": true});
    let mut first = server.stream(TEXT, &body).await;
    let mut second = server.stream(TEXT, &body).await;
    // Before anything else comes.
    assert!(second.next().await.is_some());
    assert!(second.comments.len() >= 3 && second.comments.iter().all(|comment| comment == "ping"));
    let in_line = second.comments.len();
    second.chunks().await;
    assert!(second.comments.len() > in_line, "between tokens, too");
    first.chunks().await;
    let whole = server.post(TEXT, &body).await;
    assert!(whole.status == 200 && !whole.text.contains("ping"), "{}", whole.text);
}

/// The last words of a stream, which must be an error's and nothing else's.
fn assert_failed(data: &[String], from: usize) {
    let all: Vec<Value> =
        data.iter().map(|data| serde_json::from_str(data).expect("JSON, so no [DONE]")).collect();
    let (last, before) = all.split_last().expect("something");
    assert!(last["error"]["message"].is_string() && last["error"]["type"] == "server_error", "{last}");
    assert!(before.len() >= from, "it had begun");
    let finished = before.iter().any(|chunk| {
        chunk["choices"]
            .as_array()
            .is_some_and(|choices| choices.iter().any(|choice| !choice["finish_reason"].is_null()))
    });
    assert!(!finished, "no reason is given for an end that is none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_27_a_model_that_fails_in_mid_stream_ends_it_with_an_error_and_nothing_else() {
    // Memory for fewer positions than the answer has.
    let server = Server::start("[models.large]\nfiles = \"embedded:large\"\nkv_mib = 1\n");
    let body = json!({"model": "large", "prompt": [5, 6], "max_tokens": 900, "ignore_eos": true, "seed": 1});
    let mut stream = server.stream(TEXT, &body).await;
    assert_failed(&stream.rest().await, 10);
    let whole = server.post(TEXT, &body).await;
    assert_eq!((whole.status, &whole.json()["error"]["type"]), (500, &json!("server_error")));
    let page = server.get("/metrics").await.text;
    assert_eq!(metric(&page, "request_failure_total"), 2.0);
    assert_eq!(server.post(CHAT, &chat("large", 0, 0.0)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_27_a_policy_that_fails_in_mid_stream_does_not_end_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("failing.wasm");
    let at_ten = "(if (i32.eq (local.get $index) (i32.const 70)) (then (unreachable)))";
    let guest = super::guest::Guest::good().always(policy::Call::Route, at_ten);
    std::fs::write(&file, guest.component()).expect("the folder is ours");
    let server = Server::start(&format!(
        "[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
         [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = {:?}\n",
        file.display().to_string()
    ));
    let body = json!({
        "model": "pair", "prompt": [5, 6], "max_tokens": 100, "ignore_eos": true, "seed": 1, "route_trace": true,
    });
    let chunks = server.stream(TEXT, &body).await.chunks().await;
    let reasons: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["finish_reason"])
        .filter(|reason| reason.is_string())
        .collect();
    assert_eq!(reasons, ["length"]);
    assert!(metric(&server.get("/metrics").await.text, "policy_failures_total") == 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_30_hostile_parameters_are_refused_by_name_and_hit_no_neighbour() {
    let server = Server::embedded();
    let mut neighbour = server.stream(CHAT, &chat("large", 3, 0.0)).await;
    assert!(neighbour.next().await.is_some());
    let many: Vec<String> = (0..100_000).map(|at| format!("stop {at}")).collect();
    let hostile = [
        ("stop_token_ids", json!([-1])),
        ("stop_token_ids", json!([1u64 << 31])),
        ("stop_token_ids", json!([1e30])),
        ("logit_bias", json!({"-1": 1})),
        ("logit_bias", json!({"4294967296": 1})),
        ("logit_bias", json!({"5": 1e9})),
        ("stop", json!(many)),
        ("stop", json!(vec![""; 3])),
        ("max_tokens", json!(-1)),
        ("max_tokens", json!(1u64 << 62)),
        ("min_tokens", json!(1u64 << 62)),
        ("n", json!(1_000_000_000)),
        ("top_logprobs", json!(1_000_000)),
        ("seed", json!(1e300)),
        ("temperature", json!("hot")),
        ("top_k", json!(-7)),
        ("user", json!({"a": [1]})),
    ];
    for (param, value) in hostile {
        let mut body = chat("small", 0, 0.0);
        body[param] = value.clone();
        if param == "top_logprobs" {
            body["logprobs"] = json!(true);
        }
        let refused = server.post(CHAT, &body).await;
        assert_eq!(refused.status, 400, "{param}: {} {}", value.to_string().len(), refused.text);
        let error = &refused.json()["error"];
        let named = error["param"].as_str().is_some_and(|named| named.starts_with(param));
        let is_context = error["code"] == "context_length_exceeded";
        assert!(named || is_context, "{param}: {error}");
    }
    // Not a regular expression for us, whatever it would do to one.
    let mut bomb = chat("small", 0, 0.0);
    bomb["stop"] = json!(["(a+)+$", "((((((((((a*)*)*)*)*)*)*)*)*)*"]);
    assert_eq!(server.post(CHAT, &bomb).await.status, 200);
    let chunks = neighbour.chunks().await;
    let alone = server.post(CHAT, &chat("large", 3, 0.0)).await.json();
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(alone["choices"][0]["message"]["content"], text, "its neighbour's answer is what it is alone");
}

/// A server that loads as long as the test wants.
async fn loading()
-> (std::net::SocketAddr, oneshot::Sender<Arc<Control>>, CancellationToken, tokio::task::JoinHandle<()>) {
    let config = Config::parse(QUICK, Path::new("")).expect("valid");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (loaded, when_loaded) = oneshot::channel();
    let shutdown = CancellationToken::new();
    let serving =
        serve_when(listener, async { when_loaded.await.ok() }, HttpSettings::new(&config), shutdown.clone());
    (address, loaded, shutdown, tokio::spawn(serving))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_35_alive_at_once_and_ready_when_all_is_loaded() {
    let (address, loaded, shutdown, serving) = loading().await;
    let get = |path: &'static str| e2e::ask(address, None, ("GET", path), "");
    assert_eq!(get("/health").await.status, 200);
    let ready = get("/ready").await;
    assert_eq!((ready.status, &ready.json()["error"]["code"]), (503, &json!("loading")));
    for (method, path) in
        [("GET", "/v1/models"), ("GET", "/metrics"), ("POST", "/health"), ("GET", "/nowhere")]
    {
        let refused = e2e::ask(address, None, (method, path), "").await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, "5"), "{path}: {}", refused.text);
        assert!(refused.header("x-request-id").starts_with("req-"));
    }
    let early = e2e::ask(address, None, ("POST", CHAT), &chat("quick", 0, 0.0).to_string()).await;
    assert_eq!((early.status, &early.json()["error"]["type"]), (503, &json!("server_error")));
    // One connection, before and after.
    let mut kept = connect(address).await;
    kept.write_all(b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    let mut first = vec![0; 4096];
    let length = kept.read(&mut first).await.expect("an answer");
    assert!(first[..length].starts_with(b"HTTP/1.1 503"));
    let control = tokio::task::spawn_blocking({
        let tokio = tokio::runtime::Handle::current();
        move || {
            let _in_tokio = tokio.enter();
            let config = Config::parse(QUICK, Path::new("")).expect("valid");
            let runtime = Arc::new(Runtime::start(&config, &mut ()).expect("it starts"));
            Arc::new(Control::new(runtime, &config).expect("it can be changed"))
        }
    });
    let control = control.await.expect("no panic");
    assert!(loaded.send(Arc::clone(&control)).is_ok());
    while get("/ready").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let models = get("/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "quick", "what is ready is listed");
    kept.write_all(b"GET /ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("sent");
    assert!(ended(&mut kept).await.starts_with("HTTP/1.1 200"));
    shutdown.cancel();
    serving.await.expect("it ends");
    control.runtime().shut_down(Duration::ZERO).await;
}

#[tokio::test]
async fn case_36_a_shutdown_while_loading_ends_at_once() {
    let (_, loaded, shutdown, serving) = loading().await;
    shutdown.cancel();
    timeout(PATIENCE, serving).await.expect("it ends").expect("well");
    drop(loaded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_36_a_drain_under_fifty_streams_loses_none_and_ends_at_its_deadline() {
    let slow = "[models.slow]\nfiles = \"embedded:small\"\nsim = { fixed_ms = 5.0 }\n";
    let body = |tokens: usize, seed: u64| json!({"model": "slow", "prompt": [5, 6], "max_tokens": tokens, "ignore_eos": true, "seed": seed});
    let server = Server::start(slow);
    let mut streams = Vec::new();
    for seed in 0..50 {
        streams.push(server.stream(TEXT, &body(60, seed)).await);
    }
    server.begin_shutdown();
    let asked = body(5, 0);
    let (ready, health, refused) =
        tokio::join!(server.get("/ready"), server.get("/health"), server.post(TEXT, &asked));
    assert_eq!((ready.status, health.status, refused.status), (503, 200, 503));
    for stream in &mut streams {
        let chunks = stream.chunks().await;
        assert_eq!(chunks.last().expect("a chunk")["choices"][0]["finish_reason"], "length");
    }
    drop(server);
    // Forced at the deadline: every stream still ends with a word.
    let server = Server::start_with(slow, |settings| settings.drain = Duration::from_millis(300));
    let mut streams = Vec::new();
    for seed in 0..50 {
        streams.push(server.stream(TEXT, &body(1000, seed)).await);
        assert!(streams[seed as usize].next().await.is_some());
    }
    let begun = Instant::now();
    server.begin_shutdown();
    for stream in &mut streams {
        assert_failed(&stream.rest().await, 0);
    }
    assert!(begun.elapsed() < PATIENCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_on_which_nothing_is_asked_are_closed() {
    let server = Server::start_with(QUICK, |settings| settings.header_timeout = Duration::from_millis(100));
    let mut first = connect(server.address()).await;
    first.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
    assert!(ended(&mut first).await.contains("alive"), "answered, and then closed");
    let mut second = super::http_two::connected(&server).await;
    let mut short = chat("quick", 0, 0.0);
    short["max_tokens"] = json!(2);
    let request = || super::http_two::post_to(CHAT, None, &short);
    assert_eq!(second.send_request(request()).await.expect("a response").status(), 200);
    let closed = async {
        while second.ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, closed).await.expect("closed");
}

#[tokio::test]
async fn too_many_and_too_large_headers_are_refused() {
    let server = Server::embedded();
    for headers in ["x-y: z\r\n".repeat(200), format!("x-y: {}\r\n", "z".repeat(100_000))] {
        let mut stream = connect(server.address()).await;
        let request = format!("GET /health HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        // It may be refused before it is sent.
        drop(stream.write_all(request.as_bytes()).await);
        let answer = ended(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431") || answer == "(reset)", "{answer}");
    }
    assert_eq!(server.get("/health").await.status, 200);
}
