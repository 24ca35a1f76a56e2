//! A share of tokens instead of a threshold, and the policies as those who watch over the server see them.

use e2e::Server;
use serde_json::{Value, json};
use tokenrouter::config::EMBEDDED;

use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";

async fn ask(server: &Server, model: &str, ix: usize) -> Value {
    let mut body = chat(model, ix, 0.0);
    body["route_trace"] = json!(true);
    let reply = server.post(CHAT, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// The share of tokens of the large model over some answers.
async fn share(server: &Server, model: &str, questions: std::ops::Range<usize>) -> f64 {
    let (mut large, mut all) = (0, 0);
    for ix in questions {
        let usage = ask(server, model, ix).await["usage"]["completion_tokens_by_model"].clone();
        large += usage["large"].as_u64().expect("a count");
        all += usage["large"].as_u64().unwrap_or(0) + usage["small"].as_u64().unwrap_or(0);
    }
    large as f64 / all as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_of_tokens_is_kept_and_the_trace_says_by_which_threshold() {
    let server = Server::start(EMBEDDED);
    // Nothing is known yet: the declared default serves, and shows what the signal is like.
    let first = ask(&server, "pair/entropy@llm_share=0.1", 0).await;
    assert_eq!(first["route_trace"]["settings"]["threshold"], 0.4);
    share(&server, "pair/entropy@llm_share=0.1", 1..30).await;
    for wanted in [0.05, 0.2] {
        let model = format!("pair/entropy@llm_share={wanted}");
        let got = share(&server, &model, 30..70).await;
        assert!((got / wanted - 1.0).abs() < 0.4, "wanted {wanted}, got {got}");
        // With the threshold of the trace instead of the share the answer is the same.
        let answer = ask(&server, &model, 3).await;
        let threshold = answer["route_trace"]["settings"]["threshold"].as_f64().expect("a threshold");
        let again = ask(&server, &format!("pair/entropy@threshold={threshold}"), 3).await;
        assert_eq!(answer["choices"], again["choices"]);
    }
}

#[tokio::test]
async fn a_share_that_cannot_be_had_is_refused_with_the_reason() {
    let refused = async |model: &str| {
        let reply = Server::embedded().post(CHAT, &chat(model, 0, 0.0)).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        reply.json()["error"]["message"].as_str().expect("a message").to_owned()
    };
    assert!(refused("pair/entropy@llm_share=1.5").await.contains("1.5 is not a share from 0 to 1"));
    assert!(refused("pair/entropy@llm_share=0.1,threshold=1").await.contains("the same knob; give one"));
    assert!(refused("pair/random@llm_share=0.1").await.contains("random-share has no guard"));
}

#[tokio::test]
async fn the_policies_are_shown_with_their_health() {
    ask(Server::embedded(), "pair/entropy", 0).await;
    let report = Server::embedded().get("/admin/policies").await.json();
    let routes = report["routes"].as_array().expect("routes");
    let entropy = routes.iter().find(|route| route["route"] == "pair/entropy").expect("the route");
    assert_eq!((&entropy["policy"], &entropy["fallback"]), (&json!("entropy"), &json!("small")));
    assert_eq!((&entropy["health"]["state"], &entropy["file"]), (&json!("serving"), &Value::Null));
    assert!(entropy["health"]["calls"].as_u64().expect("a count") > 0);
    let threshold = &entropy["parameters"][0];
    assert_eq!((&threshold["key"], &threshold["value"]), (&json!("threshold"), &json!(0.4)));
}
