//! Routing as a client sees it: names, settings, and the trace of who made each token.

use std::collections::BTreeSet;

use e2e::Server;
use serde_json::{Value, json};

use super::questions::{self, chat};

const CHAT: &str = "/v1/chat/completions";

async fn traced(model: &str, ix: usize) -> Value {
    questions::traced(Server::embedded(), model, ix).await
}

fn speakers(answer: &Value) -> BTreeSet<&str> {
    let tokens = answer["route_trace"]["tokens"].as_array().expect("a trace");
    tokens.iter().map(|token| token["model"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn the_trace_says_who_made_each_token_and_why() {
    let mut proposals = 0;
    for ix in 0..4 {
        let answer = traced("pair/entropy", ix).await;
        let trace = &answer["route_trace"];
        assert_eq!(
            (&trace["route"], &trace["policy"], &trace["fell_back"]),
            (&json!("pair/entropy"), &json!("entropy"), &Value::Null)
        );
        assert_eq!(trace["revision"], answer["system_fingerprint"]);
        let tokens = trace["tokens"].as_array().unwrap();
        let text: String = tokens.iter().map(|token| token["text"].as_str().unwrap()).collect();
        assert_eq!(text, answer["choices"][0]["message"]["content"]);
        for model in ["small", "large"] {
            let count = tokens.iter().filter(|token| token["model"] == model).count();
            assert_eq!(answer["usage"]["completion_tokens_by_model"][model], count);
        }
        for token in tokens.iter().filter(|token| !token["proposal"].is_null()) {
            proposals += 1;
            let proposal = &token["proposal"];
            assert_eq!((&token["model"], &proposal["model"]), (&json!("large"), &json!("small")));
            assert!(proposal["entropy"].as_f64().unwrap() > 0.4, "the route's threshold: {proposal}");
            let why =
                json!({"signal": "entropy", "value": proposal["entropy"], "above": proposal["why"]["above"]});
            assert_eq!(proposal["why"], why, "the guard that fired");
            assert!((proposal["why"]["above"].as_f64().unwrap() - 0.4).abs() < 1e-6);
        }
    }
    assert!(proposals > 0, "no token was handed off, so the test shows nothing");
}

#[tokio::test]
async fn both_models_speak_in_one_answer() {
    let answer = traced("pair/entropy", 0).await;
    assert_eq!(speakers(&answer), BTreeSet::from(["large", "small"]));
}

#[tokio::test]
async fn a_setting_in_the_name_overrides_the_routes_own() {
    let never = traced("pair/entropy@threshold=20", 0).await;
    assert_eq!(speakers(&never), BTreeSet::from(["small"]));
    assert_eq!(never["model"], "pair/entropy@threshold=20");
    let alone = Server::embedded().post(CHAT, &chat("small", 0, 0.0)).await.json();
    assert_eq!(never["choices"], alone["choices"]);
    let pinned = traced("pair/pinned@role=0", 0).await;
    assert_eq!(speakers(&pinned), BTreeSet::from(["small"]));
}

#[tokio::test]
async fn a_single_model_has_a_trace_without_a_policy() {
    let answer = traced("large", 0).await;
    assert_eq!(
        (&answer["route_trace"]["policy"], &answer["route_trace"]["revision"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(speakers(&answer), BTreeSet::from(["large"]));
}

#[tokio::test]
async fn models_and_routes_are_listed_with_what_can_be_set() {
    let list = Server::embedded().get("/v1/models").await.json();
    assert_eq!(list["object"], "list");
    let models = list["data"].as_array().unwrap();
    let ids: Vec<&str> = models.iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        ["large", "pair/entropy", "pair/margin", "pair/pinned", "pair/r2r", "pair/random", "small"]
    );
    for path in ["/v1/models/pair/entropy", "/v1/models/pair%2Fentropy"] {
        let model = Server::embedded().get(path).await.json();
        assert_eq!(model, models[1]);
    }
    let route = &models[1]["route"];
    assert_eq!((&route["models"], &route["fallback"]), (&json!(["small", "large"]), &json!("small")));
    let policy = &route["policy"];
    assert_eq!(policy["revision"].as_str().unwrap().len(), 12);
    let parameters = policy["parameters"].as_array().unwrap();
    let threshold = parameters.iter().find(|parameter| parameter["key"] == "threshold").unwrap();
    assert_eq!((&threshold["value"], &threshold["least"]), (&json!(0.4), &json!(0.0)));
    assert_eq!(threshold["whole"], false);
    let alone = |ix: usize| models[ix]["route"]["weights"][0].as_u64().unwrap();
    assert_eq!(route["weights"], json!([alone(6), alone(0)]), "as many as the models have");
    assert!(alone(0) > alone(6) && alone(6) > 0);
    assert_eq!(models[0]["route"]["policy"], Value::Null);
    assert_eq!(models[0]["context"], 1024);
}
