//! Every built-in policy on the whole runtime: over copies of one model it changes nothing, and what promises to be
//! lossless over different models is.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use tokenrouter::bench::quality;
use tokenrouter::config::Config;
use tokenrouter::runtime::{Ask, Runtime, builtin_policies};

use super::self_pair::{SAMPLED, answer, questions};

/// Policies whose answer is their models' own where all are copies of one, however tokens are chosen; each with settings
/// that make it act.
pub(crate) const MOVERS: [(&str, &str); 20] = [
    ("entropy", "threshold = 0.05, tokens = 2"),
    ("margin", "threshold = 0.9, tokens = 3"),
    ("pinned", "role = 1"),
    ("random-share", "share = 0.5"),
    ("r2r", "threshold = 0.51, tokens = 2"),
    ("citer", "tau = 0.51, tokens = 1"),
    ("co-llm", "threshold = 0.51"),
    ("r-stitch", "threshold = 0.01"),
    ("glimpse", "threshold = 0.0, tokens = 8"),
    ("mixture", "weight1 = 2.0"),
    ("query-level", "threshold = 0.0"),
    ("speculative", "tokens = 3"),
    ("speculative", "tokens = 4, exact = 1"),
    ("typical", "tokens = 3"),
    ("big-little", "fallback = 0.9, tokens = 5"),
    ("spec-reason", "tokens = 12"),
    ("reward-guided", "threshold = 0.4, tokens = 12"),
    ("relay", ""),
    ("ensemble", "threshold = 0.0"),
    ("pinned", "role = 0"),
];

/// The same, as long as nothing is drawn by lot: drafts and mixtures round differently, or have randomness of their own.
pub(crate) const GREEDY_MOVERS: [(&str, &str); 6] = [
    ("ensemble", "threshold = 1.0"),
    ("co-llm", "threshold = 0.51, compose = 1"),
    ("contrastive", "beta = 0.5"),
    ("proxy-tuning", "strength = 1.0"),
    ("cascade", "threshold = -20.0"),
    ("cascade", "threshold = 0.0"),
];

/// A head whose score grows with the entropy, in a folder of the test's own.
fn head(folder: &Path) {
    let graph = r#"
weights = "w.safetensors"
scores = ["score"]
[[nodes]]
name = "row"
op = "linear"
from = "entropy"
weight = "w"
[[nodes]]
name = "score"
op = "sigmoid"
from = "row"
"#;
    fs::write(folder.join("head.toml"), graph).expect("the folder is ours");
    let header = r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&1.0f32.to_le_bytes());
    fs::write(folder.join("w.safetensors"), file).expect("the folder is ours");
}

/// Three models, and a route for each policy, by number.
pub(crate) fn config(models: [&str; 3], routes: &[(&str, &str)]) -> (Config, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    head(folder.path());
    let mut text = String::new();
    let heads =
        "{ r2r = \"head.toml\", citer = \"head.toml\", co-llm = \"head.toml\", reward = \"head.toml\" }";
    for (name, files) in ["a", "b", "c"].iter().zip(models) {
        writeln!(text, "[models.{name}]\nfiles = \"embedded:{files}\"\nheads = {heads}").expect("text");
    }
    for (ix, (policy, settings)) in routes.iter().enumerate() {
        let models = match *policy {
            "proxy-tuning" => r#"["a", "b", "c"]"#,
            "best-of-n" => r#"["a"]"#,
            _ => r#"["a", "b"]"#,
        };
        writeln!(
            text,
            "[routes.\"{ix}\"]\nmodels = {models}\npolicy = \"builtin:{policy}\"\nsettings = {{ {settings} }}"
        )
        .expect("text");
    }
    (Config::parse(&text, folder.path()).expect("valid"), folder)
}

async fn compare(routes: &[(&str, &str)], how: &Ask) {
    let (config, _folder) = config(["small"; 3], routes);
    let runtime = Runtime::start(&config, &mut ()).expect("the twins load");
    let mut roles: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); routes.len()];
    for (seed, question) in (0u64..).zip(questions(3)) {
        let how = Ask { seed, max_tokens: Some(80), ..how.clone() };
        let alone = answer(&runtime, "a", &question, &how).await;
        assert!(alone.ids.len() > 10, "an answer worth comparing");
        let names: Vec<String> = (0..routes.len()).map(|ix| ix.to_string()).collect();
        let together = join_all(names.iter().map(|name| answer(&runtime, name, &question, &how))).await;
        for (ix, routed) in together.iter().enumerate() {
            assert_eq!(
                routed.ids, alone.ids,
                "{:?} differs from one model alone on {question:?}",
                routes[ix]
            );
            assert_eq!(routed.text, alone.text);
            roles[ix].extend(&routed.roles);
        }
    }
    for ((policy, settings), roles) in routes.iter().zip(roles) {
        let stays = ["relay", "pinned", "ensemble", "co-llm", "contrastive", "proxy-tuning", "cascade"];
        assert!(stays.contains(policy) || roles.contains(&1), "{policy} {settings} never left: {roles:?}");
    }
    runtime.shut_down(Duration::from_secs(5)).await;
}

#[test]
fn every_policy_is_compared() {
    let compared: BTreeSet<&str> = MOVERS.iter().chain(&GREEDY_MOVERS).map(|(policy, _)| *policy).collect();
    let all = builtin_policies().into_iter().map(|(name, _)| name);
    // It takes the best of several answers, so that it is not any single one's.
    let left: Vec<&str> = all.filter(|name| !compared.contains(name) && *name != "best-of-n").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greedy_answers_do_not_depend_on_the_policy() {
    let how = Ask::greedy(Vec::new());
    compare(&MOVERS, &how).await;
    compare(&GREEDY_MOVERS, &how).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampled_answers_do_not_depend_on_policies_that_only_move_tokens() {
    compare(&MOVERS, &Ask { sampling: SAMPLED, ..Ask::greedy(Vec::new()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verified_drafts_of_a_small_model_give_the_large_ones_answer() {
    let routes = [("speculative", "tokens = 4"), ("speculative", "tokens = 3, exact = 1")];
    let (config, _folder) = config(["large", "small", "small"], &routes);
    let runtime = Runtime::start(&config, &mut ()).expect("the pair loads");
    let how = Ask { max_tokens: Some(60), ..Ask::greedy(Vec::new()) };
    let questions = questions(PROMPTS);
    let mut drafted = 0;
    for chunk in questions.chunks(8) {
        let alone = join_all(chunk.iter().map(|question| answer(&runtime, "a", question, &how))).await;
        for route in ["0", "1"] {
            let routed = join_all(chunk.iter().map(|question| answer(&runtime, route, question, &how))).await;
            for (routed, alone) in routed.iter().zip(&alone) {
                assert_eq!(routed.ids, alone.ids, "route {route}");
                drafted += usize::from(routed.roles.contains(&1));
            }
        }
    }
    assert!(drafted > PROMPTS, "drafts were taken in {drafted} of {} answers", 2 * PROMPTS);
    runtime.shut_down(Duration::from_secs(5)).await;
}

/// A policy that chooses the first model leaves the other alone: it never reads the prompt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_read_by_the_model_that_answers_and_by_no_other() {
    let routes = [("query-level", "threshold = 0.0"), ("query-level", "threshold = 1.0")];
    let (config, _folder) = config(["small", "large", "large"], &routes);
    let runtime = Runtime::start(&config, &mut ()).expect("the pair loads");
    let how = Ask { max_tokens: Some(60), ..Ask::greedy(Vec::new()) };
    let question = &questions(1)[0];
    let alone = answer(&runtime, "c", question, &how).await;
    let hard = answer(&runtime, "0", question, &how).await;
    assert_eq!(
        (&hard.ids, &hard.roles),
        (&alone.ids, &BTreeSet::from([1])),
        "the large model answers all of it"
    );
    let page = runtime.metrics_page();
    let steps = |model: &str| {
        let line = format!("tokenrouter_steps_total{{model=\"{model}\"}} ");
        page.lines().find_map(|found| found.strip_prefix(line.as_str())?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    assert!(steps("b") > 10.0, "{page}");
    assert_eq!(steps("a"), 0.0, "the small model has not decoded: {page}");
    let easy = answer(&runtime, "1", question, &how).await;
    assert_eq!(easy.roles, BTreeSet::from([0]));
    runtime.shut_down(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_of_several_answers_is_one_answer() {
    let (config, _folder) = config(["small", "large", "small"], &[("best-of-n", "samples = 4")]);
    let runtime = Runtime::start(&config, &mut ()).expect("the pair loads");
    let how = Ask { max_tokens: Some(60), ..Ask::greedy(Vec::new()) };
    for question in questions(2) {
        let best = answer(&runtime, "0", &question, &how).await;
        assert!(!best.text.is_empty(), "{question:?}");
        let again = answer(&runtime, "0", &question, &how).await;
        assert_eq!(best.ids, again.ids, "drafts are a function of the seed");
    }
    runtime.shut_down(Duration::from_secs(5)).await;
}

/// The example configuration, and the benchmark over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_all_policies_is_served_and_measured() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/configs/policies.toml");
    let config = Config::read(&file).expect("the example is valid");
    let runtime = Runtime::start(&config, &mut ()).expect("it loads");
    let questions = quality::generated(3, 6);
    let plan = quality::Plan { questions, seed: 3, concurrency: 6, prefix: String::new(), quick: true };
    let each = quality::each(&runtime, &plan, "large", &mut Nobody).await.expect("the model is there");
    assert!(each.failed.is_empty(), "{:?}", each.failed);
    runtime.shut_down(Duration::from_secs(5)).await;
    let rows = each.json()["rows"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), config.models.len() + config.routes.len());
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).expect("measured").clone();
    assert_eq!((&of("small")["large_share"], &of("large")["large_share"]), (&0.0.into(), &1.0.into()));
    assert_eq!(of("speculative")["accuracy"], of("large")["accuracy"], "it is lossless");
    assert!(of("r2r")["large_share"].as_f64().expect("a share") < 0.1);
}

struct Nobody;

impl quality::Progress for Nobody {
    fn begin(&mut self, _name: &str) {}

    fn answered(&mut self) {}
}

const PROMPTS: usize = 200;
