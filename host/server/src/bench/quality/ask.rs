//! Problems as requests: asked through the runtime, many at once, and marked.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{Plan, Progress, Question};
use crate::runtime::{Ask, Event, NoSuchRoute, Runtime, Selected, SubmitError};
use engine::{ChatMessage, EngineError};
use futures_util::stream::{self, StreamExt, TryStreamExt};

/// Why the benchmark cannot run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A route that is to be measured is not there.
    #[error(
        "the configuration has no route {route:?}, which is measured; add it, or name another prefix with --routes"
    )]
    NoRoute {
        /// Its name.
        route: String,
    },
    /// A model whose share is to be told is not there.
    #[error("the configuration has no model {model:?}; name one of its models with --each")]
    NoModel {
        /// Its name.
        model: String,
    },
    /// The comparison is between two models.
    #[error("the route {route:?} has {models} models; the comparison needs 2")]
    NotAPair {
        /// Its name.
        route: String,
        /// How many models it has.
        models: usize,
    },
    /// A route's name and setting cannot be read.
    #[error("measuring {name}")]
    Select {
        /// What was selected.
        name: String,
        /// Why.
        source: NoSuchRoute,
    },
    /// A problem cannot be written in the models' tokens.
    #[error("asking a problem")]
    Prompt {
        /// Why.
        source: EngineError,
    },
    /// A request was not accepted.
    #[error("asking a problem of {name}")]
    Submit {
        /// The route.
        name: String,
        /// Why.
        source: SubmitError,
    },
    /// An answer that does not count: it broke off, or its policy failed.
    #[error("an answer of {name} failed: {problem}")]
    Answer {
        /// The route.
        name: String,
        /// What happened.
        problem: String,
    },
}

/// One answered problem.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) solved: bool,
    /// Tokens by the entry model, and by the others.
    pub(super) tokens: [usize; 2],
    /// Entropy at every token, in nats, under the model that made it.
    pub(super) entropies: Vec<f32>,
}

/// All problems answered in one way.
pub(super) struct Answers {
    /// In the order of the problems.
    pub(super) each: Vec<Answered>,
    /// Wall time from the first request to the last answer.
    pub(super) seconds: f64,
}

impl Answers {
    pub(super) fn accuracy(&self) -> f64 {
        let solved = self.each.iter().filter(|answer| answer.solved).count();
        solved as f64 / self.each.len().max(1) as f64
    }

    /// Share of all tokens that the entry model did not make.
    pub(super) fn large_share(&self) -> f64 {
        let large: usize = self.each.iter().map(|answer| answer.tokens[1]).sum();
        large as f64 / self.tokens().max(1) as f64
    }

    pub(super) fn tokens_per_s(&self) -> f64 {
        self.tokens() as f64 / self.seconds.max(f64::EPSILON)
    }

    fn tokens(&self) -> usize {
        self.each.iter().flat_map(|answer| answer.tokens).sum()
    }
}

/// Asks all problems, again and again, in different ways.
pub(super) struct Asker<'a> {
    runtime: &'a Runtime,
    plan: &'a Plan,
    progress: &'a mut dyn Progress,
}

impl<'a> Asker<'a> {
    pub(super) fn new(runtime: &'a Runtime, plan: &'a Plan, progress: &'a mut dyn Progress) -> Self {
        Self { runtime, plan, progress }
    }

    /// Asks all problems of a model or a route with settings.
    pub(super) async fn ask(&mut self, name: &str) -> Result<Answers, BenchError> {
        self.progress.begin(name);
        let selected = self
            .runtime
            .catalog()
            .select(name)
            .map_err(|source| BenchError::Select { name: name.to_owned(), source })?;
        let (runtime, seed) = (self.runtime, self.plan.seed);
        let begun = Instant::now();
        let asked = self.plan.questions.iter().enumerate().map(|(ix, question)| {
            // Each problem has numbers of its own, the same in every run.
            let answer = answer(runtime, &selected, question, (seed << 32) | ix as u64);
            async move { answer.await.map(|answered| (ix, answered)) }
        });
        // In any order, so that a long answer does not keep others waiting; sorted afterwards.
        let mut answers = stream::iter(asked).buffer_unordered(self.plan.concurrency);
        let mut each = BTreeMap::new();
        while let Some((ix, answered)) = answers.try_next().await? {
            self.progress.answered();
            each.insert(ix, answered);
        }
        let each = each.into_values().collect();
        Ok(Answers { each, seconds: begun.elapsed().as_secs_f64() })
    }
}

/// Names of the two models of a prefix's routes, which must all be there.
pub(super) fn pair(runtime: &Runtime, prefix: &str) -> Result<[String; 2], BenchError> {
    let mut pair = None;
    for policy in ["entropy", "margin", "random"] {
        let name = format!("{prefix}/{policy}");
        let catalog = runtime.catalog();
        let Some(route) = catalog.routes.get(&name) else {
            return Err(BenchError::NoRoute { route: name });
        };
        let Ok(models) = <[String; 2]>::try_from(route.model_names.clone()) else {
            return Err(BenchError::NotAPair { route: name, models: route.models.len() });
        };
        pair.get_or_insert(models);
    }
    pair.ok_or_else(|| BenchError::NoRoute { route: prefix.to_owned() })
}

async fn answer(
    runtime: &Runtime,
    selected: &Selected,
    question: &Question,
    seed: u64,
) -> Result<Answered, BenchError> {
    let route = &selected.route;
    let name = || route.name.clone();
    let failed = |problem: String| BenchError::Answer { name: name(), problem };
    let message = ChatMessage { role: "user".to_owned(), content: question.text().to_owned() };
    let prompt = route.tokenizer.encode_chat(&[message]).map_err(|source| BenchError::Prompt { source })?;
    let max_tokens = ANSWER_TOKENS_MAX.min(route.context.saturating_sub(prompt.len()).max(1));
    let ask = Ask { seed, max_tokens: Some(max_tokens), ..Ask::greedy(prompt) };
    let submitted = runtime.submit(selected, ask);
    let mut events = submitted.map_err(|source| BenchError::Submit { name: name(), source })?.events;
    let mut text = String::new();
    let mut answered = Answered { solved: false, tokens: [0, 0], entropies: Vec::new() };
    while let Some(event) = events.recv().await {
        match event {
            Event::Made(made) => {
                text += &made.text;
                answered.tokens[made.by.index().min(1)] += 1;
                answered.entropies.push(made.sampled.signals.entropy);
            }
            Event::Finished(_) => {
                answered.solved = question.is_solved_by(&text);
                return Ok(answered);
            }
            Event::Scored(_) => {}
            Event::FellBack { fault } => return Err(failed(fault)),
            Event::Failed { message } => return Err(failed(message)),
        }
    }
    Err(failed("the model stopped".to_owned()))
}

/// The longest written answer has about half as many.
const ANSWER_TOKENS_MAX: usize = 256;
