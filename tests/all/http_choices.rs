//! Several answers to one request: which they are, how they are streamed, counted, charged, and let go.

use std::collections::BTreeSet;

use e2e::Server;
use serde_json::{Value, json};

use super::http_keys::{key, line, server_of};
use super::http_life::await_idle;
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const ROUTES: [&str; 3] = ["small", "pair/entropy", "pair/random"];

fn with(mut body: Value, extra: &Value) -> Value {
    let (Value::Object(fields), Value::Object(extra)) = (&mut body, extra) else { panic!("objects") };
    fields.extend(extra.clone());
    body
}

async fn post(path: &str, body: &Value) -> Value {
    let reply = Server::embedded().post(path, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()
}

/// What each choice of a stream says: its text or content, and its reason, which it has once and last.
fn streamed(chunks: &[Value], choices: usize) -> Vec<(String, String)> {
    let mut told = vec![(String::new(), String::new()); choices];
    for choice in chunks.iter().flat_map(|chunk| chunk["choices"].as_array().expect("choices")) {
        let (text, reason) = &mut told[choice["index"].as_u64().expect("an index") as usize];
        assert!(reason.is_empty(), "nothing comes after the reason: {choice}");
        let piece = choice.pointer("/delta/content").or_else(|| choice.get("text"));
        text.push_str(piece.and_then(Value::as_str).unwrap_or_default());
        reason.push_str(choice["finish_reason"].as_str().unwrap_or_default());
    }
    told
}

fn whole(answer: &Value) -> Vec<(String, String)> {
    let choices = answer["choices"].as_array().expect("choices");
    let told = |(place, choice): (usize, &Value)| {
        assert_eq!(choice["index"], json!(place));
        let text = choice.pointer("/message/content").or_else(|| choice.get("text"));
        (
            text.expect("there").as_str().expect("there").to_owned(),
            choice["finish_reason"].as_str().expect("there").to_owned(),
        )
    };
    choices.iter().enumerate().map(told).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_answers_to_one_prompt_are_those_of_the_next_seeds() {
    for model in ROUTES {
        let body = with(chat(model, 3, 1.5), &json!({"seed": 21, "max_tokens": 40, "route_trace": true}));
        let several = post(CHAT, &with(body.clone(), &json!({"n": 3, "return_token_ids": true}))).await;
        let (mut alone, mut completion) = (Vec::new(), 0);
        for seed in 21..24 {
            let one = post(CHAT, &with(body.clone(), &json!({ "seed": seed }))).await;
            completion += one["usage"]["completion_tokens"].as_u64().unwrap();
            assert_eq!(several["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"], "counted once");
            let place = seed - 21;
            assert_eq!(several["choices"][place]["route_trace"], one["route_trace"]);
            assert!(several.get("route_trace").is_none() && several["prompt_token_ids"].is_array());
            alone.extend(whole(&one));
        }
        assert_eq!(whole(&several), alone, "{model}");
        assert_eq!(several["usage"]["completion_tokens"], completion);
        assert!(alone.iter().collect::<BTreeSet<_>>().len() > 1, "the seeds differ");

        let asked = json!({"n": 3, "stream_options": {"include_usage": true}});
        let mut chunks = Server::embedded().stream(CHAT, &with(body, &asked)).await.chunks().await;
        let last = chunks.pop().unwrap();
        assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &several["usage"]));
        assert!(chunks.iter().all(|chunk| chunk["choices"].as_array().unwrap().len() == 1));
        assert_eq!(streamed(&chunks, 3), alone);
        let roles = chunks.iter().filter(|chunk| chunk.pointer("/choices/0/delta/role").is_some());
        assert_eq!(roles.count(), 3, "each choice says once who speaks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_prompts_are_answered_prompt_by_prompt() {
    let texts = ["12 + 30 =", "Tom has 17 coins.", "5"];
    for model in ROUTES {
        let body =
            json!({"model": model, "max_tokens": 12, "temperature": 1, "seed": 4, "return_token_ids": true});
        let (mut alone, mut ids, mut prompt_tokens) = (Vec::new(), Vec::new(), 0);
        for text in texts {
            for seed in [4, 5] {
                let one = post(TEXT, &with(body.clone(), &json!({"prompt": text, "seed": seed}))).await;
                alone.extend(whole(&one));
                if seed == 4 {
                    ids.push(one["choices"][0]["prompt_token_ids"].clone());
                    prompt_tokens += one["usage"]["prompt_tokens"].as_u64().unwrap();
                }
            }
        }
        for prompt in [json!(texts), json!(ids)] {
            let body = with(body.clone(), &json!({"prompt": prompt, "n": 2}));
            let several = post(TEXT, &body).await;
            assert_eq!(whole(&several), alone, "{model}");
            assert_eq!(several["usage"]["prompt_tokens"], prompt_tokens);
            for (choice, ids) in several["choices"].as_array().unwrap().chunks(2).zip(&ids) {
                assert!(choice.iter().all(|choice| choice["prompt_token_ids"] == *ids));
            }
            let chunks = Server::embedded().stream(TEXT, &body).await.chunks().await;
            assert_eq!(streamed(&chunks, 6), alone);
        }
    }
}

#[tokio::test]
async fn a_prompt_of_a_list_that_cannot_be_answered_is_named_and_none_is() {
    let server = Server::start(tokenrouter::config::EMBEDDED);
    for (prompt, param, code) in [
        (json!(["fine", ""]), "prompt[1]", "invalid_value"),
        (json!([[5], [5, 672]]), "prompt[1][1]", "invalid_value"),
        (json!([vec![5; 4], vec![5; 2000]]), "prompt[1]", "context_length_exceeded"),
        (json!(vec!["x"; 129]), "prompt", "invalid_value"),
    ] {
        let reply = server.post(TEXT, &json!({"model": "small", "prompt": prompt})).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"], &error["code"]),
            (400, &json!(param), &json!(code)),
            "{error}"
        );
    }
    assert_eq!(counted(&server, "tokenrouter_generation_tokens_total").await, 0);
}

/// The sum of a counter over its labels.
async fn counted(server: &Server, name: &str) -> u64 {
    let page = server.get("/metrics").await.text;
    let of =
        page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    of.map(|line| line.rsplit(' ').next().expect("a number").parse::<f64>().expect("a number") as u64).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_and_usage_count_a_prompt_once() {
    let server = Server::start(tokenrouter::config::EMBEDDED);
    let (mut prompt, mut completion, mut answers) = (0, 0, 0);
    for (model, n) in [("small", 1), ("pair/entropy", 4), ("pair/random", 2)] {
        let body = with(chat(model, 1, 1.0), &json!({"n": n, "seed": 2, "max_tokens": 30}));
        let usage = server.post(CHAT, &body).await.json()["usage"].clone();
        prompt += usage["prompt_tokens"].as_u64().unwrap();
        completion += usage["completion_tokens"].as_u64().unwrap();
        answers += n;
        let by_model = usage["completion_tokens_by_model"].as_object().unwrap().values();
        assert_eq!(
            by_model.filter_map(Value::as_u64).sum::<u64>(),
            usage["completion_tokens"].as_u64().unwrap()
        );
    }
    await_idle(&server).await;
    assert_eq!(counted(&server, "tokenrouter_prompt_tokens_total").await, prompt);
    assert_eq!(counted(&server, "tokenrouter_generation_tokens_total").await, completion);
    assert_eq!(counted(&server, "tokenrouter_request_success_total").await, answers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_of_several_answers_is_computed_once() {
    let server = Server::start("[models.large]\nfiles = \"embedded:large\"\n");
    let prompt = vec![7; 800];
    let body =
        json!({"model": "large", "prompt": prompt, "n": 8, "max_tokens": 2, "temperature": 1, "seed": 1});
    assert_eq!(server.post(TEXT, &body).await.status, 200);
    await_idle(&server).await;
    let hits = counted(&server, "tokenrouter_prefix_cache_hits_total").await;
    assert!(hits >= 7 * 768, "seven find nearly all of 800 tokens, in whole blocks: {hits}");
}

fn tenants(quotas: &str) -> String {
    format!("[tenants.acme]\nquotas = {{ {quotas} }}\nkeys = [{}]", line(1, ""))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_hold_all_answers_and_are_settled_with_what_was_made() {
    let body = |n: u64| json!({"model": "small", "prompt": [5, 6, 7, 8], "max_tokens": 4, "ignore_eos": true, "n": n});
    let (server, _) = server_of(&tenants("tokens_per_minute = 40, journeys = 8"));
    let left = async |reply: e2e::Reply| {
        (reply.status, reply.header("x-ratelimit-remaining-tokens").parse::<u64>().unwrap())
    };
    let of = async |body: &Value| left(server.post_as(&key(1), TEXT, body).await).await;
    // A prompt of 4 and three answers of 4, not three requests of 8.
    assert_eq!(of(&body(3)).await, (200, 24));
    assert_eq!(of(&body(6)).await, (429, 24), "28 do not fit");
    assert_eq!(
        of(&json!({"model": "small", "prompt": [[5], [6]], "max_tokens": 4, "ignore_eos": true})).await,
        (200, 14)
    );
    // Nine at once are more than a tenant may have.
    let nine = server.post_as(&key(1), TEXT, &body(9)).await;
    assert_eq!((nine.status, nine.header("x-should-retry")), (429, "false"), "{}", nine.text);
    let usage = server.ask(Some(&key(1)), "GET", "/v1/usage", "").await.json();
    assert_eq!((&usage["requests"], &usage["tokens"], &usage["running"]), (&json!(2), &json!(26), &json!(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_takes_all_its_answers_with_it() {
    let (server, _) = server_of(&tenants("journeys = 6"));
    for model in ROUTES {
        let body =
            with(chat(model, 0, 2.0), &json!({"n": 6, "seed": 3, "max_tokens": 800, "ignore_eos": true}));
        let mut stream = server.stream_as(Some(&key(1)), CHAT, &body).await;
        let mut seen = BTreeSet::new();
        while seen.len() < 6 {
            let chunk: Value = serde_json::from_str(&stream.next().await.expect("long enough")).unwrap();
            if chunk.pointer("/choices/0/delta/content").is_some_and(|content| content != "") {
                seen.insert(chunk["choices"][0]["index"].as_u64().unwrap());
            }
        }
        drop(stream);
        await_idle(&server).await;
        // Whole, and left before anything comes.
        let own = key(1);
        let asked = server.post_as(&own, CHAT, &body);
        assert!(tokio::time::timeout(std::time::Duration::from_millis(3), asked).await.is_err());
        // The server may see the request after its client has given up.
        let begun = std::time::Instant::now();
        while server.ask(Some(&key(1)), "GET", "/v1/usage", "").await.json()["running"] != 0 {
            assert!(begun.elapsed().as_secs() < 10, "answers outlive their client");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}
