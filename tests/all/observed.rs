//! What is measured, and the dashboard and the alerts that show it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use e2e::Server;
use tokenrouter::config::EMBEDDED;

use super::questions::chat;

const EXPERIMENT: &str = "[experiments.one]\nroute = \"pair/entropy\"\nseed = \"a seed that nobody knows\"\n\
    arms = [{ name = \"control\", weight_bp = 9000 }, { name = \"margin\", weight_bp = 1000, policy = \"builtin:margin\" }]";

/// Every family of the page, with its kind.
fn families(page: &str) -> BTreeMap<String, String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| line.split_once(' ').expect("a name and a kind"))
        .map(|(name, kind)| (name.into(), kind.into()))
        .collect()
}

/// The metrics that a file of `examples/deploy` names.
fn named(file: &str, families: &BTreeMap<String, String>) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/deploy").join(file);
    let text = fs::read_to_string(path).expect("a file");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let family = |word: &str| {
        let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| word.strip_suffix(part));
        let histogram =
            parts.into_iter().find(|name| families.get(*name).is_some_and(|kind| kind == "histogram"));
        histogram.unwrap_or(word).to_owned()
    };
    words.filter(|word| word.starts_with("tokenrouter_")).map(family).collect()
}

#[tokio::test]
async fn the_dashboard_shows_every_metric_and_the_alerts_name_none_that_is_not_there() {
    let server = Server::start(&format!("{EMBEDDED}\n{EXPERIMENT}"));
    let families = families(&server.get("/metrics").await.text);
    assert!(families.len() > 40, "{families:?}");
    let (shown, watched) = (named("grafana.json", &families), named("alerts.yml", &families));
    assert_eq!(shown, families.keys().cloned().collect(), "left: the dashboard; right: /metrics");
    assert!(watched.len() > 8);
    assert!(watched.is_subset(&shown), "not there: {:?}", watched.difference(&shown));
}

#[tokio::test]
async fn an_answer_is_counted_in_tokens_and_times() {
    let server = Server::start(EMBEDDED);
    let mut body = chat("pair/entropy", 0, 0.0);
    body["max_tokens"] = 9.into();
    let usage = server.post("/v1/chat/completions", &body).await.json()["usage"].clone();
    let page = server.get("/metrics").await.text;
    let value = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("tokenrouter_{name} ")));
        line.unwrap_or_else(|| panic!("{name} in {page}")).parse::<f64>().expect("a number")
    };
    assert_eq!(value("prompt_tokens_total"), usage["prompt_tokens"].as_f64().expect("a count"));
    let tokens = usage["completion_tokens"].as_f64().expect("a count");
    assert_eq!(value("time_to_first_token_seconds_count"), 1.0);
    assert_eq!(value("inter_token_latency_seconds_count"), tokens - 1.0);
    assert_eq!(value("e2e_request_latency_seconds_count"), 1.0);
    let (first, gaps) = (value("time_to_first_token_seconds_sum"), value("inter_token_latency_seconds_sum"));
    let whole = value("e2e_request_latency_seconds_sum");
    // Each of the three is cut to whole microseconds.
    assert!(first > 0.0 && first + gaps <= whole + 1e-3, "{first} {gaps} {whole}");
    assert!(value("step_seconds_total{model=\"small\"}") > 0.0);
    let usage = value("kv_cache_usage_perc{model=\"small\"}");
    assert!((0.0..=1.0).contains(&usage), "{usage}");
}
