//! Changes under load: fifty streams run while weights change, an arm is promoted and a guardrail rolls back. Nothing is
//! lost, every stream ends, and each is of one arm and one revision from its first to its last token.

use std::collections::{BTreeMap, BTreeSet};

use e2e::{Events, Server};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::experiments::{admin, definition, kept_in, traps_late};
use super::questions::question;

const STREAMS: usize = 50;

/// A stream that has begun: its first chunk is there, so it has its place, its arm and its revision.
async fn begin(server: &Server, ix: usize) -> (Events, String) {
    let body = json!({
        "model": "pair/entropy",
        "messages": [{"role": "user", "content": question(ix % 8)}],
        "temperature": 0,
        "max_tokens": 120,
        "user": format!("user-{ix}"),
        "route_trace": true,
    });
    let mut events = server.stream("/v1/chat/completions", &body).await;
    assert_eq!(events.status, 200);
    let first = events.next().await.expect("a chunk");
    (events, first)
}

/// A stream to its end: its arm and the revision of its policy.
async fn end((mut events, first): (Events, String)) -> (String, String) {
    let header = events.headers.get("x-tokenrouter-arm").map(|arm| arm.to_str().expect("ASCII").to_owned());
    let mut chunks = vec![serde_json::from_str(&first).expect("JSON")];
    chunks.extend(events.chunks().await);
    let text = |chunk: &Value, key: &str| chunk["route_trace"][key].as_str().unwrap_or_default().to_owned();
    let seen: BTreeSet<_> = chunks
        .iter()
        .map(|chunk| (text(chunk, "experiment"), text(chunk, "arm"), text(chunk, "revision")))
        .collect();
    let [(experiment, arm, revision)] = &Vec::from_iter(seen)[..] else { panic!("one arm and one revision") };
    assert_eq!(
        header.unwrap_or_default(),
        if arm.is_empty() { String::new() } else { format!("{experiment}/{arm}") }
    );
    let last = chunks.last().expect("chunks");
    assert!(last["choices"][0]["finish_reason"].is_string(), "{last}");
    (arm.clone(), revision.clone())
}

/// Fifty streams that have begun before the change, some that begin while it is made, and some after it; what served them,
/// by arm.
async fn through(server: &Server, change: impl Future<Output = ()>) -> BTreeMap<String, BTreeSet<String>> {
    let before = join_all((0..STREAMS).map(|ix| begin(server, ix))).await;
    let whole =
        |from: usize, to: usize| join_all((from..to).map(async |ix| end(begin(server, ix).await).await));
    let after = async {
        change.await;
        whole(STREAMS / 2, STREAMS).await
    };
    let (before, during, after) =
        tokio::join!(join_all(before.into_iter().map(end)), whole(0, STREAMS / 2), after);
    let mut by_arm: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (arm, revision) in before.into_iter().chain(during).chain(after) {
        by_arm.entry(arm).or_default().insert(revision);
    }
    by_arm
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_keep_their_arm_through_weights_promotion_and_a_return() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = kept_in(folder.path(), "");
    admin(&server, "PUT", "/share", &definition("pair/entropy", json!("user"), 1000)).await;
    let post = async |path: &str, body: Value| {
        admin(&server, "POST", path, &body).await;
    };
    let weights = json!({"weights_bp": {"margin": 7000}});
    let served = through(&server, post("/share/weights", weights)).await;
    assert!(served.keys().eq(["control", "margin"]), "{served:?}");
    let served = through(&server, post("/share/pause", json!({"reason": "look"}))).await;
    assert!(served.keys().eq(["control", "margin"]), "{served:?}");
    let served = through(&server, post("/share/promote", json!({"arm": "margin", "reason": "better"}))).await;
    assert!(served.keys().eq(["control", "margin"]), "{served:?}");
    let served = through(&server, post("/share/rollback", json!({"reason": "regret"}))).await;
    // All that were served by the promoted arm have ended by it.
    assert!(served.keys().all(|arm| ["", "margin"].contains(&arm.as_str())), "{served:?}");
    assert!(served.values().all(|revisions| revisions.len() == 1), "{served:?}");
    let shown = admin(&server, "GET", "/share", &Value::Null).await;
    assert!(shown["arms"].as_array().expect("arms").iter().all(|arm| arm["errors"] == 0.0), "{shown:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_well_while_a_guardrail_rolls_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = traps_late(folder.path(), 7000, 0.2);
    let server = kept_in(&folder.path().join("state"), &table);
    let mut arms = BTreeSet::new();
    for _ in 0..20 {
        let served = join_all((0..STREAMS).map(async |ix| end(begin(&server, ix).await).await)).await;
        arms.extend(served.into_iter().map(|(arm, _)| arm));
        if arms.contains("") {
            break;
        }
    }
    // None has an arm any more: it happened while streams ran, and every one of them ended well.
    assert!(arms.contains("traps") && arms.contains(""), "{arms:?}");
    let shown = admin(&server, "GET", "/new", &Value::Null).await;
    assert!(
        shown["reason"].as_str().expect("a reason").starts_with("guardrail: mean fallbacks"),
        "{shown:#}"
    );
}
