//! What may be concluded: scores of real answers find the better arm, and a guardrail ends the worse one by itself.

use std::time::{Duration, Instant};

use e2e::Server;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tinypair::problems::{Mix, Problem, held_out};

use super::experiments::{admin, definition, kept_in, refused, traps_late};
use super::http_keys::{key, line};

const CHAT: &str = "/v1/chat/completions";
const FEEDBACK: &str = "/v1/feedback";
const AT_ONCE: usize = 32;

/// Asks a problem for a user, and says whether the answer is right.
async fn ask(server: &Server, route: &str, problem: &Problem, user: usize) -> (String, bool) {
    let body = json!({
        "model": route,
        "messages": [{"role": "user", "content": problem.question}],
        "temperature": 0,
        "max_tokens": 200,
        "user": format!("user-{user}"),
    });
    let reply = server.post(CHAT, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let answer = reply.json();
    let text = answer["choices"][0]["message"]["content"].as_str().expect("text");
    (answer["id"].as_str().expect("an id").to_owned(), problem.is_solved_by(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_of_real_answers_find_the_better_arm_and_it_is_promoted_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    // The small model alone, which solves half of the problems, against the pair.
    let route = "[routes.alone]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:pinned\"\nsettings = { role = 0 }";
    let server = kept_in(folder.path(), route);
    let mut body = definition("alone", json!("user"), 5000);
    body["evidence"] = json!({"metrics": ["quality", "errors"], "horizon": 500, "answers_min": 60});
    admin(&server, "PUT", "/pair", &body).await;
    let problems = held_out(Mix::DEFAULT, 77, 320);
    let asks = |range: std::ops::Range<usize>| {
        let asked = range.map(|ix| ask(&server, "alone", &problems[ix], ix));
        futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).collect::<Vec<_>>()
    };
    let answers = asks(0..200).await;
    // As a program would that judges afterwards: in one list.
    let scores: Vec<Value> =
        answers.iter().map(|(id, right)| json!({"id": id, "score": f64::from(u8::from(*right))})).collect();
    let reply = server.post(FEEDBACK, &json!(scores)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert!(reply.json()["data"].as_array().expect("a list").iter().all(|one| one["counted"] == true));
    let again = server.post(FEEDBACK, &scores[0]).await.json();
    assert_eq!(again["counted"], false, "an answer is scored once");

    let shown = admin(&server, "GET", "/pair", &Value::Null).await;
    let of = |metric: &str| {
        let readout = shown["readout"].as_array().expect("a readout");
        readout.iter().find(|one| one["metric"] == metric).expect("compared").clone()
    };
    let quality = of("quality");
    assert_eq!(quality["verdict"], "better", "{quality}");
    assert!(quality["low"].as_f64().unwrap() > 0.0 && quality["effect"].as_f64().unwrap() > 0.3, "{quality}");
    assert_ne!(of("errors")["verdict"], "worse");
    assert_eq!(shown["sample_ratio"]["alarm"], false);
    let [control, margin] = [0, 1].map(|ix| &shown["arms"][ix]);
    assert_eq!(control["answers"].as_u64().unwrap() + margin["answers"].as_u64().unwrap(), 200);
    assert_eq!((&control["share"]["small"], &control["errors"]), (&json!(1.0), &json!(0.0)));
    let large = margin["share"]["large"].as_f64().unwrap();
    assert!(large > 0.005 && large < 0.2, "{margin}");
    assert!(margin["gap_s"]["p50"].as_f64().unwrap() <= margin["gap_s"]["p99"].as_f64().unwrap());
    assert!(
        margin["tokens_per_s"].as_f64().unwrap() > 0.0 && margin["ttft_s"]["p50"].as_f64().unwrap() > 0.0
    );

    // Every answer of what follows is asserted to be whole, and all that begin after the change are the winner's.
    let because = json!({"arm": "margin", "reason": "better"});
    let promote = async {
        tokio::task::yield_now().await;
        admin(&server, "POST", "/pair/promote", &because).await
    };
    let (during, promoted) = tokio::join!(asks(200..260), promote);
    assert_eq!((during.len(), &promoted["state"]), (60, &json!("promoted")));
    let after = asks(260..320).await;
    let right = after.iter().filter(|(_, right)| *right).count();
    assert!(right > 50, "{right} of 60 right: everybody has the better arm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guardrail_rolls_back_a_policy_that_traps_and_keeps_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = traps_late(folder.path(), 5000, 0.1);
    let data = folder.path().join("state");
    let server = kept_in(&data, &table);
    let problems = held_out(Mix::DEFAULT, 78, 400);
    let began = Instant::now();
    let mut user = 0;
    let state = loop {
        let asked = (user..user + AT_ONCE).map(|ix| ask(&server, "pair/entropy", &problems[ix % 400], ix));
        futures_util::future::join_all(asked).await;
        user += AT_ONCE;
        let shown = admin(&server, "GET", "/new", &Value::Null).await;
        if shown["state"] != "running" {
            break shown;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no guardrail fires: {shown:#}");
    };
    assert_eq!(state["state"], "rolled back");
    let reason = state["reason"].as_str().expect("a reason").to_owned();
    assert!(reason.starts_with("guardrail: mean fallbacks of \"traps\" is above 0.1: from 0."), "{reason}");
    assert!(
        state["arms"][1]["fallbacks"].as_f64().unwrap() > 5.0 && state["arms"][0]["fallbacks"] == 0.0,
        "{state:#}"
    );
    let (id, _) = ask(&server, "pair/entropy", &problems[0], 0).await;
    let reply = server.post(FEEDBACK, &json!({"id": id, "score": 1})).await;
    refused(&reply, 404, "not_found");
    drop(server);

    let server = kept_in(&data, &table);
    let shown = admin(&server, "GET", "/new", &Value::Null).await;
    assert_eq!((&shown["state"], shown["reason"].as_str()), (&json!("rolled back"), Some(reason.as_str())));
    drop(server);
    let store = store::Store::open(&data).expect("nobody has it");
    let last = store.audit(1, 99).expect("readable").pop().expect("an entry");
    assert_eq!((last.who.as_str(), last.action.as_str(), last.detail), ("guardrail", "roll_back", reason));
    store.verify(None).expect("sound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feedback_is_for_ones_own_answers_and_survives_a_restart() {
    let table = "[experiments.new]\nroute = \"pair/entropy\"\nseed = \"a seed that nobody knows\"\narms = [\n\
                 { name = \"control\", weight_bp = 0 },\n{ name = \"margin\", weight_bp = 10000, policy = \"builtin:margin\" }]";
    let tenants = format!(
        "{table}\n[tenants.acme]\nkeys = [{}]\n[tenants.guest]\nkeys = [{}]\n[tenants.operators]\nkeys = [{}]",
        line(1, ""),
        line(3, ""),
        line(2, ", scope = \"admin\"")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let server = kept_in(folder.path(), &tenants);
    let mut body =
        json!({"model": "pair/entropy", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2});
    let answer = server.post_as(&key(1), CHAT, &body).await.json();
    body["model"] = json!("small");
    let of_model = server.post_as(&key(1), CHAT, &body).await.json();
    let score = |id: &Value| json!({"id": id, "score": 0.5});
    let absent = score(&json!("chatcmpl-0123456789abcdef"));
    let told = async |key: &str, body: &Value| {
        let reply = server.post_as(key, FEEDBACK, body).await;
        let message = refused(&reply, 404, "not_found");
        message.replace(body["id"].as_str().expect("an id"), "ID")
    };
    let foreign = told(&key(3), &score(&answer["id"])).await;
    assert_eq!(foreign, told(&key(1), &absent).await, "foreign and absent are one");
    assert_eq!(foreign, told(&key(1), &score(&of_model["id"])).await);
    assert_eq!(foreign, told(&key(1), &score(&json!("nonsense"))).await);
    for (wrong, code) in [
        (json!({"id": answer["id"], "score": 1.5}), "invalid_value"),
        (json!({"id": answer["id"]}), "missing_required_parameter"),
        (json!({"id": answer["id"], "score": 1, "stars": 5}), "unknown_parameter"),
    ] {
        refused(&server.post_as(&key(1), FEEDBACK, &wrong).await, 400, code);
    }
    let half = server.post_as(&key(1), FEEDBACK, &json!([score(&answer["id"]), absent])).await;
    refused(&half, 404, "not_found");
    assert_eq!(half.json()["error"]["param"], "[1].id");
    drop(server);

    let server = kept_in(folder.path(), &tenants);
    let scored = server.post_as(&key(1), FEEDBACK, &score(&answer["id"])).await;
    assert_eq!(scored.json()["counted"], true, "{}: nothing of the list was taken", scored.text);
    drop(server);
    let server = kept_in(folder.path(), &tenants);
    assert_eq!(server.post_as(&key(1), FEEDBACK, &score(&answer["id"])).await.json()["counted"], false);
    let shown = server.ask(Some(&key(2)), "GET", "/admin/experiments/new", "").await.json();
    assert_eq!(shown["arms"][1]["score"], json!({"mean": 0.5, "count": 1}));
    assert_eq!(shown["arms"][1]["answers"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_have_the_price_of_their_model_and_a_client_that_leaves_is_counted() {
    let priced = "[models.small]\nprice_per_token = 1.0";
    let config = tokenrouter::config::EMBEDDED.replacen("[models.small]", priced, 1);
    let table = "[experiments.new]\nroute = \"pair/entropy\"\nseed = \"a seed that nobody knows\"\narms = [\n\
                 { name = \"control\", weight_bp = 10000 },\n{ name = \"margin\", weight_bp = 0, policy = \"builtin:margin\" }]";
    let server = Server::start(&format!("{config}\n{table}"));
    let body = json!({
        "model": "pair/entropy@", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 900, "ignore_eos": true,
    });
    let mut events = server.stream(CHAT, &body).await;
    assert_eq!(events.headers["x-tokenrouter-arm"], "new/control");
    for _ in 0..3 {
        events.next().await.expect("a token");
    }
    drop(events);
    let mut short = body.clone();
    short["max_tokens"] = json!(4);
    let usage = server.post(CHAT, &short).await.json()["usage"]["completion_tokens_by_model"].clone();
    let began = Instant::now();
    let control = loop {
        let shown = admin(&server, "GET", "/new", &Value::Null).await;
        if shown["arms"][0]["finish"]["cancelled"] == 1 {
            break shown["arms"][0].clone();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{shown:#}");
    };
    assert_eq!(
        (&control["finish"]["length"], &control["answers"], &control["errors"]),
        (&json!(1), &json!(2), &json!(0.0))
    );
    // Of the answer that was cut off at least three tokens, whoever made them.
    assert!(control["cost"].as_f64().unwrap() >= usage["small"].as_f64().unwrap(), "{control}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shadows_are_asked_about_the_same_tokens_and_change_no_answer() {
    let alike = "{ name = \"alike\", weight_bp = 10000, settings = { threshold = 0.4 } }";
    let never = "{ name = \"never\", weight_bp = 10000, settings = { threshold = 20 } }";
    let margin = "{ name = \"margin\", weight_bp = 10000, policy = \"builtin:margin\" }";
    let some = "{ name = \"some\", weight_bp = 0, policy = \"builtin:margin\" }";
    let table = format!(
        "[experiments.new]\nroute = \"pair/entropy\"\nseed = \"a seed that nobody knows\"\nsticky = \"user\"\narms = [\n\
         {{ name = \"control\", weight_bp = 10000 }},\n{{ name = \"treatment\", weight_bp = 0 }}]\n\
         shadows = [{alike}, {never}, {margin}, {some}]"
    );
    let server = Server::start(&format!("{}\n{table}", tokenrouter::config::EMBEDDED));
    let problems = held_out(Mix::DEFAULT, 79, 12);
    let (mut small, mut large) = (0, 0);
    for (user, problem) in problems.iter().enumerate() {
        let mut body = json!({
            "model": "pair/entropy", "temperature": 0, "max_tokens": 200, "user": format!("user-{user}"),
            "messages": [{"role": "user", "content": problem.question}],
        });
        let answer = server.post(CHAT, &body).await.json();
        let usage = &answer["usage"]["completion_tokens_by_model"];
        small += usage["small"].as_u64().expect("a count");
        large += usage["large"].as_u64().expect("a count");
        body["model"] = json!("pair/entropy@threshold=0.4");
        let without = server.post(CHAT, &body).await.json();
        assert_eq!(answer["choices"], without["choices"], "shadows change nothing");
    }
    let began = Instant::now();
    let shadows = loop {
        let shown = admin(&server, "GET", "/new", &Value::Null).await;
        let shadows = shown["shadows"].as_array().expect("shadows").clone();
        if shadows[..3].iter().all(|shadow| shadow["answers"] == 12) {
            break shadows;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{shown:#}");
    };
    let [alike, never, margin, some] = &shadows[..] else { panic!("four shadows") };
    // Of visits of one token each token of the large model was left to it by one of the small model's: what is asked about
    // is what the small model made, and what it left.
    assert_eq!(alike["asked"], small + large, "{alike}");
    assert_eq!(
        (&alike["agreement"], &alike["failed"], &alike["skipped"]),
        (&json!(1.0), &json!(0), &json!(0))
    );
    let share = large as f64 / (small + large) as f64;
    assert!((alike["share"]["large"].as_f64().unwrap() - share).abs() < 1e-9, "{alike} {share}");
    assert_eq!(never["share"]["large"], 0.0);
    assert!((never["agreement"].as_f64().unwrap() - (1.0 - share)).abs() < 1e-9, "{never} {share}");
    let of_margin = margin["share"]["large"].as_f64().unwrap();
    assert!(of_margin > 0.0 && of_margin < 0.5 && margin["agreement"].as_f64().unwrap() > 0.5, "{margin}");
    assert_eq!(
        (&some["answers"], &some["agreement"]),
        (&json!(0), &Value::Null),
        "no request is copied to it"
    );
}
