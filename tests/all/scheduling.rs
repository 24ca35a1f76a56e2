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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_is_shown_with_what_led_to_it() {
    let server = server("ours");
    let before = server.get("/admin/scheduler").await.json();
    assert_eq!((&before["mode"], &before["plan"]), (&json!("ours"), &Value::Null));
    let problems = tinypair::problems::held_out(tinypair::problems::Mix::DEFAULT, 6, 96);
    let mut report = before;
    // Laws are learnt from steps that nothing disturbs, so it takes more requests on a busy machine.
    for _ in 0..ROUNDS_MAX {
        let all = problems.iter().map(|problem| ask(&server, "pair/random@share=0.2", &problem.question));
        futures_util::future::join_all(all).await;
        report = server.get("/admin/scheduler").await.json();
        if !report["plan"].is_null() {
            break;
        }
    }
    let small = &report["models"][1];
    assert_eq!((&report["models"][0]["model"], &small["model"]), (&json!("large"), &json!("small")));
    assert!(small["step"]["fixed_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{report:#}");
    let routed = small["routed"][0]["per_token"].as_f64().expect("a number");
    assert!((0.05..0.4).contains(&routed), "a fifth of the tokens is routed: {report:#}");
    assert!(report["plan"]["batch"].as_array().is_some_and(|batch| batch.len() == 2), "{report:#}");
    assert!(report["plan"]["pairs"][0]["reasons"].as_array().is_some_and(|r| !r.is_empty()), "{report:#}");
}

const ROUNDS_MAX: usize = 20;
