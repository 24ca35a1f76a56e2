//! Experiments as operators and clients meet them: who gets which arm and keeps it, and how an experiment changes.

use std::fs;
use std::path::Path;

use e2e::{Reply, Server};
use policy::Call;
use serde_json::{Value, json};
use tokenrouter::config::{Config, EMBEDDED};

use super::guest::{Guest, TRAP};
use super::http_keys::{key, line, server_of};

const CHAT: &str = "/v1/chat/completions";
const SEED: &str = "a seed that nobody knows";

/// A server of the embedded pair that keeps what it is told in this folder.
pub(crate) fn kept_in(folder: &Path, more: &str) -> Server {
    let server = format!("[server]\ndata_dir = {:?}", folder.display().to_string());
    let config = EMBEDDED.replacen("[server]", &server, 1);
    Server::start(&format!("{config}\n{more}"))
}

/// An experiment `new` that gives a part of the users to a policy that traps from the 21st token on, which no rehearsal comes
/// to, and that is rolled back where more than a part of the answers fall back.
pub(crate) fn traps_late(folder: &Path, weight_bp: u16, above: f64) -> String {
    let file = folder.join("traps.wasm");
    let late = format!("(if (i32.ge_u (local.get $index) (i32.const 20)) (then {TRAP}))");
    fs::write(&file, Guest::good().always(Call::Route, &late).component()).expect("written");
    format!(
        "[experiments.new]\nroute = \"pair/entropy\"\nseed = \"a seed that nobody knows\"\nsticky = \"user\"\narms = [\n\
         {{ name = \"control\", weight_bp = {} }},\n{{ name = \"traps\", weight_bp = {weight_bp}, policy = {:?} }}]\n\
         [[experiments.new.guardrails]]\nmetric = \"fallbacks\"\nof = \"mean\"\nlimit = {{ above = {above} }}",
        10_000 - weight_bp,
        file.display().to_string()
    )
}

/// An experiment that gives a part of the keys to the margin policy.
pub(crate) fn definition(route: &str, sticky: Value, weight_bp: u16) -> Value {
    let mut body = json!({
        "route": route,
        "seed": SEED,
        "arms": [
            {"name": "control", "weight_bp": 10_000 - weight_bp},
            {"name": "margin", "weight_bp": weight_bp, "policy": "builtin:margin"},
        ],
    });
    body["sticky"] = sticky;
    body
}

/// Asks an operator's question of a server without keys, which must be answered.
pub(crate) async fn admin(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let reply = server.ask(None, method, &format!("/admin/experiments{path}"), &body.to_string()).await;
    assert!((200..300).contains(&reply.status), "{method} {path}: {}", reply.text);
    reply.json()
}

pub(crate) fn refused(reply: &Reply, status: u16, code: &str) -> String {
    let error = &reply.json()["error"];
    assert_eq!((reply.status, error["code"].as_str()), (status, Some(code)), "{}", reply.text);
    error["message"].as_str().expect("a message").to_owned()
}

fn one_token(route: &str) -> Value {
    json!({"model": route, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})
}

fn arm(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.header("x-tokenrouter-arm").to_owned()
}

/// Which of 10,000 users the server gives to the treatment, by the table that it asks for every request.
fn treated(server: &Server, route: &str) -> Vec<bool> {
    let catalog = server.runtime().catalog();
    let split = catalog.split(route).expect("an experiment");
    let arm = |user: u32| split.assigner.assign(Some(&[b"", format!("user-{user}").as_bytes()])).arm;
    (0..10_000).map(|user| arm(user) == 1).collect()
}

/// Asks as some of these users, and counts what is not as the table says.
async fn strayed(server: &Server, route: &str, expected: &[bool]) -> usize {
    let mut strayed = 0;
    for user in (0..10_000).step_by(83) {
        let mut body = one_token(route);
        body["user"] = json!(format!("user-{user}"));
        let told = arm(&server.post(CHAT, &body).await);
        strayed += usize::from((told == "share/margin") != expected[user]);
    }
    strayed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_users_keep_their_arms_through_every_change_and_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let route = "pair/entropy";
    let weights = |bp: u16| json!({"weights_bp": {"margin": bp}});
    let server = kept_in(folder.path(), "");
    let made = admin(&server, "PUT", "/share", &definition(route, json!("user"), 1000)).await;
    assert_eq!((&made["state"], &made["source"]), (&json!("running"), &json!("api")));
    let at_10 = treated(&server, route);
    assert_eq!(strayed(&server, route, &at_10).await, 0);
    admin(&server, "POST", "/share/weights", &weights(3000)).await;
    let at_30 = treated(&server, route);
    assert_eq!(strayed(&server, route, &at_30).await, 0);
    admin(&server, "POST", "/share/weights", &weights(1000)).await;
    assert_eq!(treated(&server, route), at_10, "back at 10 % everybody is where they were");
    // Five standard deviations of a binomial of 10,000: 150 at 10 %, 229 at 30 %.
    let count = |of: &[bool]| of.iter().filter(|treated| **treated).count();
    assert!(
        count(&at_10).abs_diff(1000) < 150 && count(&at_30).abs_diff(3000) < 229,
        "{} {}",
        count(&at_10),
        count(&at_30)
    );
    assert!(at_10.iter().zip(&at_30).all(|(small, large)| !small || *large), "nobody left the treatment");
    drop(server);

    let server = kept_in(folder.path(), "");
    assert_eq!(treated(&server, route), at_10, "after a restart");
    assert_eq!(strayed(&server, route, &at_10).await, 0);
    let shown = admin(&server, "GET", "/share", &Value::Null).await;
    assert_eq!((&shown["phase"], &shown["arms"][1]["weight_bp"]), (&json!(3), &json!(1000)));
    assert!(!shown.to_string().contains(SEED), "the seed is shown to nobody");
    drop(server);

    let table = format!(
        "[experiments.share]\nroute = \"{route}\"\nseed = \"{SEED}\"\nsticky = \"user\"\narms = [\n\
         {{ name = \"control\", weight_bp = 9000 }},\n{{ name = \"margin\", weight_bp = 1000, policy = \"builtin:margin\" }}]"
    );
    let replica = Server::start(&format!("{EMBEDDED}\n{table}"));
    assert_eq!(treated(&replica, route), at_10, "another server with the same table");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_arm_is_kept_by_header_tenant_and_conversation() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = kept_in(folder.path(), "");
    let half = |route: &str, sticky: Value| definition(route, sticky, 5000);
    admin(&server, "PUT", "/by-header", &half("pair/entropy", json!({"header": "x-session"}))).await;
    admin(&server, "PUT", "/by-chat", &half("pair/random", json!("conversation"))).await;
    admin(&server, "PUT", "/by-tenant", &half("pair/pinned", json!("tenant"))).await;
    let mut arms = [[0; 2]; 3];
    for ix in 0..24 {
        let session = format!("s{ix}");
        let by = async |header: &'static str, value: &str, body: &Value| {
            arm(&server.post_with(&[(header, value)], CHAT, body).await)
        };
        let mut chat = one_token("pair/random");
        chat["messages"][0]["content"] = json!(format!("Hello, {ix}"));
        let mut longer = chat.clone();
        let more =
            [json!({"role": "assistant", "content": "Hi"}), json!({"role": "user", "content": "And now?"})];
        longer["messages"].as_array_mut().expect("messages").extend(more);
        let told = [
            [
                by("x-session", &session, &one_token("pair/entropy")).await,
                by("x-session", &session, &one_token("pair/entropy")).await,
            ],
            [by("x-session", "a", &chat).await, by("x-session", "b", &longer).await],
            [
                by("authorization", &format!("Bearer k{ix}"), &one_token("pair/pinned")).await,
                by("authorization", &format!("Bearer k{ix}"), &one_token("pair/pinned")).await,
            ],
        ];
        for (counts, [first, again]) in arms.iter_mut().zip(told) {
            assert_eq!(first, again, "{ix}");
            counts[usize::from(first.ends_with("/margin"))] += 1;
        }
    }
    assert!(arms.iter().flatten().all(|count| *count >= 3), "both arms of each: {arms:?}");
    // Who brings nothing to keep an arm by is served by the control, and not counted.
    assert_eq!(arm(&server.post(CHAT, &one_token("pair/entropy")).await), "by-header/control");
    assert_eq!(arm(&server.post(CHAT, &one_token("pair/pinned")).await), "by-tenant/control");
    let of_text = server
        .post("/v1/completions", &json!({"model": "pair/random", "prompt": "Hi", "max_tokens": 1}))
        .await;
    assert_eq!(arm(&of_text), "by-chat/control");
    let shown = admin(&server, "GET", "/by-header", &Value::Null).await;
    assert_eq!(
        shown["arms"][0]["answers"].as_u64().unwrap() + shown["arms"][1]["answers"].as_u64().unwrap(),
        48
    );
    // Single models are nobody's experiment, and cost what they did.
    assert_eq!(arm(&server.post(CHAT, &one_token("small")).await), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trace_names_the_arm_and_settings_in_the_name_ask_for_the_route_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = kept_in(folder.path(), "");
    admin(&server, "PUT", "/share", &definition("pair/entropy", json!("request"), 10_000)).await;
    let mut body = one_token("pair/entropy");
    body["route_trace"] = json!(true);
    let trace = server.post(CHAT, &body).await.json()["route_trace"].clone();
    assert_eq!(
        (&trace["route"], &trace["experiment"], &trace["arm"], &trace["policy"]),
        (&json!("pair/entropy"), &json!("share"), &json!("margin"), &json!("margin"))
    );
    body["model"] = json!("pair/entropy@threshold=20");
    let trace = server.post(CHAT, &body).await.json()["route_trace"].clone();
    assert_eq!(
        (&trace["arm"], &trace["policy"], &trace["settings"]["threshold"]),
        (&json!("control"), &json!("entropy"), &json!(20.0))
    );
    body["model"] = json!("pair/margin");
    let trace = server.post(CHAT, &body).await.json()["route_trace"].clone();
    assert_eq!((&trace["experiment"], &trace["arm"]), (&Value::Null, &Value::Null));
    let shown = admin(&server, "GET", "/share", &Value::Null).await;
    assert_eq!((&shown["arms"][0]["answers"], &shown["arms"][1]["answers"]), (&json!(0), &json!(1)));
    let page = server.get("/metrics").await.text;
    for line in [
        "tokenrouter_experiment_state{experiment=\"share\"} 0",
        "tokenrouter_experiment_answers_total{experiment=\"share\",arm=\"margin\"} 1",
        "tokenrouter_experiment_answers_total{experiment=\"share\",arm=\"control\"} 1",
    ] {
        assert!(page.lines().any(|of| of == line), "{line} in {page}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_experiment_is_paused_promoted_rolled_back_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = kept_in(folder.path(), "");
    let route = "pair/entropy";
    let all = definition(route, json!("request"), 10_000);
    let served =
        async |expected: &str| assert_eq!(arm(&server.post(CHAT, &one_token(route)).await), expected);
    admin(&server, "PUT", "/share", &all).await;
    served("share/margin").await;
    let because = json!({"reason": "look"});
    assert_eq!(admin(&server, "POST", "/share/pause", &because).await["state"], "paused");
    served("share/control").await;
    admin(&server, "POST", "/share/resume", &json!({})).await;
    served("share/margin").await;
    let promoted =
        admin(&server, "POST", "/share/promote", &json!({"arm": "margin", "reason": "better"})).await;
    assert_eq!(
        (&promoted["state"], &promoted["reason"], &promoted["promoted"]),
        (&json!("promoted"), &json!("better"), &json!("margin"))
    );
    served("share/margin").await;

    let ask = async |method: &str, path: &str, body: &Value| {
        server.ask(None, method, &format!("/admin/experiments/{path}"), &body.to_string()).await
    };
    refused(&ask("POST", "share/resume", &json!({})).await, 409, "conflict");
    assert!(refused(&ask("PUT", "other", &all).await, 409, "conflict").contains("\"share\""));
    let back = admin(&server, "POST", "/share/rollback", &json!({"reason": "regret"})).await;
    assert_eq!((&back["state"], &back["reason"]), (&json!("rolled back"), &json!("regret")));
    served("").await;
    admin(&server, "PUT", "/other", &all).await;
    served("other/margin").await;
    refused(&ask("DELETE", "other", &Value::Null).await, 409, "conflict");
    assert_eq!(admin(&server, "DELETE", "/share", &Value::Null).await["deleted"], true);
    refused(&ask("GET", "share", &Value::Null).await, 404, "not_found");
    let listed = admin(&server, "GET", "", &Value::Null).await;
    assert_eq!(listed["experiments"].as_array().expect("a list").len(), 1);
    drop(server);

    let server = kept_in(folder.path(), "");
    assert_eq!(arm(&server.post(CHAT, &one_token(route)).await), "other/margin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_had_is_refused_by_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = kept_in(folder.path(), "");
    let put = async |change: &dyn Fn(&mut Value)| {
        let mut body = definition("pair/entropy", json!("user"), 1000);
        change(&mut body);
        server.ask(None, "PUT", "/admin/experiments/share", &body.to_string()).await
    };
    let refused_for = async |param: &str, problem: &str, change: &dyn Fn(&mut Value)| {
        let reply = put(change).await;
        let message = refused(&reply, 400, "invalid_value");
        assert_eq!(reply.json()["error"]["param"], param, "{message}");
        assert!(message.contains(problem), "{message}");
    };
    let nothing = json!("builtin:nothing");
    refused_for("seed", "shorter than 16", &|body| body["seed"] = json!("short")).await;
    refused_for("route", "no route \"nowhere\"", &|body| body["route"] = json!("nowhere")).await;
    refused_for("route", "single model", &|body| body["route"] = json!("small")).await;
    refused_for("arms.margin", "builtin:margin", &|body| body["arms"][1]["policy"] = nothing.clone()).await;
    refused_for("arms.margin.policy", "builtin:NAME", &|body| body["arms"][1]["policy"] = json!("/a.wasm"))
        .await;
    refused_for("arms.margin.models", "no model \"huge\"", &|body| {
        body["arms"][1]["models"] = json!(["huge"]);
    })
    .await;
    refused_for("arms.margin", "speed", &|body| body["arms"][1]["settings"] = json!({"speed": 1})).await;
    refused_for("arms", "10001", &|body| body["arms"][1]["weight_bp"] = json!(1001)).await;
    refused_for("name", "not the one in the path", &|body| body["name"] = json!("other")).await;
    let shadow = |of: Value| json!([of]);
    let heads = json!({"name": "next", "weight_bp": 100, "policy": "builtin:r2r"});
    refused_for("shadows.next", "decides by signals", &|body| body["shadows"] = shadow(heads.clone())).await;
    let entry = json!({"name": "next", "weight_bp": 100, "models": ["large", "small"]});
    refused_for("shadows.next.models", "entry model", &|body| body["shadows"] = shadow(entry.clone())).await;
    assert_eq!(put(&|_| {}).await.status, 201);
    assert_eq!(put(&|_| {}).await.status, 200, "the same words again change nothing");
    refused(&put(&|body| body["seed"] = json!("another seed of sixteen")).await, 409, "conflict");
    let weights = json!({"weights_bp": {"margin": 10_001}});
    let reply = server.ask(None, "POST", "/admin/experiments/share/weights", &weights.to_string()).await;
    refused(&reply, 400, "invalid_value");
    let reply = server.ask(None, "POST", "/admin/experiments/share/explode", "{}").await;
    refused(&reply, 404, "unknown_url");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_data_directory_the_files_experiments_run_and_others_are_refused() {
    let table = format!(
        "[experiments.share]\nroute = \"pair/entropy\"\nseed = \"{SEED}\"\narms = [\n\
         {{ name = \"control\", weight_bp = 0 }},\n{{ name = \"margin\", weight_bp = 10000, policy = \"builtin:margin\" }}]"
    );
    let (admin_key, key) = (line(2, ", scope = \"admin\""), key(2));
    let (server, _) = server_of(&format!(
        "{table}\n[tenants.acme]\nkeys = [{}]\n[tenants.operators]\nkeys = [{admin_key}]",
        line(1, "")
    ));
    let reply = server.post_as(&key, CHAT, &one_token("pair/entropy")).await;
    assert_eq!(arm(&reply), "share/margin");
    let put = definition("pair/random", json!("user"), 1000);
    let reply = server.ask(Some(&key), "PUT", "/admin/experiments/other", &put.to_string()).await;
    assert!(refused(&reply, 409, "no_data_dir").contains("--data-dir"));
    let reply = server.ask(Some(&key), "PUT", "/admin/experiments/share", &put.to_string()).await;
    refused(&reply, 409, "no_data_dir");
    let reply = server.post_as(&key, "/admin/experiments/share/rollback", &json!({"reason": "enough"})).await;
    assert_eq!((&reply.json()["state"], &reply.json()["source"]), (&json!("rolled back"), &json!("config")));
    // For a tenant's key none of this exists.
    let tenant = super::http_keys::key(1);
    let reply = server.ask(Some(&tenant), "GET", "/admin/experiments", "").await;
    refused(&reply, 404, "unknown_url");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_begins_changes_and_ends_its_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = |weight: u16, sticky: &str| {
        format!(
            "[experiments.share]\nroute = \"pair/entropy\"\nseed = \"{SEED}\"\nsticky = \"{sticky}\"\narms = [\n\
             {{ name = \"control\", weight_bp = {} }},\n{{ name = \"margin\", weight_bp = {weight}, policy = \"builtin:margin\" }}]",
            10_000 - weight
        )
    };
    let stands = async |server: &Server| {
        let shown = admin(server, "GET", "/share", &Value::Null).await;
        (
            shown["state"].as_str().expect("a state").to_owned(),
            shown["arms"][1]["weight_bp"].as_u64().expect("a weight"),
        )
    };
    let server = kept_in(folder.path(), &table(1000, "user"));
    assert_eq!(stands(&server).await, ("running".to_owned(), 1000));
    admin(&server, "POST", "/share/weights", &json!({"weights_bp": {"margin": 2000}})).await;
    drop(server);
    let server = kept_in(folder.path(), &table(1000, "user"));
    assert_eq!(stands(&server).await.1, 2000, "the API's word stays until the table changes");
    drop(server);
    let server = kept_in(folder.path(), &table(3000, "user"));
    assert_eq!(stands(&server).await.1, 3000);
    admin(&server, "POST", "/share/promote", &json!({"arm": "margin", "reason": "better"})).await;
    drop(server);
    let server = kept_in(folder.path(), &table(3000, "user"));
    assert_eq!(stands(&server).await.0, "promoted");
    drop(server);
    let server = kept_in(folder.path(), &table(500, "tenant"));
    assert_eq!(
        stands(&server).await,
        ("running".to_owned(), 500),
        "after its end another table begins it anew"
    );
    drop(server);
    let server = kept_in(folder.path(), "");
    let shown = admin(&server, "GET", "/share", &Value::Null).await;
    assert_eq!(shown["state"], "rolled back");
    assert!(shown["reason"].as_str().expect("a reason").contains("taken out"));
}

#[test]
fn the_example_is_a_configuration() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/configs/experiment.toml");
    let config = Config::read(&file).unwrap_or_else(|error| panic!("{error}"));
    let margin = &config.experiments["margin"];
    assert_eq!((margin.arms.len(), margin.guardrails.len()), (2, 2));
    assert_eq!(config.models["large"].price_per_token, 6.0);
}
