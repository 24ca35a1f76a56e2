//! Clients that leave in every phase of a request: nothing of theirs stays in any model, quota or gauge.

use std::fs;
use std::time::Duration;

use e2e::{Events, Server};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use policy::Call;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::guest::Guest;
use super::http_keys::{key, line};
use super::http_two::{connected, post_to};

const TEXT: &str = "/v1/completions";
const CLIENTS: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(20);

/// Two models of which one is slow, a place for a fifth of the clients, and a tenant whose quota counts them.
fn config(more: &str) -> String {
    format!(
        "[server]\njourneys_max = 60\n{more}\n\
         [models.small]\nfiles = \"embedded:small\"\ntokens_max = 64\nsim = {{ fixed_ms = 4.0 }}\n\
         [models.large]\nfiles = \"embedded:large\"\ntokens_max = 64\nsim = {{ fixed_ms = 20.0 }}\n\
         [tenants.acme]\nquotas = {{ journeys = 1000 }}\nkeys = [{}]\n[tenants.operators]\nkeys = [{}]\n",
        line(1, ""),
        line(2, ", scope = \"admin\"")
    )
}

fn route(policy: &str, more: &str) -> String {
    format!("[routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = {policy:?}\n{more}")
}

/// Some have long prompts, which are read in many steps; all have long answers.
fn body(seed: u64) -> Value {
    let prompt = if seed.is_multiple_of(4) { 700 } else { 8 };
    json!({"model": "pair", "prompt": vec![7; prompt], "max_tokens": 300, "ignore_eos": true, "seed": seed})
}

/// An answer that is being read, or waited for.
enum Reader {
    One(#[expect(dead_code, reason = "held for its drop")] Events),
    /// A stream of a connection that others have streams on.
    Two(#[expect(dead_code, reason = "held for its drop")] Incoming),
}

async fn open(server: &Server) -> Vec<Reader> {
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(connected(server).await);
    }
    let open = (0..CLIENTS).map(|seed| {
        let (key, mut body) = (key(1), body(seed));
        let connection = connections.get(seed as usize % 8).cloned();
        async move {
            let Some(mut connection) = connection else {
                return Reader::One(server.stream_as(Some(&key), TEXT, &body).await);
            };
            body["stream"] = json!(true);
            let response = connection.send_request(post_to(TEXT, Some(&key), &body)).await;
            let response = response.expect("a response");
            assert_eq!(response.status(), 200);
            Reader::Two(response.into_body())
        }
    });
    join_all(open).await
}

/// The sum of a metric over its labels.
pub(crate) fn metric(page: &str, name: &str) -> f64 {
    let name = format!("tokenrouter_{name}");
    let values = page.lines().filter_map(|line| line.strip_prefix(&name));
    let values = values.filter(|rest| rest.starts_with(['{', ' ']));
    values.map(|rest| rest.rsplit(' ').next().expect("a value").parse::<f64>().expect("a number")).sum()
}

/// Waits until clients are in every phase: in line, in their prompts, and, where journeys are handed over, away.
async fn await_all_phases(server: &Server, is_away: impl Fn(&str) -> bool) {
    let all = async {
        loop {
            let page = server.runtime().metrics_page();
            let has = |name| metric(&page, name) > 0.0;
            if has("num_requests_waiting") && has("num_requests_running") && is_away(&page) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("clients come into every phase");
}

/// What must be nothing when nobody is there.
const GAUGES: [&str; 4] =
    ["num_requests_waiting", "num_requests_running", "num_requests_parked", "kv_cache_tokens"];

async fn await_nobody(server: &Server) {
    let nobody = async {
        loop {
            let page = server.runtime().metrics_page();
            if GAUGES.iter().all(|name| metric(&page, name) == 0.0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if timeout(PATIENCE, nobody).await.is_err() {
        panic!("something stays: {}", server.runtime().metrics_page());
    }
}

/// Two hundred clients come and leave at once. A machine that is busy can only make this slower: the best of three.
async fn come_and_leave(server: &Server, is_away: impl Fn(&str) -> bool) {
    let mut best = Duration::MAX;
    for round in 1..=3 {
        let readers = open(server).await;
        await_all_phases(server, &is_away).await;
        let ended = metric(&server.runtime().metrics_page(), "request_success_total");
        let left = Instant::now();
        drop(readers);
        await_nobody(server).await;
        best = best.min(left.elapsed());
        let page = server.runtime().metrics_page();
        let ended_meanwhile = metric(&page, "request_success_total") - ended;
        assert!(ended_meanwhile < CLIENTS as f64 / 2.0, "most of them left before their end");
        let over = metric(&page, "request_success_total") + metric(&page, "request_cancelled_total");
        assert_eq!(over, (round * CLIENTS) as f64, "each one is counted once: {page}");
        let usage = server.ask(Some(&key(1)), "GET", "/v1/usage", "").await.json();
        assert_eq!(usage["running"], 0, "the quota is settled: {usage}");
        if best < Duration::from_secs(1) {
            return;
        }
    }
    panic!("gone after {best:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_24_clients_that_leave_in_line_in_prefill_in_decode_and_in_handoffs_leave_nothing() {
    let server = Server::start(&(config("") + &route("builtin:random-share", "settings = { share = 0.3 }")));
    come_and_leave(&server, |page| metric(page, "num_requests_parked") > 0.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_24_clients_that_leave_while_a_batch_waits_for_others_leave_nothing() {
    // The large model starts with everybody, and the small one is so slow that nobody else comes soon.
    let scheduler = "[scheduler]\nmode = \"fixed-b\"\nthresholds = { large = 60 }";
    let server = Server::start(
        &(config(scheduler).replace("fixed_ms = 4.0", "fixed_ms = 100.0")
            + &route("builtin:random-share", "settings = { share = 0.3 }")),
    );
    come_and_leave(&server, |page| {
        metric(page, "scheduler_ready") > 20.0 && metric(page, "handoffs_total") > 5.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_24_clients_that_leave_while_a_slow_policy_is_asked_leave_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("slow.wasm");
    // Some milliseconds for each token: many of them wait for the lane's threads.
    let spin = "(global.set $spin (i32.const 150000)) \
        (loop $again (global.set $spin (i32.sub (global.get $spin) (i32.const 1))) (br_if $again (global.get $spin)))";
    let slow = Guest::good()
        .put("(global $free", "(global $spin (mut i32) (i32.const 0)) (global $free")
        .always(Call::Route, spin);
    fs::write(&file, slow.component()).expect("the folder is ours");
    let sandbox = "[sandbox]\nin_step_us = 0\nlane_threads = 1";
    let server = Server::start(&(config(sandbox) + &route(&file.display().to_string(), "")));
    come_and_leave(&server, |page| metric(page, "policy_lane_calls_total") > 5.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_24_a_connection_of_many_streams_that_breaks_takes_all_of_them_along() {
    let server = Server::start(&(config("") + &route("builtin:entropy", "")));
    let mut connection = connected(&server).await;
    let mut bodies = Vec::new();
    for seed in 0..50 {
        let mut body = body(seed);
        body["stream"] = json!(true);
        let response =
            connection.send_request(post_to(TEXT, Some(&key(1)), &body)).await.expect("a response");
        bodies.push(response.into_body());
    }
    assert!(bodies[1].frame().await.is_some());
    drop((connection, bodies));
    await_nobody(&server).await;
}
