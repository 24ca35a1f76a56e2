//! Cases of routing seen from outside: fairness, thrash, idle KV, accounting, and metrics that tell the truth.

use std::collections::BTreeMap;
use std::time::Duration;

use e2e::{Reply, Server};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokenrouter::config::EMBEDDED;
use tokio::time::Instant;

use super::cases_cancel::metric;
use super::hot_config::apply;
use super::http_keys::{key, line};
use super::http_life::await_idle;
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

fn pair(mode: &str, policy: &str, more: &str) -> String {
    format!(
        "[scheduler]\nmode = {mode:?}\n[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n{more}\n\
         [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = {policy}\n"
    )
}

/// A value of the page, by its name with labels.
fn exact(page: &str, name: &str) -> u64 {
    let name = format!("tokenrouter_{name} ");
    let value = page.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name} in {page}")).parse().expect("a count")
}

fn tokens(usage: &Value, of: &str) -> u64 {
    usage[of].as_u64().unwrap_or(0)
}

/// One tenant's long jobs fill the server up to its quota; another one's short jobs hardly notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_32_a_short_job_does_not_wait_for_five_hundred_long_ones() {
    const STEP: Duration = Duration::from_millis(20);
    let server = Server::start(&format!(
        "[models.m]\nfiles = \"embedded:small\"\nrows_max = 8\nsim.fixed_ms = 20.0\n\
         [tenants.long]\nquotas = {{ journeys = 200 }}\nkeys = [{}]\n[tenants.short]\nkeys = [{}]",
        line(1, ""),
        line(2, "")
    ));
    let first_token = || async {
        let body = json!({"model": "m", "prompt": [5, 6, 7], "max_tokens": 2, "ignore_eos": true});
        let asked = Instant::now();
        let mut stream = server.stream_as(Some(&key(2)), TEXT, &body).await;
        assert!(stream.next().await.is_some());
        asked.elapsed()
    };
    let p95 = |mut all: Vec<Duration>| {
        all.sort_unstable();
        all[all.len() * 95 / 100]
    };
    let mut alone = Vec::new();
    for _ in 0..20 {
        alone.push(first_token().await);
    }
    let long = json!({"model": "m", "prompt": [5, 6, 7], "max_tokens": 900, "ignore_eos": true});
    let key = key(1);
    let long = join_all((0..500).map(|_| server.stream_as(Some(&key), TEXT, &long))).await;
    let (served, refused): (Vec<_>, Vec<_>) = long.into_iter().partition(|stream| stream.status == 200);
    assert_eq!((served.len(), refused.len()), (200, 300), "the quota is the tenant's own");
    // A machine that is busy can only make it slower.
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let mut beside = Vec::new();
        for _ in 0..20 {
            beside.push(first_token().await);
        }
        best = best.min(p95(beside));
    }
    // It comes in the middle of a step, and is in the next one.
    assert!(best < 2 * p95(alone.clone()) + STEP, "{best:?} beside, alone {:?}", p95(alone));
    drop(served);
    await_idle(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_52_metrics_are_what_the_clients_counted() {
    let experiment = "[experiments.one]\nroute = \"pair/entropy\"\nseed = \"a seed that nobody knows\"\n\
        arms = [{ name = \"control\", weight_bp = 5000 }, { name = \"margin\", weight_bp = 5000, policy = \"builtin:margin\" }]";
    let text = format!("{EMBEDDED}\n{experiment}");
    let server = Server::start(&text);
    let models = ["small", "large", "pair/entropy", "pair/random", "pair/r2r", "pair/pinned"];
    let all = (0..60usize).map(|ix| {
        let mut body = chat(models[ix % models.len()], ix, 0.8);
        body["user"] = json!(format!("user {ix}"));
        body["max_tokens"] = json!(if ix % 5 == 0 { 7 } else { 200 });
        let server = &server;
        async move { server.post(CHAT, &body).await }
    });
    let replies: Vec<Reply> = join_all(all).await;
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |what: String, count: u64| *counted.entry(what).or_default() += count;
    for reply in &replies {
        assert_eq!(reply.status, 200, "{}", reply.text);
        let answer = reply.json();
        let usage = &answer["usage"];
        add("prompt_tokens_total".to_owned(), tokens(usage, "prompt_tokens"));
        for (model, made) in usage["completion_tokens_by_model"].as_object().expect("by model") {
            add(format!("generation_tokens_total{{model={model:?}}}"), made.as_u64().expect("a count"));
        }
        let reason = answer["choices"][0]["finish_reason"].as_str().expect("a reason");
        add(format!("request_success_total{{finished_reason={reason:?}}}"), 1);
        add("time_to_first_token_seconds_count".to_owned(), 1);
        add("inter_token_latency_seconds_count".to_owned(), tokens(usage, "completion_tokens") - 1);
        if let Some((experiment, arm)) = reply.header("x-tokenrouter-arm").split_once('/') {
            add(format!("experiment_answers_total{{experiment={experiment:?},arm={arm:?}}}"), 1);
        }
    }
    // Refused requests are nobody's answers.
    for bad in [json!({}), chat("nobody", 0, 0.0), json!({"model": "small", "messages": [], "top_k": "x"})] {
        assert!(server.post(CHAT, &bad).await.status >= 400);
    }
    await_idle(&server).await;
    // A change of the configuration takes nothing from the counters.
    let changed = text.replace("threshold = 0.4", "threshold = 0.5");
    assert!(!apply(server.control(), &changed).await.expect("it is taken over").is_empty());
    for _ in 0..7 {
        let mut stream = server.stream(CHAT, &json!({
            "model": "large", "messages": [{"role": "user", "content": "a"}], "max_tokens": 800, "ignore_eos": true,
        })).await;
        assert!(stream.next().await.is_some());
    }
    let before_cancels = server.get("/metrics").await.text;
    await_idle(&server).await;
    let page = server.get("/metrics").await.text;
    assert_eq!(exact(&page, "request_cancelled_total"), 7, "{before_cancels}");
    for (name, count) in counted {
        // Those that were left had tokens, too, of the large model alone.
        let is_left = name.starts_with("prompt") || name.contains("latency") || name.contains("first_token");
        if is_left || name == "generation_tokens_total{model=\"large\"}" {
            assert!(exact(&page, &name) >= count, "{name}");
        } else {
            assert_eq!(exact(&page, &name), count, "{name}");
        }
    }
    assert_eq!(metric(&page, "request_failure_total"), 0.0);
    assert!(metric(&page, "prefix_cache_queries_total") >= metric(&page, "prefix_cache_hits_total"));
}

/// Every token is handed over, by everybody at once: nobody waits for ever, every handoff brings a token, and the answers are
/// those of the model that makes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_54_sixty_four_journeys_that_are_handed_over_at_every_token() {
    for mode in ["eager-async", "ours", "step-sync"] {
        let config = pair(mode, "\"builtin:random-share\"\nsettings = { share = 1.0 }", "");
        let server = Server::start(&config);
        let ask = |model: &str, ix: usize| {
            let mut body = chat(model, ix % 8, 0.0);
            body["max_tokens"] = json!(40);
            body["ignore_eos"] = json!(true);
            body
        };
        let all = join_all((0..64).map(|ix| {
            let (server, body) = (&server, ask("pair", ix));
            async move { server.post(CHAT, &body).await.json() }
        }));
        let answers =
            tokio::time::timeout(Duration::from_secs(60), all).await.expect("nobody waits for ever");
        let page = server.get("/metrics").await.text;
        let made: u64 = answers.iter().map(|answer| tokens(&answer["usage"], "completion_tokens")).sum();
        let out = exact(&page, "handoffs_total{source=\"small\",target=\"large\"}");
        assert!(made == 64 * 40 && out <= made, "{mode}: {out} handoffs for {made} tokens");
        let waited = exact(&page, "admission_delay_seconds_count{model=\"large\"}");
        let suffixes = exact(&page, "handoff_suffix_tokens_count{model=\"large\"}");
        assert!(suffixes == out && waited >= out, "{mode}: {waited} {suffixes} {out}");
        for (ix, answer) in answers.iter().enumerate().take(8) {
            let alone = server.post(CHAT, &ask("large", ix)).await.json();
            assert_eq!(answer["choices"][0]["message"], alone["choices"][0]["message"], "{mode}");
        }
    }
}

/// KV that is parked for long is what others take; whoever comes back reads again and says the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_55_idle_kv_is_taken_by_others_and_changes_no_answer() {
    let policy = "\"builtin:random-share\"\nsettings = { share = 0.05 }";
    let rarely = |seed: u64| {
        let mut body = chat("pair", seed as usize, 1.2);
        (body["seed"], body["max_tokens"], body["ignore_eos"]) = (json!(seed), json!(200), json!(true));
        body
    };
    let fill = |seed: u64| {
        let mut body = chat("large", seed as usize, 1.2);
        (body["seed"], body["max_tokens"], body["ignore_eos"]) = (json!(seed), json!(100), json!(true));
        body
    };
    let mut seen = Vec::new();
    for memory in ["", "kv_mib = 1"] {
        let server = Server::start(&pair("eager-async", policy, memory));
        let others = join_all((0..12).map(|seed| {
            let (server, body) = (&server, fill(seed));
            async move { server.post(CHAT, &body).await.status }
        }));
        let answers = join_all((0..4).map(|seed| {
            let (server, body) = (&server, rarely(seed));
            async move { server.post(CHAT, &body).await.json()["choices"][0]["message"].clone() }
        }));
        let (others, answers) = tokio::join!(others, answers);
        assert!(others.iter().all(|status| *status == 200), "{others:?}");
        let page = server.get("/metrics").await.text;
        seen.push((answers, exact(&page, "fed_tokens_total{model=\"large\"}")));
    }
    assert_eq!(seen[0].0, seen[1].0);
    assert!(seen[0].1 < seen[1].1, "what was taken is fed again, and counted: {} {}", seen[0].1, seen[1].1);
}

/// Drafts that are rejected, KV that is read again: a tenant pays for what its answers have, and what was dropped is told apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_56_a_tenant_pays_for_tokens_that_were_made_and_for_nothing_else() {
    let config = pair("eager-async", "\"builtin:speculative\"", "kv_mib = 1");
    let config = config.replace("models = [\"small\", \"large\"]", "models = [\"large\", \"small\"]");
    let tenants = format!(
        "[tenants.acme]\nkeys = [{}]\n[tenants.operators]\nkeys = [{}]",
        line(1, ""),
        line(2, ", scope = \"admin\"")
    );
    let server = Server::start(&format!("{config}\n{tenants}"));
    let streams = (0..12).map(|seed| {
        let (server, mut body, key) = (&server, chat("pair", seed as usize, 0.9), key(1));
        (body["seed"], body["return_token_ids"]) = (json!(seed), json!(true));
        body["stream_options"] = json!({"include_usage": true});
        async move { server.stream_as(Some(&key), CHAT, &body).await.chunks().await }
    });
    let (mut billed, mut by_model) = (0, BTreeMap::<String, u64>::new());
    for chunks in join_all(streams).await {
        let usage = chunks.iter().find_map(|chunk| chunk["usage"].as_object()).expect("usage comes last");
        let usage = Value::Object(usage.clone());
        let ids = chunks.iter().filter_map(|chunk| chunk["choices"][0]["token_ids"].as_array()).map(Vec::len);
        assert_eq!(
            ids.sum::<usize>() as u64,
            tokens(&usage, "completion_tokens"),
            "what came is what is counted"
        );
        let models = usage["completion_tokens_by_model"].as_object().expect("by model");
        assert_eq!(
            models.values().filter_map(Value::as_u64).sum::<u64>(),
            tokens(&usage, "completion_tokens")
        );
        for (model, made) in models {
            *by_model.entry(model.clone()).or_default() += made.as_u64().expect("a count");
        }
        billed += tokens(&usage, "total_tokens");
    }
    await_idle(&server).await;
    let told = server.ask(Some(&key(1)), "GET", "/v1/usage", "").await.json();
    assert_eq!((told["tokens"].as_u64(), told["running"].as_u64()), (Some(billed), Some(0)));
    let page = server.runtime().metrics_page();
    for (model, made) in by_model {
        assert_eq!(exact(&page, &format!("generation_tokens_total{{model={model:?}}}")), made);
    }
    let dropped = metric(&page, "sampled_tokens_total") - metric(&page, "generation_tokens_total");
    assert!(dropped > 0.0, "drafts that were rejected were sampled: {page}");
}
