//! When models run: nobody waits for ever in any mode, and the plan can be looked at.

use e2e::Server;
use serde_json::{Value, json};
use tokenrouter::config::EMBEDDED;

fn server(mode: &str) -> Server {
    Server::start(&EMBEDDED.replace("eager-async", mode))
}

async fn ask(server: &Server, route: &str, question: &str) -> Value {
    let body = json!({"model": route, "messages": [{"role": "user", "content": question}], "temperature": 0, "seed": 7});
    server.post("/v1/chat/completions", &body).await.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_come_and_go_are_all_answered_in_every_mode() {
    let mix = tinypair::problems::Mix::DEFAULT;
    let problems = tinypair::problems::held_out(mix, 5, 24);
    let mut answers: Vec<Vec<Value>> = Vec::new();
    for mode in ["eager-async", "step-sync", "model-sync", "paper-dtmc", "ours"] {
        let server = server(mode);
        // A client that goes in the middle leaves nobody waiting for it.
        let gone = json!({"model": "pair/random@share=0.5", "messages": [{"role": "user", "content": problems[0].question}]});
        let mut stream = server.stream("/v1/chat/completions", &gone).await;
        let all = problems
            .iter()
            .zip(["pair/margin", "pair/entropy", "pair/random@share=0.5", "large"].iter().cycle());
        let all = all.map(|(problem, route)| ask(&server, route, &problem.question));
        stream.next().await.expect("a first event");
        drop(stream);
        let replies = futures_util::future::join_all(all).await;
        answers.push(replies.iter().map(|reply| reply["choices"][0]["message"]["content"].clone()).collect());
        assert!(
            answers.last().is_some_and(|texts| texts.iter().all(Value::is_string)),
            "{mode}: {replies:?}"
        );
    }
    for other in &answers[1..] {
        assert_eq!(other, &answers[0], "the mode does not show in the answers");
    }
}

/// Two models whose steps only take time, so that what is learnt of them can be compared with what is so.
const SIMULATED: &str = r#"
[scheduler]
mode = "ours"
[models.small]
files = "embedded:small"
sim = { device = 0, fixed_ms = 2.0, row_ms = 0.1 }
[models.large]
files = "embedded:large"
sim = { device = 1, fixed_ms = 6.0, row_ms = 0.1 }
[routes.pair]
models = ["small", "large"]
policy = "builtin:random-share"
settings = { share = 0.2 }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_is_shown_with_what_led_to_it() {
    let server = Server::start(SIMULATED);
    let before = server.get("/admin/scheduler").await.json();
    assert_eq!((&before["mode"], &before["plan"]), (&json!("ours"), &Value::Null));
    let mut report = before;
    for round in 0..ROUNDS_MAX {
        let all = (0..8).map(|seed| {
            let body = json!({"model": "pair", "prompt": "a", "max_tokens": 100, "seed": round * 8 + seed});
            let server = &server;
            async move { server.post("/v1/completions", &body).await.json() }
        });
        futures_util::future::join_all(all).await;
        report = server.get("/admin/scheduler").await.json();
        if !report["plan"].is_null() {
            break;
        }
    }
    let (large, small) = (&report["models"][0], &report["models"][1]);
    assert_eq!((&large["model"], &small["model"]), (&json!("large"), &json!("small")));
    for (model, fixed_ms) in [(large, 6.0), (small, 2.0)] {
        let step = |part: &str| model["step"][part].as_f64().expect("a number");
        let one_row_ms = step("fixed_ms") + step("row_ms") + step("token_ms");
        // A machine that is busy with other things makes steps longer, never shorter.
        assert!(one_row_ms > 0.9 * fixed_ms && one_row_ms < 4.0 * fixed_ms, "{report:#}");
    }
    let metrics = server.get("/metrics").await.text;
    for gauge in [
        "scheduler_threshold{model=\"large\"}",
        "scheduler_step_fixed_seconds{model=\"small\"}",
        "scheduler_plans_total",
    ] {
        let value = metrics.lines().find_map(|line| line.strip_prefix("tokenrouter_")?.strip_prefix(gauge));
        let value = value.and_then(|value| value.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{gauge}: {value:?}");
    }
    let routed = small["routed"][0]["per_token"].as_f64().expect("a number");
    assert!((0.05..0.4).contains(&routed), "a fifth of the tokens is routed: {report:#}");
    assert!(report["plan"]["batch"].as_array().is_some_and(|batch| batch.len() == 2), "{report:#}");
    assert!(report["plan"]["pairs"][0]["reasons"].as_array().is_some_and(|r| !r.is_empty()), "{report:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_routes_bound_holds_while_its_answers_run() {
    let promised = SIMULATED.replace("[routes.pair]", "[routes.pair]\nslo_itl_ms = 25.0");
    let server = Server::start(&promised);
    let bound = async || server.get("/admin/scheduler").await.json()["slo_itl_ms"].clone();
    assert_eq!(bound().await, Value::Null);
    let body = json!({"model": "pair", "prompt": "a", "max_tokens": 400});
    let mut stream = server.stream("/v1/completions", &body).await;
    stream.next().await.expect("a first event");
    assert_eq!(bound().await, json!(25.0));
    stream.rest().await;
    assert_eq!(bound().await, Value::Null);
}

const ROUNDS_MAX: u64 = 20;
