//! Tenants upload policies: they serve as `own/NAME`, are replaced, rolled back and deleted, and what cannot serve is
//! refused with the reason while others notice nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use e2e::{Reply, Server};
use policy::{Call, Digest};
use serde_json::{Value, json};
use tokenrouter::runtime::builtin_policies;

use super::guest::{Guest, TRAP};
use super::http_keys::{key, line};
use super::questions;

pub(crate) const PAIR: &str = "[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
    [routes.pair]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\nfallback = \"small\"\n";
pub(crate) const LIKE_PAIR: &str = "route = \"pair\"\n";

/// A server of the embedded pair that keeps what it is told in this folder.
pub(crate) fn keeping(folder: &Path, more: &str) -> Server {
    Server::start(&written(folder, more))
}

/// Its configuration.
pub(crate) fn written(folder: &Path, more: &str) -> String {
    let folder = folder.join("state").display().to_string();
    format!("[server]\ndata_dir = {folder:?}\n{PAIR}{more}")
}

/// A built-in policy's component, which nobody would tell from one that was uploaded.
pub(crate) fn component(name: &str) -> &'static [u8] {
    builtin_policies().into_iter().find(|(known, _)| *known == name).expect("built in").1
}

/// The same component under another digest: a custom section more.
pub(crate) fn marked(component: &[u8], number: u32) -> Vec<u8> {
    let section = [&[0, 9, 4][..], b"mark", &number.to_le_bytes()].concat();
    [component, &section].concat()
}

pub(crate) fn hex(component: &[u8]) -> String {
    format!("{:#}", Digest::of(component))
}

/// The digest as traces have it.
pub(crate) fn short(component: &[u8]) -> String {
    Digest::of(component).to_string()
}

#[track_caller]
pub(crate) fn created(reply: &Reply) -> Value {
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()
}

/// The error of a refusal: status, `param` and message.
fn refusal(reply: &Reply) -> (u16, String, String) {
    let error = &reply.json()["error"];
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (reply.status, text("param"), text("message"))
}

/// The revision that answered.
pub(crate) async fn revision(server: &Server, model: &str) -> String {
    let trace = questions::traced(server, model, 0).await;
    assert_eq!(trace["route_trace"]["fell_back"], Value::Null);
    trace["route_trace"]["revision"].as_str().expect("a revision").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_serves_is_replaced_rolled_back_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(
        folder.path(),
        "[routes.follows]\nmodels = [\"small\", \"large\"]\npolicy = \"uploaded:default/mine\"\n",
    );
    let (one, two) = (component("pinned"), component("margin"));
    let early = server.post("/v1/chat/completions", &questions::chat("follows", 0, 0.0)).await;
    assert_eq!(refusal(&early).0, 400, "{}", early.text);
    assert!(early.text.contains("has no policy"), "{}", early.text);

    let policy = created(&server.upload(None, "mine", one, "route = \"pair\"\n[settings]\nrole = 1\n").await);
    assert_eq!(policy["active"], hex(one));
    assert_eq!((&policy["model"], &policy["owner"]), (&json!("own/mine"), &json!("default")));
    assert_eq!(policy["settings"], json!({"role": 1.0}));
    assert_eq!(revision(&server, "own/mine").await, short(one));
    assert_eq!(revision(&server, "follows").await, short(one));
    let large = questions::traced(&server, "large", 1).await;
    let own = questions::traced(&server, "own/mine", 1).await;
    assert_eq!(own["choices"], large["choices"], "its settings are in force");
    let settings = questions::traced(&server, "own/mine@role=0", 1).await;
    assert_eq!(settings["choices"], questions::traced(&server, "small", 1).await["choices"]);

    let policy = created(&server.upload(None, "mine", two, LIKE_PAIR).await);
    let revisions = policy["revisions"].as_array().expect("a list");
    let listed: Vec<&str> = revisions.iter().map(|of| of["revision"].as_str().expect("a digest")).collect();
    assert_eq!(listed, [hex(two), hex(one)]);
    assert_eq!(revisions[0]["policy"], "margin");
    assert_eq!(revision(&server, "own/mine").await, short(two));
    assert_eq!(revision(&server, "follows").await, short(two));
    let models = server.get("/v1/models").await.json();
    let ids: Vec<&str> =
        models["data"].as_array().expect("a list").iter().filter_map(|of| of["id"].as_str()).collect();
    assert_eq!(ids, ["follows", "large", "pair", "small", "own/mine"]);
    assert_eq!(server.upload(None, "mine", two, LIKE_PAIR).await.status, 200, "the same again");

    rolled_back_and_deleted(&server, (one, two)).await;
}

/// The way back from the second revision of `mine`, forth again, and its end.
async fn rolled_back_and_deleted(server: &Server, (one, two): (&[u8], &[u8])) {
    let back = server.post("/v1/policies/mine/rollback", &json!({})).await.json();
    assert_eq!((&back["active"], &back["settings"]), (&json!(hex(one)), &json!({"role": 1.0})));
    assert_eq!(revision(server, "own/mine").await, short(one));
    assert_eq!(server.post("/v1/policies/mine/rollback", &json!({})).await.status, 409);
    let on = server.post("/v1/policies/mine/activate", &json!({"revision": hex(two)})).await.json();
    assert_eq!(on["active"], hex(two));
    assert_eq!(
        server.post("/v1/policies/mine/activate", &json!({"revision": hex(b"none")})).await.status,
        404
    );
    assert_eq!(revision(server, "own/mine").await, short(two));

    let actions = server.get("/admin/audit").await.json();
    let told: Vec<&str> = actions["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|of| of["action"].as_str())
        .collect();
    assert_eq!(told, ["start", "upload", "upload", "roll_back", "activate"]);
    assert_eq!(server.get("/admin/audit/verify").await.json()["revisions"], 2);
    assert_eq!(
        server.ask(None, "DELETE", "/v1/policies/mine", "").await.json(),
        json!({"name": "mine", "deleted": true})
    );
    assert_eq!(server.ask(None, "GET", "/v1/policies/mine", "").await.status, 404);
    let gone = server.post("/v1/chat/completions", &questions::chat("own/mine", 0, 0.0)).await;
    assert_eq!((gone.status, &gone.json()["error"]["code"]), (404, &json!("model_not_found")));
    assert_eq!(server.post("/v1/chat/completions", &questions::chat("follows", 0, 0.0)).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_serve_is_refused_with_the_reason_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = "[uploads]\nbytes_max = 400000\npolicies_max = 1\n";
    let server = keeping(folder.path(), limits);
    let good = component("pinned");
    let expect = async |name: &str, bytes: &[u8], manifest: &str, wanted: (u16, &str, &str)| {
        let (status, param, message) = refusal(&server.upload(None, name, bytes, manifest).await);
        assert_eq!((status, &*param), (wanted.0, wanted.1), "{message}");
        assert!(message.contains(wanted.2), "{message:?} has no {:?}", wanted.2);
    };
    let trap = Guest::good().always(Call::Route, TRAP).component();
    expect("x", b"#!/bin/sh", LIKE_PAIR, (400, "component", "not WebAssembly")).await;
    expect("x", &Guest::good().core(), LIKE_PAIR, (400, "component", "core WebAssembly module")).await;
    expect("x", &good[..good.len() / 2], LIKE_PAIR, (400, "component", "failed to parse")).await;
    expect("x", &trap, LIKE_PAIR, (400, "component", "trapped")).await;
    // It loads, and hands off for ever at one position.
    let flips = Guest::good().put("(export \"memory\") 4", "(export \"memory\") 256");
    expect("x", &flips.component(), LIKE_PAIR, (400, "component", "was tried and failed")).await;
    expect("x", &vec![0; 500_000], LIKE_PAIR, (413, "component", "uploads.bytes_max")).await;
    expect("x", good, "route = \"none\"", (400, "manifest", "there is no route \"none\"")).await;
    expect("x", good, "route = \"small\"", (400, "manifest", "there is no route \"small\"")).await;
    expect("x", good, "rout = \"pair\"", (400, "manifest", "unknown field `rout`")).await;
    expect(
        "x",
        good,
        "route = \"pair\"\n[settings]\nrule = 1",
        (400, "manifest", "there is no such parameter"),
    )
    .await;
    expect("x", good, "route = \"pair\"\n[settings]\nrole = 0.5", (400, "manifest", "role")).await;
    expect("x", component("proxy-tuning"), LIKE_PAIR, (400, "manifest", "for 3 to 3 models")).await;
    expect("X", good, LIKE_PAIR, (400, "name", "a policy's name")).await;
    let parts: [(&str, &[u8]); 2] = [("component", good), ("settings", b"")];
    let reply = server.put_form(None, "/v1/policies/x", &parts).await;
    assert_eq!(refusal(&reply).1, "settings", "{}", reply.text);
    let reply = server.put_form(None, "/v1/policies/x", &parts[..1]).await;
    assert_eq!(refusal(&reply).1, "manifest", "{}", reply.text);
    assert_eq!(server.get("/v1/policies").await.json()["data"], json!([]));
    assert_eq!(server.get("/admin/audit").await.json()["head"]["sequence"], 1, "its start alone");

    created(&server.upload(None, "x", good, LIKE_PAIR).await);
    expect("y", good, LIKE_PAIR, (409, "", "uploads.policies_max")).await;
    let bare = Server::start(PAIR);
    let reply = bare.upload(None, "x", good, LIKE_PAIR).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (409, &json!("no_data_dir")),
        "{}",
        reply.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_revisions_go_with_their_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(folder.path(), "[uploads]\nrevisions_max = 2\n");
    for number in 0..4 {
        created(&server.upload(None, "x", &marked(component("pinned"), number), LIKE_PAIR).await);
    }
    let policy = server.get("/v1/policies/x").await.json();
    assert_eq!(policy["revisions"].as_array().expect("a list").len(), 2);
    let blobs = std::fs::read_dir(folder.path().join("state/blobs")).expect("the folder").count();
    assert_eq!(blobs, 2);
    server.get("/admin/audit/verify").await.json()["head"]["sequence"].as_u64().expect("it verifies");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_listed_or_signed_components_are_taken_where_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("key");
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(e2e::binary()).args(arguments).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    let secret = secret.to_str().expect("UTF-8");
    let public = run(&["policy", "keygen", secret]);
    let (listed, signed) = (component("pinned"), component("margin"));
    let file = folder.path().join("margin.wasm");
    std::fs::write(&file, signed).expect("written");
    let signature = run(&["policy", "sign", file.to_str().expect("UTF-8"), "--key", secret]);
    let server =
        keeping(folder.path(), &format!("[uploads]\nallow = [\"{}\"]\nkeys = [\"{public}\"]\n", hex(listed)));
    created(&server.upload(None, "listed", listed, LIKE_PAIR).await);
    let reply = server.upload(None, "x", signed, LIKE_PAIR).await;
    assert_eq!((reply.status, &reply.json()["error"]["param"]), (403, &json!("component")), "{}", reply.text);
    let with = async |component: &[u8], signature: &str| {
        let parts: [(&str, &[u8]); 3] = [
            ("component", component),
            ("manifest", LIKE_PAIR.as_bytes()),
            ("signature", signature.as_bytes()),
        ];
        server.put_form(None, "/v1/policies/x", &parts).await
    };
    assert_eq!(with(&marked(signed, 1), &signature).await.status, 403);
    assert_eq!(with(signed, "00").await.status, 400);
    created(&with(signed, &signature).await);
}

/// Small to send and long to compile: functions with very many values alive at the same time.
fn bomb() -> Vec<u8> {
    let load = "(i32.load (i32.const 8)) (i32.load (i32.const 16)) ";
    let body =
        format!("(drop (block (result i32) {} {})) ", load.repeat(150_000), "(i32.xor) ".repeat(299_999));
    let calls = [Call::Describe, Call::Route, Call::Send, Call::Receive, Call::End];
    calls.into_iter().fold(Guest::good(), |guest, call| guest.always(call, &body)).component()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compile_bomb_costs_its_tenant_and_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let tenants =
        format!("[tenants.acme]\nkeys = [{}]\n[tenants.guest]\nkeys = [{}]\n", line(1, ""), line(2, ""));
    let server = keeping(folder.path(), &format!("[uploads]\ncompile_seconds = 4\n{tenants}"));
    let bomb = bomb();
    let begun = Instant::now();
    let explodes = async {
        // Whoever knocks below may have the turn first.
        let reply = loop {
            let reply = server.upload(Some(&key(1)), "bomb", &bomb, LIKE_PAIR).await;
            if reply.status != 429 {
                break reply;
            }
        };
        (refusal(&reply), begun.elapsed())
    };
    let meanwhile = async {
        // Until the bomb has the tenant's turn.
        let again = loop {
            let again = server.upload(Some(&key(1)), "other", b"no component", LIKE_PAIR).await;
            if again.status != 400 {
                break again;
            }
        };
        assert_eq!((again.status, again.header("retry-after")), (429, "5"), "{}", again.text);
        created(&server.upload(Some(&key(2)), "mine", component("pinned"), LIKE_PAIR).await);
        let reply =
            server.post_as(&key(2), "/v1/chat/completions", &questions::chat("own/mine", 0, 0.0)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        begun.elapsed()
    };
    let (((status, param, message), ended), served) = tokio::join!(explodes, meanwhile);
    assert_eq!((status, &*param), (400, "component"), "{message}");
    assert!(message.contains("longer than 4 s") || message.contains("bytes of memory"), "{message}");
    assert!(ended < Duration::from_secs(30), "{ended:?}");
    println!("the bomb was ended after {ended:.1?}, another tenant's upload served after {served:.1?}");
    assert_eq!(server.upload(Some(&key(1)), "other", component("pinned"), LIKE_PAIR).await.status, 201);
}
