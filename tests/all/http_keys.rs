//! Keys and tenants: who gets in, who sees what, and that what is hidden is as what does not exist.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use e2e::{Reply, Server};
use serde_json::json;
use tenant::key::Secret;
use tokenrouter::access::Clock;
use tokenrouter::config::{Config, EMBEDDED};

use super::http_life::await_idle;
use super::questions::chat;

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// What is for operators only.
const OPERATORS: [&str; 6] = [
    "/metrics",
    "/admin/scheduler",
    "/admin/policies",
    "/admin/config",
    "/admin/tenants/acme/keys",
    "/admin/experiments",
];

/// The key of a number, as its owner sends it.
pub(crate) fn key(of: u8) -> String {
    Secret::of([of; 40]).reveal()
}

/// Its line in `keys`.
pub(crate) fn line(of: u8, more: &str) -> String {
    let secret = Secret::of([of; 40]);
    format!("{{ id = \"{}\", digest = \"{}\"{more} }},", secret.id(), String::from(secret.digest()))
}

/// A server of the embedded pair with these tenants, and its clock.
pub(crate) fn server_of(tenants: &str) -> (Server, Clock) {
    let server = Server::start(&format!("{EMBEDDED}\n{tenants}"));
    let clock = server.control().access().clock().clone();
    (server, clock)
}

/// acme has key 1, sees the small model and some routes; operators have the admin's key 2; 3 is revoked, 4 expired.
fn guarded() -> (Server, Clock) {
    let admin = line(2, ", scope = \"admin\"");
    let bad = [line(3, ", revoked_unix_s = 5"), line(4, ", expires_unix_s = 5")].concat();
    server_of(&format!(
        "[tenants.acme]\nmodels = [\"small\"]\nroutes = [\"pair/r*\", \"pair/entropy\"]\nkeys = [{}{bad}]\n\
         [tenants.operators]\nkeys = [{admin}]",
        line(1, "")
    ))
}

/// Status, body and headers, without what differs by request or moment.
pub(crate) fn shape(reply: &Reply) -> (u16, String, Vec<(String, String)>) {
    let moment = ["date", "x-request-id", "content-length"];
    let headers = reply.headers.iter().filter(|(name, _)| !moment.contains(&name.as_str()));
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().expect("ASCII").to_owned()));
    (reply.status, reply.text.clone(), headers.collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_without_a_good_key_gets_further_than_the_probes_and_the_page() {
    let (server, _) = guarded();
    let wrong = {
        let mut bytes = [1; 40];
        bytes[39] = 2;
        Secret::of(bytes).reveal()
    };
    let bad = [None, Some(""), Some("sk-x"), Some(&*wrong), Some(&*key(9)), Some(&*key(3)), Some(&*key(4))]
        .map(|key| key.map(str::to_owned));
    let told = json!({"error": {
        "message": "no valid API key was sent; send one as 'Authorization: Bearer KEY'",
        "type": "invalid_request_error", "param": null, "code": "invalid_api_key",
    }})
    .to_string();
    let told_headers =
        [("content-type", "application/json"), ("www-authenticate", "Bearer realm=\"tokenrouter\"")];
    let told_headers = told_headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let paths = [
        "/v1/models",
        "/v1/models/small",
        CHAT,
        TEXT,
        "/tokenize",
        "/detokenize",
        "/tokenizer_info",
        "/v1/usage",
        "/v1/policies",
        "/v1/policies/x",
        "/v1/feedback",
        "/nothing",
        "/",
        "/health",
        "/ready",
    ];
    for path in paths.into_iter().chain(OPERATORS) {
        for path in [path.to_owned(), format!("{path}/"), format!("/{path}"), format!("{path}%2f")] {
            for (ix, method) in METHODS.into_iter().enumerate() {
                let open = ["/", "/health", "/ready"].contains(&&*path) && ["GET", "HEAD"].contains(&method);
                // Each path with every kind of key, not each with each method: that is all of them often enough.
                for key in bad.iter().skip(ix % 2).step_by(2) {
                    let reply = server.ask(key.as_deref(), method, &path, "{}").await;
                    assert_eq!(reply.status, if open { 200 } else { 401 }, "{method} {path} {key:?}");
                    if open {
                        continue;
                    }
                    let (_, body, headers) = shape(&reply);
                    assert_eq!(headers, told_headers, "{method} {path} {key:?}");
                    assert!(method == "HEAD" || body == told, "{method} {path} {body}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_for_operators_does_not_exist_for_a_tenant() {
    let (server, _) = guarded();
    for path in OPERATORS {
        for path in [path.to_owned(), format!("{path}/"), format!("/{path}")] {
            for method in METHODS {
                let reply = server.ask(Some(&key(1)), method, &path, "{}").await;
                let absent = server.ask(Some(&key(1)), method, "/nothing", "{}").await;
                let (status, body, headers) = shape(&reply);
                assert_eq!(
                    (status, body.replace(&path, "/nothing"), headers),
                    shape(&absent),
                    "{method} {path}"
                );
                assert_eq!(status, 404);
            }
        }
        assert_eq!(server.ask(Some(&key(2)), "GET", path, "").await.status, 200);
        // Keys can be made, which on this server could not be kept.
        let posted = server.ask(Some(&key(2)), "POST", path, "").await.status;
        assert_eq!(posted, if path.ends_with("/keys") { 409 } else { 405 });
        assert_eq!(server.ask(Some(&key(2)), "GET", &format!("{path}/"), "").await.status, 404);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_served_as_everybody_is_without_tenants() {
    let (server, _) = guarded();
    for of in [1, 2] {
        let ask = async |method, path| server.ask(Some(&key(of)), method, path, "{}").await.status;
        assert_eq!(ask("GET", "/v1/models").await, 200);
        assert_eq!(ask("GET", "/v1/models/small").await, 200);
        assert_eq!(ask("POST", "/v1/models").await, 405);
        assert_eq!(ask("POST", "/health").await, 405);
        for path in ["/v1/models/", "//v1/models", "/v1/chat/completions/", "/v1//completions", "/health/"] {
            assert_eq!(ask("POST", path).await, 404, "{path}");
        }
        assert_eq!(ask("POST", CHAT).await, 400);
        let answer = server.post_as(&key(of), CHAT, &chat("pair/entropy", 0, 0.0)).await;
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-limit-requests")),
            (200, ""),
            "{}",
            answer.text
        );
        let open = Server::embedded().post(CHAT, &chat("pair/entropy", 0, 0.0)).await.json();
        assert_eq!(answer.json()["choices"], open["choices"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tenant_may_not_see_is_answered_as_what_does_not_exist() {
    let (server, _) = guarded();
    let seen = async |of: u8| {
        let list = server.ask(Some(&key(of)), "GET", "/v1/models", "").await.json();
        let ids =
            list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(seen(1).await, ["pair/entropy", "pair/r2r", "pair/random", "small"]);
    assert_eq!(seen(2).await.len(), 7);
    for (hidden, absent) in
        [("large", "lerge"), ("pair/margin", "pair/mergin"), ("pair/pinned", "peir/pinned")]
    {
        assert_eq!(server.ask(Some(&key(2)), "GET", &format!("/v1/models/{hidden}"), "").await.status, 200);
        let asked = async |name: &str| {
            let mut replies = Vec::new();
            for suffix in ["", "@threshold=1", "@threshold", "@nothing=1", "@", " ", "/"] {
                let name = format!("{name}{suffix}");
                for path in [format!("/v1/models/{name}"), format!("/v1/models/{}", name.replace('/', "%2F"))]
                {
                    let path = path.replace(' ', "%20");
                    replies.push(server.ask(Some(&key(1)), "GET", &path, "").await);
                }
                let mut body = chat(&name, 0, 0.0);
                replies.push(server.post_as(&key(1), CHAT, &body).await);
                body["stream"] = json!(true);
                body["max_tokens"] = json!(1_000_000);
                replies.push(server.post_as(&key(1), CHAT, &body).await);
                for prompt in [json!("hi"), json!(""), json!([1_000_000]), json!("many words ".repeat(9000))]
                {
                    let body = json!({"model": name, "prompt": prompt, "logit_bias": {"99999": 1}});
                    replies.push(server.post_as(&key(1), TEXT, &body).await);
                }
            }
            replies
        };
        for (one, other) in asked(hidden).await.iter().zip(asked(absent).await) {
            let (status, body, headers) = shape(one);
            assert_eq!(status, 404, "{body}");
            assert_eq!((status, body.replace(hidden, absent), headers), shape(&other));
            assert_eq!(one.text.len(), other.text.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_refusal_names_what_is_hidden() {
    let tenants =
        format!("[tenants.acme]\nmodels = []\nroutes = [\"pair/entropy\"]\nkeys = [{}]", line(1, ""));
    let (server, _) = server_of(&tenants);
    for model in
        ["nobody", "pair/entropy@x=1", "pair/entropy@threshold=99", "pair/entropy@", "pair/entropy@x"]
    {
        for max_tokens in [1, 1_000_000] {
            let mut body = chat(model, 0, 0.0);
            body["max_tokens"] = json!(max_tokens);
            let reply = server.post_as(&key(1), CHAT, &body).await;
            let hidden = ["large", "margin", "pinned", "r2r", "random"];
            assert!(
                reply.status == 200 || !hidden.iter().any(|name| reply.text.contains(name)),
                "{}",
                reply.text
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_rotate_with_an_overlap_and_expire_while_the_server_runs() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let ends = now + 1000;
    let old = line(1, &format!(", expires_unix_s = {ends}"));
    let (server, clock) = server_of(&format!("[tenants.acme]\nkeys = [{old}{}]", line(2, "")));
    let works = async |of: u8| server.ask(Some(&key(of)), "GET", "/v1/models", "").await.status;
    assert_eq!([works(1).await, works(2).await], [200, 200]);
    clock.skip(1001);
    assert_eq!([works(1).await, works(2).await], [401, 200]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_tenant_share_the_prefix_cache_and_tenants_never_do() {
    let admin = ", scope = \"admin\"";
    let tables = format!(
        "[tenants.acme]\nkeys = [{}{}]\n[tenants.guest]\nkeys = [{}]",
        line(1, ""),
        line(2, ""),
        line(3, admin)
    );
    let (server, _) = server_of(&tables);
    let hits = async || {
        let metrics = server.ask(Some(&key(3)), "GET", "/metrics", "").await.text;
        let of_large = |line: &&str| line.starts_with("tokenrouter_prefix_cache_hits_total{model=\"large\"}");
        let line = metrics.lines().find(of_large).expect("the counter").to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let prompt: Vec<u32> = (0..400).map(|ix| 5 + ix % 300).collect();
    let body = json!({"model": "large", "prompt": prompt, "max_tokens": 1});
    let mut found = Vec::new();
    for of in [1, 2, 3, 3] {
        let before = hits().await;
        assert_eq!(server.post_as(&key(of), TEXT, &body).await.status, 200);
        // What is found is counted step by step, and the last step's comes after the answer.
        await_idle(&server).await;
        found.push(hits().await - before);
    }
    assert_eq!(found, [0, 399, 0, 399]);
}

#[test]
fn the_example_is_a_configuration() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/configs/tenants.toml");
    let config = Config::read(&file).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.tenants.keys().collect::<Vec<_>>(), ["acme", "operators"]);
    assert_eq!(config.tenants["acme"].keys.len(), 2);
}
