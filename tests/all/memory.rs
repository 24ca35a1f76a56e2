//! Memory that is not enough for all: it makes answers late and never different, and refuses only what can never fit.

use std::time::Duration;

use e2e::Server;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::http_life::await_idle;
use super::questions::chat;

/// Room for some 340 positions in the large model, which is far less than all answers together need.
const TIGHT: &str = "[models.large]\nfiles = \"embedded:large\"\nkv_mib = 1\n";

fn pair(mode: &str, kv: &str) -> String {
    format!(
        "[scheduler]\nmode = {mode:?}\n[models.small]\nfiles = \"embedded:small\"\n{kv}\n\
         [models.large]\nfiles = \"embedded:large\"\n{kv}\n\
         [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:random-share\"\nsettings = {{ share = 0.4 }}\n"
    )
}

fn long(model: &str, seed: u64, tokens: usize) -> Value {
    let mut body = chat(model, seed as usize % 4, 1.5);
    body["seed"] = json!(seed);
    body["max_tokens"] = json!(tokens);
    body["ignore_eos"] = json!(true);
    body
}

async fn answers(server: &Server, model: &str) -> Vec<Value> {
    let all = (0..10).map(|seed| async move {
        let answer = server.post("/v1/chat/completions", &long(model, seed, 200)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["choices"][0]["message"]["content"].clone()
    });
    match timeout(LONG, join_all(all)).await {
        Ok(answers) => answers,
        Err(_) => panic!(
            "nobody waits for ever: {:#}\n{}",
            server.get("/admin/scheduler").await.json(),
            server.get("/metrics").await.text
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_in_too_little_memory() {
    let plenty = answers(&Server::start(&pair("eager-async", "")), "pair").await;
    for mode in ["eager-async", "ours", "step-sync"] {
        let tight = Server::start(&pair(mode, "kv_mib = 1"));
        assert_eq!(answers(&tight, "pair").await, plenty, "{mode}");
        let metrics = tight.get("/metrics").await.text;
        let none = "tokenrouter_num_preemptions_total{model=\"large\"} 0";
        assert!(!metrics.contains(none), "the test needs a full memory: {metrics}");
    }
}

#[tokio::test]
async fn what_never_fits_is_refused_and_its_neighbours_are_answered() {
    let server = Server::start(TIGHT);
    let never = long("large", 1, 800);
    let mut never = server.stream("/v1/chat/completions", &never).await;
    let body = long("large", 2, 150);
    let neighbour = server.post("/v1/chat/completions", &body);
    let (never, neighbour) = tokio::join!(timeout(LONG, never.rest()), timeout(LONG, neighbour));
    let never = never.expect("it ends").concat();
    assert!(never.contains("kv_mib"), "{never}");
    let neighbour = neighbour.expect("it is answered");
    assert_eq!(neighbour.json()["usage"]["completion_tokens"], 150, "{}", neighbour.text);
    await_idle(&server).await;
    assert_eq!(server.post("/v1/chat/completions", &chat("large", 0, 0.0)).await.status, 200);
}

#[tokio::test]
async fn a_tenant_finds_its_own_text_in_the_cache_and_nobody_elses() {
    let server = Server::start("[models.small]\nfiles = \"embedded:small\"\n");
    let body = chat("small", 0, 0.0);
    let mut hits = Vec::new();
    let mut texts = Vec::new();
    for key in ["ann", "ann", "bob", "bob"] {
        let answer = server.post_as(key, "/v1/chat/completions", &body).await.json();
        texts.push(answer["choices"][0]["message"]["content"].clone());
        // One more request, so that what the first one found is counted by now.
        server.post("/v1/completions", &json!({"model": "small", "prompt": "a", "max_tokens": 1})).await;
        let metrics = server.get("/metrics").await.text;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("tokenrouter_prefix_cache_hits_total{"))
            .expect("a metric");
        hits.push(line.rsplit(' ').next().expect("a value").parse::<u64>().expect("a number"));
    }
    // The request in between finds its own prompt, of a token or two, from the second time on.
    let found: Vec<u64> = hits.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(hits[0] == 0 && found[0] > 10 && found[1] < 5 && found[2] > 10, "{hits:?}");
    assert!(texts.windows(2).all(|two| two[0] == two[1]), "{texts:?}");
}

const LONG: Duration = Duration::from_secs(60);
