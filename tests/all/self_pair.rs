//! The strongest oracle on the whole runtime: between two copies of the same weights, any routing gives the ids of
//! one model alone, greedy and sampled, with penalties and biases, alone and in company.

use std::collections::BTreeSet;

use journey::{Adjustments, Sampling};
use tokenrouter::config::Config;
use tokenrouter::runtime::{Ask, Event, Runtime};

/// `a` and `b` are the same model. `every` hands off at every token: nothing has an entropy below 0.
pub(crate) const TWINS: &str = r#"
[models.a]
files = "embedded:small"
rows_max = 5
tokens_max = 48
[models.b]
files = "embedded:small"
[routes.every]
models = ["a", "b"]
policy = "builtin:entropy"
settings = { threshold = 0.0, tokens = 1 }
[routes.stretches]
models = ["a", "b"]
policy = "builtin:entropy"
settings = { threshold = 0.02, tokens = 0 }
[routes.random]
models = ["a", "b"]
policy = "builtin:random-share"
settings = { share = 0.5 }
[routes.visits]
models = ["b", "a"]
policy = "builtin:margin"
settings = { threshold = 0.999, tokens = 5 }
"#;

pub(crate) const SAMPLED: Sampling = Sampling { temperature: 1.0, top_p: 0.95, top_k: 40, min_p: 0.0 };

pub(crate) struct Made {
    pub(crate) ids: Vec<u32>,
    pub(crate) text: String,
    pub(crate) roles: BTreeSet<u16>,
}

pub(crate) async fn answer(runtime: &Runtime, route: &str, question: &str, how: &Ask) -> Made {
    let selected = runtime.catalog().select(route).expect("configured");
    let message = engine::ChatMessage { role: "user".to_owned(), content: question.to_owned() };
    let read = |tokenizer: &engine::Tokenizer| tokenizer.encode_chat(std::slice::from_ref(&message));
    let prompt = read(&selected.route.tokenizer).expect("the template accepts a user message");
    let prompts = selected.route.prompts(read).expect("so do those of models with other tokens");
    let ask = Ask { prompt, prompts, ..how.clone() };
    let mut answer = runtime.submit(&selected, ask).expect("accepted");
    let mut made = Made { ids: Vec::new(), text: String::new(), roles: BTreeSet::new() };
    while let Some(event) = answer.events.recv().await {
        match event {
            Event::Made(token) => {
                made.ids.push(token.sampled.token);
                made.text += &token.text;
                made.roles.insert(token.by.0);
            }
            Event::Finished(_) => return made,
            other => panic!("{route}: {other:?}"),
        }
    }
    panic!("{route}: the stream ended without a last word");
}

pub(crate) fn questions(count: usize) -> Vec<String> {
    let mix = tinypair::problems::Mix::DEFAULT;
    tinypair::problems::held_out(mix, 77, count).into_iter().map(|problem| problem.question).collect()
}

/// `how` to answer, with an empty prompt.
async fn compare(how: &Ask) {
    compare_in(TWINS, how, 4).await;
}

async fn compare_in(config: &str, how: &Ask, count: usize) {
    let config = Config::parse(config, std::path::Path::new("")).expect("valid");
    let runtime = Runtime::start(&config, &mut ()).expect("the twins load");
    for (seed, question) in (0u64..).zip(questions(count)) {
        let how = Ask { seed, max_tokens: Some(120), ..how.clone() };
        let alone = answer(&runtime, "a", &question, &how).await;
        assert!(alone.ids.len() > 10, "an answer worth comparing");
        // All routes at once: batch mates must not matter either.
        let runs = ["every", "stretches", "random", "visits", "a", "b"];
        let together = runs.map(|route| answer(&runtime, route, &question, &how));
        let together = futures_util::future::join_all(together).await;
        for (route, routed) in runs.iter().zip(&together) {
            assert_eq!(routed.ids, alone.ids, "{route} differs from one model alone on {question:?}");
            assert_eq!(routed.text, alone.text);
        }
        assert_eq!(together[0].roles, BTreeSet::from([1]), "every token was handed off");
        assert_eq!(together[2].roles.len(), 2, "random routing used both models");
    }
    runtime.shut_down(std::time::Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greedy_answers_do_not_depend_on_hops() {
    compare(&Ask::greedy(Vec::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampled_answers_do_not_depend_on_hops() {
    compare(&Ask { sampling: SAMPLED, ..Ask::greedy(Vec::new()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn penalties_travel_with_the_journey() {
    let penalties =
        Adjustments { presence: 0.4, frequency: 0.2, repetition: 1.1, bias: vec![(9, 1.5), (40, -2.0)] };
    let how = Ask { adjustments: penalties, tokens_min: 30, ..Ask::greedy(Vec::new()) };
    compare(&how).await;
    compare(&Ask { sampling: Sampling { min_p: 0.02, ..SAMPLED }, ignore_eos: true, ..how }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_when_models_run() {
    for mode in ["step-sync", "model-sync", "eager-async", "paper-dtmc", "ours"] {
        let config = format!("{TWINS}[scheduler]\nmode = \"{mode}\"\n");
        compare_in(&config, &Ask { sampling: SAMPLED, ..Ask::greedy(Vec::new()) }, 2).await;
    }
}
