//! Sampling parameters have the effect that their names promise, on both endpoints and between models.

use std::collections::BTreeSet;

use e2e::Server;
use serde_json::{Map, Value, json};

use super::questions::question;

const TEXT: &str = "/v1/completions";

/// The ids of a greedy answer to the first question.
async fn ids(model: &str, extra: Value) -> Vec<u64> {
    let prompt = tinypair::problems::prompt(&question(1));
    let mut body = json!({"model": model, "prompt": prompt, "temperature": 0, "max_tokens": 24, "return_token_ids": true});
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra);
    let reply = Server::embedded().post(TEXT, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let ids = reply.json()["choices"][0]["token_ids"].as_array().expect("ids").clone();
    ids.iter().filter_map(Value::as_u64).collect()
}

/// A bias that leaves nothing to choose but these tokens.
fn only(tokens: std::ops::RangeInclusive<u64>) -> Value {
    tokens.map(|token| (token.to_string(), json!(100))).collect::<Map<_, _>>().into()
}

fn distinct(ids: &[u64]) -> usize {
    ids.iter().collect::<BTreeSet<_>>().len()
}

#[tokio::test]
async fn a_bias_forbids_and_forces_tokens() {
    for model in ["small", "pair/entropy"] {
        let plain = ids(model, json!({})).await;
        let first = plain[0].to_string();
        let without = ids(model, json!({"logit_bias": {&first: -100}})).await;
        assert!(!without.contains(&plain[0]), "{without:?} was told not to have {first}");
        let forced = ids(model, json!({"logit_bias": {"77": 100}})).await;
        assert_eq!(forced, [77; 24]);
        // Neither is a matter of luck at a temperature.
        let hot = ids(model, json!({"logit_bias": {"77": 100}, "temperature": 1, "seed": 5})).await;
        assert_eq!(hot, [77; 24]);
    }
}

#[tokio::test]
async fn penalties_make_an_answer_repeat_less() {
    for model in ["small", "pair/entropy"] {
        let two = |penalty: &str| ids(model, json!({"logit_bias": only(500..=501), (penalty): 2}));
        let repeated = two("repetition_penalty").await;
        assert_ne!(repeated[0], repeated[1], "half of a hundred is far below the other: {repeated:?}");
        let frequent = two("frequency_penalty").await;
        assert_eq!(distinct(&frequent), 2, "the penalty grows until the other is better: {frequent:?}");
        assert_eq!(two("frequency_penalty").await, frequent);

        let many =
            |penalty: f64| ids(model, json!({"logit_bias": only(500..=523), "presence_penalty": penalty}));
        let (with, without) = (many(2.0).await, many(0.0).await);
        assert!(distinct(&with) > distinct(&without), "{with:?} against {without:?}");
    }
}

#[tokio::test]
async fn min_p_of_one_leaves_the_best_token() {
    let plain = ids("small", json!({})).await;
    assert_eq!(ids("small", json!({"temperature": 2, "min_p": 1, "seed": 3})).await, plain);
}

#[tokio::test]
async fn an_answer_ends_where_it_is_told_to() {
    let plain = ids("small", json!({"max_tokens": 200})).await;
    let (end, length) = (plain.len() - 1, plain.len() as u64);
    let longer = ids("small", json!({"max_tokens": 200, "min_tokens": length + 5})).await;
    assert!(longer.len() >= plain.len() + 5);
    assert_eq!((&longer[..end], longer[end] == plain[end]), (&plain[..end], false));
    let ignored = ids("small", json!({"max_tokens": length + 9, "ignore_eos": true})).await;
    assert_eq!((ignored.len(), &ignored[..=end]), (plain.len() + 9, &plain[..]));

    let first = plain.iter().position(|id| *id == plain[5]).expect("it is there");
    let stopped = ids("small", json!({"max_tokens": 200, "stop_token_ids": [plain[5]]})).await;
    assert_eq!(stopped, plain[..=first], "the stop token is the last");
}

/// Models of one tokenizer may end differently, as one that was taught to chat and one that was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_ends_with_the_end_of_any_of_its_models() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in tinypair::models::SMALL.files {
        let mut content = bytes.to_vec();
        if ["config.json", "generation_config.json"].contains(name) {
            let mut settings: Value = serde_json::from_slice(bytes).expect("JSON");
            settings["eos_token_id"] = json!([77]);
            content = settings.to_string().into_bytes();
        }
        std::fs::write(folder.path().join(name), content).expect("writable");
    }
    let server = Server::start(&format!(
        "[models.a]\nfiles = \"embedded:small\"\n[models.b]\nfiles = {:?}\n\
         [routes.pair]\nmodels = [\"a\", \"b\"]\npolicy = \"builtin:entropy\"\n",
        folder.path()
    ));
    let answer = async |model: &str, token: &str| {
        let body = json!({"model": model, "prompt": "12 +", "max_tokens": 4, "logit_bias": {token: 100}});
        let answer = server.post(TEXT, &body).await.json();
        let reason = answer["choices"][0]["finish_reason"].as_str().expect("a reason").to_owned();
        (reason, answer["usage"]["completion_tokens"].as_u64().expect("a count"))
    };
    let (stops, goes_on) = (("stop".to_owned(), 1), ("length".to_owned(), 4));
    assert_eq!([answer("a", "2").await, answer("b", "77").await], [stops.clone(), stops.clone()]);
    assert_eq!([answer("a", "77").await, answer("b", "2").await], [goes_on.clone(), goes_on]);
    assert_eq!([answer("pair", "2").await, answer("pair", "77").await], [stops.clone(), stops]);
}

#[tokio::test]
async fn tokens_that_no_model_of_the_route_has_are_refused() {
    for (extra, param) in [
        (json!({"logit_bias": {"5": 1, "100000": 1}}), "logit_bias.100000"),
        (json!({"logit_bias": {"99999999999": 1}}), "logit_bias.99999999999"),
        (json!({"stop_token_ids": [5, 100_000]}), "stop_token_ids[1]"),
    ] {
        let mut body = json!({"model": "pair/entropy", "prompt": "x"});
        let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
        fields.extend(extra);
        let reply = Server::embedded().post(TEXT, &body).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["param"]), (400, &json!(param)), "{}", reply.text);
        assert!(
            error["message"].as_str().is_some_and(|message| message.contains("does not exist")),
            "{error}"
        );
    }
}
