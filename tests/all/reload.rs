//! A policy file replaced under load: new answers follow the new revision, running ones keep theirs, and a bad file
//! changes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use policy::Digest;
use tokenrouter::bench::reload::{self as bench, Plan};
use tokenrouter::config::Config;
use tokenrouter::runtime::{Ask, Event, Runtime, builtin_policies};

pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

fn component(name: &str) -> &'static [u8] {
    builtin_policies().into_iter().find(|(known, _)| *known == name).expect("built in").1
}

/// As editors and deployments do it: the new content appears under the old name at once.
fn put(folder: &Path, content: &[u8]) {
    let new = folder.join("policy.wasm.new");
    fs::write(&new, content).expect("writable");
    fs::rename(new, folder.join("policy.wasm")).expect("renamed");
}

/// A runtime whose route `mine` serves the component `policy.wasm` in `folder`.
pub(crate) fn start(folder: &Path) -> Runtime {
    let text = r#"
        [models.small]
        files = "embedded:small"
        [models.large]
        files = "embedded:large"
        [routes.mine]
        models = ["small", "large"]
        policy = "policy.wasm"
    "#;
    let config = Config::parse(text, folder).expect("valid");
    Runtime::start(&config, &mut ()).expect("starts")
}

/// One answer: the revision it kept, and the roles that made its tokens.
pub(crate) async fn answer(runtime: &Runtime) -> (Digest, BTreeSet<u16>) {
    let selected = runtime.catalog().select("mine").expect("configured");
    let problem = &tinypair::problems::held_out(tinypair::problems::Mix::DEFAULT, 5, 1)[0];
    let content = problem.question.clone();
    let prompt =
        selected.route.tokenizer.encode_chat(&[engine::ChatMessage { role: "user".to_owned(), content }]);
    let ask = Ask { seed: 1, max_tokens: Some(100), ..Ask::greedy(prompt.expect("a user message")) };
    let mut answer = runtime.submit(&selected, ask).expect("accepted");
    let mut roles = BTreeSet::new();
    while let Some(event) = answer.events.recv().await {
        match event {
            Event::Made(made) => {
                roles.insert(made.by.0);
            }
            Event::Finished(_) => return (answer.revision.expect("routed").digest(), roles),
            other => panic!("a stream was disturbed: {other:?}"),
        }
    }
    panic!("a stream ended without a last word");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_policy_serves_within_two_seconds_and_drops_no_stream() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), component("random-share"));
    let runtime = start(folder.path());
    let old = answer(&runtime).await.0;
    put(folder.path(), component("pinned"));
    let replaced = Instant::now();
    let mut seen = BTreeSet::new();
    // The load itself is the wait: streams run all the time, each under one revision.
    loop {
        let answers = futures_util::future::join_all((0..4).map(|_| answer(&runtime))).await;
        for (revision, roles) in &answers {
            // `pinned` as it comes keeps everything at the entry model.
            assert!(*revision == old || roles.len() == 1, "an answer mixed two revisions");
            seen.insert(revision.to_string());
        }
        if answers.iter().all(|(revision, _)| *revision != old) {
            break;
        }
        assert!(replaced.elapsed() < PATIENCE, "the new policy does not serve");
    }
    assert_eq!(seen.len(), 2, "answers before and after the change");
    runtime.shut_down(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_policy_file_keeps_the_old_revision_serving() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), component("random-share"));
    let runtime = start(folder.path());
    let old = answer(&runtime).await.0;
    put(folder.path(), b"this is not a component");
    let route = runtime.catalog().select("mine").expect("configured").route;
    let file = route.policy_file().expect("a watched file");
    let status = tokio::task::block_in_place(|| file.wait(PATIENCE, |status| status.failed.is_some()));
    let failed = status.failed.expect("the bad file was noticed");
    assert!(failed.error.to_string().contains("not"), "{}", failed.error);
    assert_eq!(answer(&runtime).await.0, old);
    put(folder.path(), component("pinned"));
    let status = tokio::task::block_in_place(|| file.wait(PATIENCE, |status| status.serving != old));
    assert_ne!(status.serving, old, "a good file serves after a bad one");
    assert_ne!(answer(&runtime).await.0, old);
    runtime.shut_down(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saves_under_load_lose_no_answer_and_the_last_one_serves() {
    let apart = Duration::from_millis(700);
    let plan = Plan { config: Config::embedded(), clients: 3, saves: 4, apart, tokens: 16 };
    let report = bench::run(&plan, |_| {}).await.expect("it runs");
    assert!(report.failed.is_empty() && report.answers > 0, "{report:?}");
    // A machine that is busy may skip one that was replaced before it was loaded.
    assert!(report.served >= 3, "{report:?}");
    assert!(report.until_served_s.iter().all(|after| *after < PATIENCE.as_secs_f64()), "{report:?}");
    assert!(report.last_serves, "{report:?}");
}
