//! Quotas: what is admitted, what is told of it, and that every way out gives back what it did not use.

use e2e::{Reply, Server};
use serde_json::{Value, json};

use super::http_keys::{key, line, server_of};
use super::http_life::await_idle;

const TEXT: &str = "/v1/completions";
/// Longer than anything counts.
const WINDOW_S: u64 = 62;
/// A model whose answers last long enough to be met.
const SLOW: &str = "[models.slow]\nfiles = \"embedded:small\"\nsim = { fixed_ms = 5.0 }\n";

/// One tenant with key 1 and these quotas, and an admin.
fn server_with(quotas: &str) -> (Server, tokenrouter::access::Clock) {
    let admin = line(2, ", scope = \"admin\"");
    server_of(&format!(
        "{SLOW}[tenants.acme]\nquotas = {{ {quotas} }}\nkeys = [{}]\n[tenants.operators]\nkeys = [{admin}]",
        line(1, "")
    ))
}

/// As many tokens of the prompt, and more of the answer than anybody waits for.
fn long() -> Value {
    json!({"model": "slow", "prompt": [5, 6, 7, 8], "max_tokens": 900, "ignore_eos": true})
}

/// Four tokens of prompt and as many of the answer.
fn short() -> Value {
    json!({"model": "small", "prompt": [5, 6, 7, 8], "max_tokens": 4, "ignore_eos": true})
}

fn number(headers: &Reply, name: &str) -> u64 {
    headers.header(name).parse().unwrap_or_else(|_| panic!("{name} in {:?}", headers.headers))
}

async fn hundred(server: &Server) -> Vec<Reply> {
    let (key, body) = (key(1), short());
    futures_util::future::join_all((0..100).map(|_| server.post_as(&key, TEXT, &body))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_at_once_exactly_as_many_pass_as_the_quota_is_for() {
    // Ten requests, or the tokens of ten.
    for (quotas, kind) in [("requests_per_minute = 10", "requests"), ("tokens_per_minute = 80", "tokens")] {
        let (server, clock) = server_with(quotas);
        for _ in 0..2 {
            let replies = hundred(&server).await;
            let (passed, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
            assert_eq!(passed.len(), 10, "{quotas}");
            for reply in refused {
                assert_eq!(reply.status, 429, "{}", reply.text);
                let error = &reply.json()["error"];
                assert_eq!((&error["type"], &error["code"]), (&json!(kind), &json!("rate_limit_exceeded")));
                assert!(error["message"].as_str().unwrap().contains(&format!("{kind} a minute")), "{error}");
                assert!((1..=61).contains(&number(reply, "retry-after")), "{:?}", reply.headers);
                assert_eq!(number(reply, &format!("x-ratelimit-remaining-{kind}")), 0);
            }
            assert_eq!(server.post_as(&key(1), TEXT, &short()).await.status, 429);
            clock.skip(WINDOW_S);
            // A refusal of another kind shows that all of it is there again.
            let whole = server.post_as(&key(1), TEXT, &json!({})).await;
            let limit = number(&whole, &format!("x-ratelimit-limit-{kind}"));
            assert_eq!(number(&whole, &format!("x-ratelimit-remaining-{kind}")), limit);
            assert_eq!(whole.header(&format!("x-ratelimit-reset-{kind}")), "0s");
        }
        // Nobody else is held up by it.
        assert_eq!(server.post_as(&key(2), TEXT, &short()).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journeys_at_once_are_bounded_and_every_way_out_frees_its_place() {
    let (server, _) = server_with("journeys = 1");
    for _ in 0..3 {
        let mut stream = server.stream_as(Some(&key(1)), TEXT, &long()).await;
        assert_eq!(stream.status, 200);
        assert!(stream.next().await.is_some());
        let refused = server.post_as(&key(1), TEXT, &short()).await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
        assert_eq!(refused.json()["error"]["type"], "journeys");
        // Its client leaves.
        drop(stream);
        await_idle(&server).await;
        // Finished, streamed to the end, too long for the context, refused by field, two answers.
        assert_eq!(server.post_as(&key(1), TEXT, &short()).await.status, 200);
        server.stream_as(Some(&key(1)), TEXT, &short()).await.chunks().await;
        for (field, value) in [("max_tokens", json!(9000)), ("prompt", json!("")), ("n", json!(0))] {
            let mut body = short();
            body[field] = value;
            assert_eq!(server.post_as(&key(1), TEXT, &body).await.status, 400, "{field}");
        }
    }
    assert_eq!(server.post_as(&key(1), TEXT, &short()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_queue_refuses_uses_no_tokens() {
    let tenants =
        format!("[tenants.acme]\nquotas = {{ tokens_per_minute = 100_000 }}\nkeys = [{}]", line(1, ""));
    let config = format!("[server]\njourneys_max = 1\nqueue_max = 1\n{SLOW}{tenants}");
    let server = Server::start(&config);
    let mut held = Vec::new();
    let refused = loop {
        assert!(held.len() < 8, "the line is bounded");
        let stream = server.stream_as(Some(&key(1)), TEXT, &long()).await;
        if stream.status != 200 {
            break stream.refusal().await;
        }
        held.push(stream);
    };
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error", "the queue's, not the quota's");
    let left = number(&refused, "x-ratelimit-remaining-tokens");
    let running: u64 = held.len() as u64 * 904;
    // Whoever has ended by now has used all that it asked for.
    assert_eq!(left, 100_000 - running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_in_mid_stream_pays_for_the_tokens_made() {
    let (server, _) = server_with("tokens_per_minute = 100_000");
    let mut stream = server.stream_as(Some(&key(1)), TEXT, &long()).await;
    assert_eq!(stream.headers["x-ratelimit-remaining-tokens"], "99096", "all is held that it may use");
    for _ in 0..5 {
        assert!(stream.next().await.is_some(), "long enough to be left");
    }
    drop(stream);
    await_idle(&server).await;
    let metrics = server.ask(Some(&key(2)), "GET", "/metrics", "").await.text;
    let generated = metrics.lines().filter(|line| line.starts_with("tokenrouter_generation_tokens_total{"));
    let made: u64 = generated.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert!((5..900).contains(&made), "{made}");
    let after = server.post_as(&key(1), TEXT, &json!({})).await;
    assert_eq!(number(&after, "x-ratelimit-remaining-tokens"), 100_000 - 4 - made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_fits_is_not_told_to_come_again() {
    let (server, _) = server_with("tokens_per_minute = 100");
    let mut body = short();
    body["max_tokens"] = json!(97);
    let refused = server.post_as(&key(1), TEXT, &body).await;
    assert_eq!(
        (refused.status, refused.header("retry-after"), refused.header("x-should-retry")),
        (429, "", "false")
    );
    let error = &refused.json()["error"];
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("insufficient_quota"), &json!("insufficient_quota"))
    );
    assert_eq!(number(&refused, "x-ratelimit-remaining-tokens"), 100, "a refused request counts nowhere");
    body["max_tokens"] = json!(96);
    assert_eq!(server.post_as(&key(1), TEXT, &body).await.status, 200);
}

#[tokio::test]
async fn a_tenant_sees_what_it_has_used_and_nobody_elses() {
    let (server, _) = server_with("requests_per_minute = 3, journeys = 2");
    for expected in [200, 200, 200, 429] {
        assert_eq!(server.post_as(&key(1), TEXT, &short()).await.status, expected);
    }
    await_idle(&server).await;
    let usage = server.ask(Some(&key(1)), "GET", "/v1/usage", "").await.json();
    let told = |field: &str| usage[field].as_u64();
    assert_eq!(["requests", "refused", "tokens", "running"].map(told), [Some(3), Some(1), Some(24), Some(0)]);
    assert_eq!(usage["quotas"]["requests_per_minute"]["left"], 0);
    assert_eq!(usage["quotas"]["journeys"], json!({"limit": 2, "left": 2}));
    assert_eq!(usage["quotas"]["tokens_per_minute"], Value::Null);
    let other = async |of: u8, tenant: &str| {
        let reply = server.ask(Some(&key(of)), "GET", &format!("/v1/usage?tenant={tenant}"), "").await;
        (reply.status, reply.json()["requests"].as_u64())
    };
    assert_eq!(other(2, "acme").await, (200, Some(3)));
    assert_eq!(other(1, "operators").await, (404, None));
    assert_eq!(other(1, "nobody").await, (404, None));
    assert_eq!(server.ask(Some(&key(1)), "GET", "/v1/usage?whose=acme", "").await.status, 400);
    assert_eq!(Server::embedded().get("/v1/usage").await.status, 404);
}
