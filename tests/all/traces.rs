//! Traces as a collector gets them, and log lines as whoever reads them does.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e2e::{Server, ask, binary};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use tokenrouter::config::EMBEDDED;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::http_life::await_idle;
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const PATIENCE: Duration = Duration::from_secs(20);

/// A collector that keeps what it gets, and answers with this status.
struct Collector {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

/// A request, and the key that came with it.
struct Got {
    request: ExportTraceServiceRequest,
    key: Option<String>,
}

impl Collector {
    async fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let got = Arc::new(Mutex::default());
        let kept = Arc::clone(&got);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let take = service_fn(move |request| take(Arc::clone(&kept), request, status));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), take),
                );
            }
        });
        Self { url, got }
    }

    /// So many spans, once they have come, with their resource's attributes.
    async fn spans(&self, count: usize) -> Vec<(Span, BTreeMap<String, Any>)> {
        let all = async {
            loop {
                let spans = self.got();
                if spans.len() >= count {
                    return spans;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, all).await.unwrap_or_else(|_| panic!("{} of {count} spans", self.got().len()))
    }

    fn got(&self) -> Vec<(Span, BTreeMap<String, Any>)> {
        let got = self.got.lock().expect("nobody panics with it");
        let resources = got.iter().flat_map(|got| &got.request.resource_spans);
        let spans = resources.flat_map(|of| {
            let resource = attributes(of.resource.as_ref().map_or(&[][..], |resource| &resource.attributes));
            of.scope_spans
                .iter()
                .flat_map(|scope| &scope.spans)
                .map(move |span| (span.clone(), resource.clone()))
        });
        spans.collect()
    }
}

async fn take(
    kept: Arc<Mutex<Vec<Got>>>,
    request: Request<Incoming>,
    status: u16,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/traces"));
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let key = request.headers().get("x-key").map(|key| key.to_str().expect("ASCII").to_owned());
    let body = request.into_body().collect().await?.to_bytes();
    let decoded = ExportTraceServiceRequest::decode(body).expect("a request of the protocol");
    kept.lock().expect("nobody panics with it").push(Got { request: decoded, key });
    Ok(Response::builder().status(status).body(Full::default()).expect("an answer"))
}

fn attributes(of: &[KeyValue]) -> BTreeMap<String, Any> {
    let value = |pair: &KeyValue| pair.value.clone().and_then(|value| value.value);
    of.iter().filter_map(|pair| Some((pair.key.clone(), value(pair)?))).collect()
}

fn text(value: &Any) -> &str {
    match value {
        Any::StringValue(text) => text,
        other => panic!("no text: {other:?}"),
    }
}

/// The embedded configuration with more in `[telemetry]`.
fn config(url: &str, more: &str) -> String {
    EMBEDDED.replace("[telemetry]", &format!("[telemetry]\notlp_endpoint = {url:?}\n{more}\n# "))
}

fn traced(collector: &Collector, more: &str) -> Server {
    Server::start(&config(&collector.url, &format!("otlp_headers = {{ x-key = \"k\" }}\n{more}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journey_is_one_span_with_its_usage_and_an_event_for_each_handoff() {
    let collector = Collector::start(200).await;
    let server = traced(&collector, "service_name = \"mine\"");
    let mut body = chat("pair/random@share=0.4", 1, 0.7);
    (body["seed"], body["max_tokens"], body["ignore_eos"]) = (json!(3), json!(60), json!(true));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = server.post_with(&[("traceparent", parent), ("x-request-id", "mine-7")], CHAT, &body).await;
    let usage = answer.json()["usage"].clone();
    let (span, resource) = collector.spans(1).await.remove(0);
    assert_eq!(text(&resource["service.name"]), "mine");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.parent_span_id)), parent);
    assert_eq!((span.span_id.len(), span.name.as_str()), (8, "chat pair/random"));
    assert!(span.start_time_unix_nano < span.end_time_unix_nano);
    let told = attributes(&span.attributes);
    let count = |key: &str| match &told[key] {
        Any::IntValue(count) => *count as u64,
        other => panic!("{key}: {other:?}"),
    };
    assert_eq!(count("gen_ai.usage.input_tokens"), usage["prompt_tokens"].as_u64().expect("a count"));
    assert_eq!(count("gen_ai.usage.output_tokens"), 60);
    for (model, made) in usage["completion_tokens_by_model"].as_object().expect("by model") {
        assert_eq!(
            count(&format!("tokenrouter.usage.output_tokens.{model}")),
            made.as_u64().expect("a count")
        );
    }
    assert_eq!(
        (text(&told["gen_ai.operation.name"]), text(&told["gen_ai.provider.name"])),
        ("chat", "tokenrouter")
    );
    assert_eq!(text(&told["gen_ai.request.model"]), "pair/random");
    assert_eq!(text(&told["gen_ai.response.id"]), answer.json()["id"]);
    assert_eq!(text(&told["tokenrouter.request_id"]), "mine-7");
    let Any::ArrayValue(reasons) = &told["gen_ai.response.finish_reasons"] else { panic!("a list") };
    assert_eq!(reasons.values[0].value, Some(Any::StringValue("length".to_owned())));
    // There and back again, in time.
    assert!(span.events.len() > 4 && count("tokenrouter.handoffs") == span.events.len() as u64);
    let ways: Vec<(String, String)> = (span.events.iter())
        .map(|event| {
            assert_eq!(event.name, "handoff");
            let told = attributes(&event.attributes);
            (text(&told["tokenrouter.source"]).to_owned(), text(&told["tokenrouter.target"]).to_owned())
        })
        .collect();
    let way = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert!(ways.chunks(2).all(|pair| pair[0] == way("small", "large")), "{ways:?}");
    assert!(ways.iter().skip(1).step_by(2).all(|back| *back == way("large", "small")), "{ways:?}");
    let times: Vec<u64> = span.events.iter().map(|event| event.time_unix_nano).collect();
    assert!(times.is_sorted() && times[0] >= span.start_time_unix_nano);
    assert_eq!(collector.got.lock().expect("no panic")[0].key.as_deref(), Some("k"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_leave_and_those_who_do_not_want_it_are_told_as_such() {
    let collector = Collector::start(200).await;
    let server = traced(&collector, "");
    let mut long = chat("large", 0, 2.0);
    (long["max_tokens"], long["ignore_eos"]) = (json!(800), json!(true));
    let mut stream = server.stream(CHAT, &long).await;
    assert!(stream.next().await.is_some());
    drop(stream);
    await_idle(&server).await;
    // Not sampled by whoever asks.
    let unsampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    assert_eq!(
        server.post_with(&[("traceparent", unsampled)], CHAT, &chat("small", 0, 0.0)).await.status,
        200
    );
    assert_eq!(server.post(CHAT, &chat("nobody", 0, 0.0)).await.status, 404);
    assert_eq!(server.post(CHAT, &chat("small", 0, 0.0)).await.status, 200);
    let spans = collector.spans(2).await;
    let reasons: Vec<String> = spans
        .iter()
        .map(|(span, _)| format!("{:?}", attributes(&span.attributes)["gen_ai.response.finish_reasons"]))
        .collect();
    assert!(reasons[0].contains("\"cancelled\"") && reasons[1].contains("\"stop\""), "{reasons:?}");
    assert_ne!(spans[0].0.trace_id, spans[1].0.trace_id);
    let exported = async {
        while !server.runtime().metrics_page().contains("tokenrouter_trace_spans_exported_total 2\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, exported).await.expect("they are counted");
}

/// A collector that refuses, or is not there, costs traces and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_fails_holds_up_no_answer_and_what_is_lost_is_counted() {
    let collector = Collector::start(400).await;
    for url in [collector.url.as_str(), "http://127.0.0.1:9"] {
        let server = Server::start(&config(url, ""));
        for ix in 0..5 {
            assert_eq!(server.post(CHAT, &chat("small", ix, 0.0)).await.status, 200);
        }
        let dropped = async {
            while !server.runtime().metrics_page().contains("tokenrouter_trace_spans_dropped_total 5\n") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, dropped).await.expect("they are counted");
    }
}

/// The real program: what a shutdown finds in the queue is sent, and every log line of a request has its id, whichever thread
/// writes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_log_line_of_a_request_has_its_id_and_the_last_span_is_sent() {
    let collector = Collector::start(200).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A policy that fails in the decode loop, and a model that does.
    let failing = super::guest::Guest::good()
        .always(policy::Call::Route, "(if (i32.eq (local.get $index) (i32.const 70)) (then (unreachable)))");
    let (file, config) = (folder.path().join("failing.wasm"), folder.path().join("config.toml"));
    std::fs::write(&file, failing.component()).expect("the folder is ours");
    let written = format!(
        "[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\nkv_mib = 1\n\
         [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = {:?}\n",
        file.display().to_string()
    );
    std::fs::write(&config, written).expect("the folder is ours");
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("an address");
    let mut child = Command::new(binary())
        .args(["--log", "debug", "--log-format", "json", "serve", "--listen", &free.to_string(), "--config"])
        .arg(&config)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
        .env("OTEL_SERVICE_NAME", "by the environment")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built: cargo test --workspace");
    let mut lines = child.stderr.take().expect("its log");
    let reading = std::thread::spawn(move || {
        let mut log = String::new();
        lines.read_to_string(&mut log).map(|_| log)
    });
    let ready = async {
        while tokio::net::TcpStream::connect(free).await.is_err()
            || ask(free, None, ("GET", "/ready"), "").await.status != 200
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), ready).await.expect("it gets ready");
    let body = |model: &str, tokens: usize| {
        json!({"model": model, "prompt": [5, 6], "max_tokens": tokens, "ignore_eos": true, "seed": 1})
            .to_string()
    };
    assert_eq!(ask(free, None, ("POST", "/v1/completions"), &body("pair", 100)).await.status, 200);
    assert_eq!(ask(free, None, ("POST", "/v1/completions"), &body("large", 900)).await.status, 500);
    let process = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a process");
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it is ours");
    let log = tokio::task::spawn_blocking(move || reading.join().expect("no panic"))
        .await
        .expect("no panic")
        .expect("text");
    assert!(child.wait().expect("it is ours").success());
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of_requests: Vec<&Value> = lines.iter().filter(|line| line["journey"].is_string()).collect();
    for said in ["policy failed; falling back", "a step failed"] {
        assert!(of_requests.iter().any(|line| line["message"] == said), "{said}: {log}");
    }
    for line in of_requests {
        let id = line["span"]["request_id"].as_str().unwrap_or_default();
        assert!(id.starts_with("req-"), "{line}");
    }
    let spans = collector.spans(2).await;
    assert_eq!(text(&spans[0].1["service.name"]), "by the environment");
}
