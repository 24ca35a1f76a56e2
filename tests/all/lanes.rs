//! Slow policies in a lane of their own: where a policy is called changes no answer, whoever is slow holds up nobody
//! else, and journeys in a lane end like all others.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::Server;
use futures_util::future::join_all;
use policy::Call;
use serde_json::{Value, json};
use tokenrouter::config::Config;
use tokenrouter::runtime::{Ask, Runtime};

use super::guest::{Guest, TRAP};
use super::http_life::await_idle;
use super::questions::{self, chat};
use super::self_pair::{SAMPLED, answer, questions};

const CHAT: &str = "/v1/chat/completions";

/// Code of `route` that burns 1.6 million units of fuel, a millisecond, at every token from this one on.
fn burn(from: u32) -> String {
    format!(
        "(if (i32.ge_u (local.get $index) (i32.const {from})) (then \
         (global.set $spin (i32.const 200000)) \
         (loop $again (global.set $spin (i32.sub (global.get $spin) (i32.const 1))) \
         (br_if $again (global.get $spin)))))"
    )
}

fn burning(code: &str) -> Guest {
    let spin = "(global $spin (mut i32) (i32.const 0)) (global $free";
    Guest::good().put("(global $free", spin).always(Call::Route, code)
}

/// Later than most of a rehearsal, which finds it fast.
fn late() -> Guest {
    burning(&burn(12))
}

/// Code that runs at the 31st token.
fn at_30(code: &str) -> String {
    format!("(if (i32.eq (local.get $index) (i32.const 30)) (then {code}))")
}

/// A server of the embedded pair with a route for each guest, and a healthy one.
fn serve(folder: &Path, sandbox: &str, guests: &[(&str, Guest)]) -> Server {
    let mut config = format!(
        "[sandbox]\n{sandbox}\n[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
         [routes.healthy]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\n"
    );
    for (name, guest) in guests {
        let file = folder.join(name).with_extension("wasm");
        fs::write(&file, guest.component()).expect("the folder is ours");
        let file = file.display().to_string();
        config += &format!("[routes.{name}]\nmodels = [\"small\", \"large\"]\npolicy = {file:?}\n");
    }
    Server::start(&config)
}

async fn traced(server: &Server, model: &str) -> Value {
    questions::traced(server, model, 0).await
}

/// What `GET /admin/policies` says of where a route's policy is called.
async fn lane(server: &Server, route: &str) -> Value {
    let all = server.get("/admin/policies").await.json();
    let routes = all["routes"].as_array().expect("routes").clone();
    let found = routes.into_iter().find(|found| found["route"] == route).expect("the route is there");
    found["health"]["lane"].clone()
}

/// The answers of every route of a configuration, and the calls that were made outside of steps.
async fn answers(in_step_us: u32, how: &Ask) -> (BTreeMap<String, Vec<Vec<u32>>>, u64) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/configs/policies.toml");
    let mut config = Config::read(&file).expect("valid");
    config.sandbox.in_step_us = in_step_us;
    let runtime = Runtime::start(&config, &mut ()).expect("it starts");
    let questions = questions(2);
    let mut all = BTreeMap::new();
    for route in config.routes.keys() {
        let asked = (0u64..).zip(&questions).map(|(seed, question)| {
            let how = Ask { seed, max_tokens: Some(60), ..how.clone() };
            let runtime = &runtime;
            async move { answer(runtime, route, question, &how).await.ids }
        });
        all.insert(route.clone(), join_all(asked).await);
    }
    let report = runtime.policies();
    let routes = report["routes"].as_array().expect("routes").iter();
    let calls = routes.map(|route| route["health"]["lane"]["calls"].as_u64().expect("a number")).sum();
    runtime.shut_down(Duration::from_secs(5)).await;
    (all, calls)
}

#[tokio::test]
async fn where_a_policy_is_called_changes_no_answer() {
    for how in [Ask::greedy(Vec::new()), Ask { sampling: SAMPLED, ..Ask::greedy(Vec::new()) }] {
        let (in_step, none) = answers(u32::MAX, &how).await;
        let (in_lane, all) = answers(0, &how).await;
        assert!(none == 0 && all > 100, "{none} and {all} calls in a lane");
        assert_eq!(in_step, in_lane);
    }
}

#[tokio::test]
async fn a_policy_that_turns_slow_goes_on_in_a_lane_and_its_answer_is_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve(folder.path(), "", &[("burns", late()), ("calm", Guest::good())]);
    assert_eq!(lane(&server, "burns").await["lane"], "in-step");
    let calm = traced(&server, "calm").await;
    let (burning, healthy) = tokio::join!(traced(&server, "burns"), traced(&server, "healthy"));
    assert_eq!(burning["choices"], calm["choices"]);
    assert_eq!(burning["route_trace"]["fell_back"], Value::Null);
    let seen = lane(&server, "burns").await;
    assert_eq!((&seen["lane"], &seen["slow_tenants"]), (&json!("in-step"), &json!(1)), "{seen}");
    assert!(seen["slow_tenant_why"].as_str().is_some_and(|why| why.contains("a call took")), "{seen}");
    assert!(seen["calls"].as_u64() > Some(10), "{seen}");
    // Again, now from the constructor to the end in the lane.
    assert_eq!(traced(&server, "burns").await["choices"], calm["choices"]);
    assert_eq!(traced(&server, "healthy").await["choices"], healthy["choices"]);
    let page = server.get("/metrics").await.text;
    let calls = page
        .lines()
        .find(|line| line.starts_with("tokenrouter_policy_lane_calls_total") && !line.ends_with(" 0"));
    assert!(calls.is_some(), "{page}");
}

#[tokio::test]
async fn a_rehearsal_tells_a_slow_policy_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve(folder.path(), "", &[("slow", burning(&burn(0)))]);
    let seen = lane(&server, "slow").await;
    assert_eq!(seen["lane"], "own", "{seen}");
    assert!(seen["why"].as_str().is_some_and(|why| why.contains("rehearsal")), "{seen}");
}

#[tokio::test]
async fn a_trap_in_the_lane_falls_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let traps = burning(&(burn(12) + &at_30(TRAP)));
    let server = serve(folder.path(), "in_step_us = 0", &[("traps", traps)]);
    let alone = traced(&server, "small").await;
    let answer = traced(&server, "traps").await;
    let fell_back = answer["route_trace"]["fell_back"].as_str().unwrap_or("nothing");
    assert!(fell_back.contains("it trapped"), "{fell_back}");
    assert_eq!(answer["choices"], alone["choices"]);
    let page = server.get("/metrics").await.text;
    let failures = page.lines().find(|line| line.starts_with("tokenrouter_policy_session_failures_total{"));
    assert!(failures.is_some_and(|line| line.contains("cause=\"trap\"") && line.ends_with(" 1")), "{page}");
    assert!(page.contains("tokenrouter_policy_compilations_total 2"), "{page}");
}

fn long(model: &str, seed: u64) -> Value {
    let mut body = chat(model, 0, 2.0);
    body["seed"] = json!(seed);
    body["max_tokens"] = json!(800);
    body["ignore_eos"] = json!(true);
    body
}

#[tokio::test]
async fn clients_that_leave_take_journeys_out_of_the_lane() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve(folder.path(), "in_step_us = 0", &[("burns", late())]);
    let mut streams = Vec::new();
    for seed in 0..8 {
        streams.push(server.stream(CHAT, &long("burns", seed)).await);
    }
    for stream in &mut streams {
        assert!(stream.next().await.is_some());
    }
    drop(streams);
    await_idle(&server).await;
    assert_eq!(traced(&server, "healthy").await["route_trace"]["fell_back"], Value::Null);
}

#[tokio::test]
async fn a_shutdown_ends_journeys_in_the_lane_with_a_last_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = serve(folder.path(), "in_step_us = 0", &[("burns", late())]);
    let mut streams = Vec::new();
    for seed in 0..4 {
        let mut stream = server.stream(CHAT, &long("burns", seed)).await;
        assert!(stream.next().await.is_some());
        streams.push(stream);
    }
    let selected = server.runtime().catalog().select("burns").expect("configured");
    let mut ask = Ask::greedy(vec![5; 8]);
    ask.ignore_eos = true;
    let mut events = server.runtime().submit(&selected, ask).expect("accepted").events;
    server.runtime().shut_down(Duration::ZERO).await;
    let mut last = None;
    while let Some(event) = events.recv().await {
        last = Some(event);
    }
    let last = format!("{last:?}");
    assert!(last.contains("shutting down") || last.contains("Finished"), "{last}");
    drop(server);
}
