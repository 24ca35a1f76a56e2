//! Answers that must satisfy a schema: on every route, over hops at every token, drafts and their verification.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use e2e::{Reply, Server};
use futures_util::future::join_all;
use journey::Grammar;
use serde_json::{Value, json};
use tokenrouter::config::Config;
use tokenrouter::runtime::{Ask, Event, Runtime};

use super::builtin::{GREEDY_MOVERS, MOVERS, config};
use super::self_pair::{SAMPLED, TWINS, answer, questions};

const CHAT: &str = "/v1/chat/completions";

/// What a word problem comes to, with enough to write for policies to act on.
fn schema() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["steps", "answer", "sure"], "properties": {
        "steps": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "string", "maxLength": 12}},
        "answer": {"type": "integer", "minimum": 0, "maximum": 999},
        "sure": {"enum": ["yes", "no"]},
    }})
}

fn format() -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "solution", "schema": schema(), "strict": true}})
}

fn grammar(runtime: &Runtime, route: &str) -> Arc<dyn Grammar> {
    let selected = runtime.catalog().select(route).expect("configured");
    let compiler = selected.route.grammars().expect("the vocabulary can be used");
    compiler.compile(&grammar::json(&schema()).expect("an object")).expect("it can be followed")
}

/// Asserts that a whole text satisfies [`schema`].
#[track_caller]
fn satisfies(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text:?}"));
    let keys: BTreeSet<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["answer", "steps", "sure"]), "{text}");
    let steps = value["steps"].as_array().expect("a list");
    assert!((2..=3).contains(&steps.len()), "{text}");
    assert!(steps.iter().all(|step| step.as_str().is_some_and(|step| step.chars().count() <= 12)), "{text}");
    assert!(value["answer"].as_u64().is_some_and(|answer| answer < 1000), "{text}");
    assert!(value["sure"] == "yes" || value["sure"] == "no", "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_59_a_grammar_survives_a_switch_at_every_token() {
    let config = Config::parse(TWINS, Path::new("")).expect("valid");
    let runtime = Runtime::start(&config, &mut ()).expect("the twins load");
    let grammar = grammar(&runtime, "a");
    for (seed, question) in (0u64..).zip(questions(4)) {
        for sampling in [SAMPLED, journey::Sampling::GREEDY] {
            let grammar = Some(Arc::clone(&grammar));
            let how = Ask { grammar, sampling, seed, max_tokens: Some(250), ..Ask::greedy(Vec::new()) };
            let alone = answer(&runtime, "a", &question, &how).await;
            satisfies(&alone.text);
            let runs = ["every", "stretches", "random", "visits", "b"];
            let together = join_all(runs.map(|route| answer(&runtime, route, &question, &how))).await;
            for (route, routed) in runs.iter().zip(&together) {
                assert_eq!(routed.ids, alone.ids, "{route} differs from one model alone on {question:?}");
                assert_eq!(routed.text, alone.text);
            }
            assert_eq!(together[0].roles, BTreeSet::from([1]), "every token was handed off");
        }
    }
    runtime.shut_down(Duration::from_secs(5)).await;
}

/// What every built-in policy makes of constrained answers between copies of one model.
async fn compare(routes: &[(&str, &str)], how: &Ask) {
    let (config, _folder) = config(["small"; 3], routes);
    let runtime = Runtime::start(&config, &mut ()).expect("the twins load");
    let grammar = grammar(&runtime, "a");
    for (seed, question) in (0u64..).zip(questions(2)) {
        let how = Ask { grammar: Some(Arc::clone(&grammar)), seed, max_tokens: Some(250), ..how.clone() };
        let alone = answer(&runtime, "a", &question, &how).await;
        satisfies(&alone.text);
        let names: Vec<String> = (0..routes.len()).map(|ix| ix.to_string()).collect();
        let together = join_all(names.iter().map(|name| answer(&runtime, name, &question, &how))).await;
        for (routed, route) in together.iter().zip(routes) {
            assert_eq!(routed.ids, alone.ids, "{route:?} differs from one model alone on {question:?}");
        }
    }
    runtime.shut_down(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_59_a_grammar_survives_drafts_verification_and_questions() {
    compare(&MOVERS, &Ask::greedy(Vec::new())).await;
    compare(&GREEDY_MOVERS, &Ask::greedy(Vec::new())).await;
    compare(&MOVERS, &Ask { sampling: SAMPLED, ..Ask::greedy(Vec::new()) }).await;
}

/// Between models that differ, whatever a policy does, what comes satisfies the schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_policy_keeps_to_the_schema_between_different_models() {
    let routes: Vec<(&str, &str)> =
        MOVERS.iter().chain(&GREEDY_MOVERS).copied().chain([("best-of-n", "")]).collect();
    let (config, _folder) = config(["small", "large", "small"], &routes);
    let runtime = Runtime::start(&config, &mut ()).expect("the pair loads");
    let grammar = grammar(&runtime, "a");
    for (seed, question) in (0u64..).zip(questions(2)) {
        for (ix, route) in routes.iter().enumerate() {
            let selected = runtime.catalog().select(&ix.to_string()).expect("configured");
            let prompt = selected.route.tokenizer.encode(&question).expect("text");
            let grammar = Some(Arc::clone(&grammar));
            let ask = Ask { grammar, seed, sampling: SAMPLED, max_tokens: Some(250), ..Ask::greedy(prompt) };
            let mut events = runtime.submit(&selected, ask).expect("accepted").events;
            let mut text = String::new();
            while let Some(event) = events.recv().await {
                match event {
                    Event::Made(made) => text += &made.text,
                    Event::Finished(reason) => assert_eq!(reason, journey::FinishReason::Stop, "{route:?}"),
                    // A policy that forces what the grammar does not allow loses its say, and nothing else.
                    Event::FellBack { fault } => assert!(fault.contains("grammar"), "{route:?}: {fault}"),
                    Event::Failed { message } => panic!("{route:?}: {message}"),
                    Event::Scored(_) => panic!("{route:?}: nobody asked for scores"),
                }
            }
            satisfies(&text);
        }
    }
    runtime.shut_down(Duration::from_secs(5)).await;
}

fn body(extra: &Value) -> Value {
    let question =
        "Answer in JSON. Tom has 17 coins. He buys 48 more coins. How many coins does Tom have now?";
    let mut body = json!({"model": "small", "messages": [{"role": "user", "content": question}], "seed": 5, "max_tokens": 250});
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra.clone());
    body
}

async fn post(extra: &Value) -> Reply {
    Server::embedded().post(CHAT, &body(extra)).await
}

#[tokio::test]
async fn an_answer_satisfies_its_schema_streamed_and_whole() {
    for model in ["small", "large", "pair/entropy@threshold=0.0", "pair/random"] {
        for seed in 0..3 {
            let extra = json!({"model": model, "seed": seed, "response_format": format()});
            let reply = post(&extra).await.json();
            let choice = &reply["choices"][0];
            let text = choice["message"]["content"].as_str().expect("content").to_owned();
            assert_eq!(choice["finish_reason"], "stop", "{reply}");
            satisfies(&text);
            let chunks = Server::embedded().stream(CHAT, &body(&extra)).await.chunks().await;
            let streamed: String = chunks
                .iter()
                .filter_map(|chunk| chunk.pointer("/choices/0/delta/content")?.as_str())
                .collect();
            assert_eq!(streamed, text);
        }
    }
}

#[tokio::test]
async fn completions_follow_a_schema_too() {
    let mut body = json!({"model": "small", "prompt": "JSON:", "max_tokens": 250, "seed": 1, "response_format": format()});
    let reply = Server::embedded().post("/v1/completions", &body).await.json();
    let alone = reply["choices"][0]["text"].as_str().expect("text").to_owned();
    satisfies(&alone);
    // A prompt whose tokens are scored is before the grammar; and each of several answers has a grammar of its own.
    let more = json!({"echo": true, "logprobs": 1, "n": 3});
    let (Value::Object(fields), Value::Object(more)) = (&mut body, more) else { panic!("objects") };
    fields.extend(more);
    let reply = Server::embedded().post("/v1/completions", &body).await.json();
    let texts = reply["choices"].as_array().expect("choices").iter();
    let answers: Vec<&str> = texts
        .map(|choice| choice["text"].as_str().expect("text").strip_prefix("JSON:").expect("echo"))
        .collect();
    answers.iter().for_each(|answer| satisfies(answer));
    assert_eq!((answers.len(), answers[0]), (3, &*alone));
}

#[tokio::test]
async fn case_17_blanks_are_bounded_and_the_answer_ends() {
    // The most that can be done to have blanks written: a bias for all tokens that are nothing else.
    let selected = Server::embedded().runtime().catalog().select("small").expect("configured");
    let vocabulary = selected.route.tokenizer.vocabulary();
    let is_blank = |token: &u32| {
        let bytes = vocabulary.bytes(*token);
        !bytes.is_empty() && bytes.iter().all(u8::is_ascii_whitespace)
    };
    let bias: serde_json::Map<String, Value> =
        (0..vocabulary.len() as u32).filter(is_blank).map(|token| (token.to_string(), json!(100))).collect();
    assert!(bias.len() > 2);
    for kind in [json!({"type": "json_object"}), format()] {
        for temperature in [0, 1] {
            let extra = json!({"response_format": kind, "logit_bias": bias, "temperature": temperature, "max_tokens": 300});
            let reply = post(&extra).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            let reply = reply.json();
            let text = reply["choices"][0]["message"]["content"].as_str().expect("content").to_owned();
            let longest = text.split(|c: char| !c.is_whitespace()).map(str::len).max().unwrap_or(0);
            // In a string blanks are what the model says; between tokens of JSON there are few.
            let outside: String = text.split('"').step_by(2).collect();
            let between = outside.split(|c: char| !c.is_whitespace()).map(str::len).max().unwrap_or(0);
            assert!(between <= 44, "{between} of {longest} blanks: {text:?}");
            match reply["choices"][0]["finish_reason"].as_str() {
                Some("stop") => drop(serde_json::from_str::<Value>(&text).expect("whole JSON")),
                Some("length") => assert_eq!(reply["usage"]["completion_tokens"], 300),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn whatever_else_is_asked_for_the_grammar_holds() {
    let selected = Server::embedded().runtime().catalog().select("small").expect("configured");
    let brace = selected.route.tokenizer.encode("{").expect("text")[0];
    let close = selected.route.tokenizer.encode("}").expect("text")[0];
    for extra in [
        // Longer than the schema allows, and never ending: it ends where nothing can follow.
        json!({"min_tokens": 200}),
        json!({"ignore_eos": true}),
        json!({"ignore_eos": true, "min_tokens": 200}),
        json!({"presence_penalty": 2, "frequency_penalty": 2, "repetition_penalty": 10}),
        json!({"top_k": 1, "top_p": 0.1, "min_p": 0.5}),
        json!({"logit_bias": {close.to_string(): 100}}),
        json!({"logit_bias": {brace.to_string(): -100}}),
        json!({"logprobs": true, "top_logprobs": 3, "return_token_ids": true, "route_trace": true}),
    ] {
        let mut extra = extra;
        extra["response_format"] = format();
        let reply = post(&extra).await;
        assert_eq!(reply.status, 200, "{extra}: {}", reply.text);
        let reply = reply.json();
        assert_eq!(reply["choices"][0]["finish_reason"], "stop", "{extra}: {reply}");
        satisfies(reply["choices"][0]["message"]["content"].as_str().expect("content"));
    }
    // The client's own ends come before the schema's, and nothing fails where all that may follow is barred.
    for extra in [
        json!({"stop": "steps"}),
        json!({"stop_token_ids": [brace]}),
        json!({"stop_token_ids": [brace], "min_tokens": 30}),
    ] {
        let mut extra = extra;
        extra["response_format"] = format();
        let reply = post(&extra).await;
        assert_eq!(reply.status, 200, "{extra}: {}", reply.text);
        assert_eq!(reply.json()["choices"][0]["finish_reason"], "stop");
    }
    let cut = post(&json!({"response_format": format(), "max_tokens": 4})).await.json();
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
}

#[track_caller]
fn refused(reply: &Reply, param: &str, word: &str) {
    assert_eq!(reply.status, 400, "{}", reply.text);
    let error = &reply.json()["error"];
    assert_eq!(
        (&error["param"], &error["type"]),
        (&json!(param), &json!("invalid_request_error")),
        "{error}"
    );
    assert!(error["message"].as_str().is_some_and(|message| message.contains(word)), "{error}");
}

#[tokio::test]
async fn what_cannot_be_constrained_is_refused_by_name() {
    const SCHEMA: &str = "response_format.json_schema.schema";
    let of = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}});
    for (extra, param, word) in [
        (of(json!({"type": "nothing"})), SCHEMA, "nothing"),
        (of(json!({"$ref": "#/lost"})), SCHEMA, "lost"),
        (of(json!({"type": "string", "pattern": "("})), SCHEMA, "cannot be followed"),
        (of(json!(true)), SCHEMA, "object"),
        (of(json!({"description": "x".repeat(70_000)})), SCHEMA, "65536"),
        (json!({"response_format": "json"}), "response_format", "object"),
        (json!({"response_format": {"type": "yaml"}}), "response_format.type", "json_object"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema", "missing"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}),
            "response_format.json_schema.name",
            "letters",
        ),
        (
            json!({"response_format": {"type": "json_object", "schema": {}}}),
            "response_format.schema",
            "no field",
        ),
    ] {
        refused(&post(&extra).await, param, word);
    }
}
