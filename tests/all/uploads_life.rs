//! Uploaded policies over time: replaced and deleted under load, kept over restarts, broken and whole again with the route
//! that they are like.

use std::collections::BTreeSet;
use std::path::Path;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokenrouter::config::Config;
use tokenrouter::control::ReloadError;

use e2e::Server;

use super::questions::{self, chat};
use super::uploads::{LIKE_PAIR, component, created, hex, keeping, marked, revision, short, written};

/// One stream to its end: the revision of its trace, and its text.
async fn stream(server: &Server, ix: usize) -> (String, String) {
    let mut body = chat("own/mine", ix % 4, 0.0);
    body["route_trace"] = json!(true);
    body["max_tokens"] = json!(120);
    let mut events = server.stream("/v1/chat/completions", &body).await;
    assert_eq!(events.status, 200);
    let chunks = events.chunks().await;
    let text = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    let traces: Vec<&Value> =
        chunks.iter().map(|chunk| &chunk["route_trace"]).filter(|trace| !trace.is_null()).collect();
    let revisions: BTreeSet<&str> = traces.iter().filter_map(|trace| trace["revision"].as_str()).collect();
    assert_eq!(revisions.len(), 1, "{traces:?}");
    assert!(traces.iter().all(|trace| trace["fell_back"].is_null()), "{traces:?}");
    (revisions.into_iter().map(str::to_owned).collect(), text)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_and_deleted_while_50_streams_run_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(folder.path(), "");
    // Two that decide differently, so that a mixture of them would show in the text.
    let (one, two) = (component("pinned"), component("margin"));
    created(&server.upload(None, "mine", one, LIKE_PAIR).await);
    let alone = join_all((0..4).map(|ix| stream(&server, ix))).await;
    let running = join_all((0..50).map(|ix| stream(&server, ix)));
    let change = async {
        created(&server.upload(None, "mine", two, LIKE_PAIR).await);
        let after = stream(&server, 0).await;
        assert_eq!(server.ask(None, "DELETE", "/v1/policies/mine", "").await.status, 200);
        after
    };
    let (ended, after) = tokio::join!(running, change);
    assert_eq!(ended.len(), 50);
    for (ix, (revision, text)) in ended.iter().enumerate() {
        if *revision == short(one) {
            assert_eq!(*text, alone[ix % 4].1, "stream {ix}");
        }
        assert!(!text.is_empty());
    }
    assert_eq!(after.0, short(two));
    let reply = server.post("/v1/chat/completions", &chat("own/mine", 0, 0.0)).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_everything_and_what_does_not_load_stops_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (component("pinned"), marked(component("margin"), 7));
    let before = {
        let server = keeping(folder.path(), "");
        created(&server.upload(None, "a", one, "route = \"pair\"\n[settings]\nrole = 1\n").await);
        created(&server.upload(None, "a", &two, LIKE_PAIR).await);
        created(&server.upload(None, "b", &two, LIKE_PAIR).await);
        assert_eq!(server.post("/v1/policies/a/rollback", &json!({})).await.status, 200);
        server.get("/v1/policies").await.json()
    };
    {
        let server = keeping(folder.path(), "");
        assert_eq!(server.get("/v1/policies").await.json(), before);
        assert_eq!(revision(&server, "own/a").await, short(one));
        assert_eq!(revision(&server, "own/b").await, short(&two));
        let metrics = server.get("/metrics").await.text;
        assert!(metrics.contains("tokenrouter_policy_compilations_total"), "{metrics}");
    }
    // The bytes of one are damaged on the disk, and its machine code is gone.
    std::fs::write(folder.path().join("state/blobs").join(hex(&two)), b"rubbish").expect("written");
    std::fs::remove_dir_all(folder.path().join("state/compiled")).expect("removed");
    let server = keeping(folder.path(), "");
    let policies = server.get("/v1/policies").await.json();
    assert_eq!(policies["data"][0].get("broken"), None, "{policies}");
    let why = policies["data"][1]["broken"].as_str().expect("it is broken");
    assert!(why.contains("damaged"), "{why}");
    assert_eq!(revision(&server, "own/a").await, short(one));
    let reply = server.post("/v1/chat/completions", &chat("own/b", 0, 0.0)).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (400, &json!("policy_broken")),
        "{}",
        reply.text
    );
    assert_eq!(server.get("/admin/audit/verify").await.status, 500, "and the verification says so");
    // The same bytes again make it whole.
    assert_eq!(server.upload(None, "b", &two, LIKE_PAIR).await.status, 200);
    assert_eq!(revision(&server, "own/b").await, short(&two));
    assert_eq!(server.get("/admin/audit/verify").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_own_policy_follows_the_route_that_it_is_like() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = keeping(folder.path(), "");
    let manifest = "route = \"pair\"\n[settings]\nrole = 1\n";
    created(&server.upload(None, "mine", component("pinned"), manifest).await);
    let whole = written(folder.path(), "");
    let change = async |text: String| {
        let mut next = Config::parse(&text, Path::new("")).expect("valid");
        next.uploads.program = Some(e2e::binary());
        let made = server
            .control()
            .alone(move |control| -> Result<_, ReloadError> { control.put_in_force(&next, &mut ()) });
        made.await.expect("it is taken over");
    };
    let broken = async || server.get("/v1/policies/mine").await.json()["broken"].clone();
    let answers_as = async |model: &str| {
        let own = questions::traced(&server, "own/mine", 1).await;
        assert_eq!(own["choices"], questions::traced(&server, model, 1).await["choices"]);
    };
    assert_eq!(broken().await, Value::Null);
    // Turned round: role 1 is the small model now.
    change(whole.replace("[\"small\", \"large\"]", "[\"large\", \"small\"]")).await;
    answers_as("small").await;
    // Its route goes, and comes back.
    change(whole.replace("[routes.pair]", "[routes.other]")).await;
    let why = broken().await;
    assert!(why.as_str().expect("broken").contains("there is no route \"pair\" any more"), "{why}");
    let reply = server.post("/v1/chat/completions", &chat("own/mine", 0, 0.0)).await;
    assert_eq!(reply.json()["error"]["code"], "policy_broken", "{}", reply.text);
    change(whole.clone()).await;
    assert_eq!(broken().await, Value::Null);
    answers_as("large").await;
    // Other limits: it is loaded again to run under them.
    change(written(folder.path(), "[sandbox]\nmemory_mib = 32\n")).await;
    assert_eq!(broken().await, Value::Null);
    answers_as("large").await;
    created(&server.upload(None, "other", component("margin"), LIKE_PAIR).await);
    assert_eq!(revision(&server, "own/other").await, short(component("margin")));
}
