//! An answer as its client sees it.
//!
//! A [`Report`] turns what the runtime says into [`Piece`]s: what one token adds to a choice of the answer. A [`stream`]
//! sends each piece as a chunk; a [`whole`] answer is the sum of the same pieces, so both always tell the same.

mod choice;
mod echo;
mod logprobs;
mod object;
mod piece;
pub(super) mod stream;
mod told;
mod trace;
mod usage;
pub(super) mod whole;

use std::sync::Arc;

use journey::Vocabulary;
use policy::Settings;
use serde_json::Value;

use super::calls::Calls;
use super::constrain::Reading;
use super::parse::{Dialect, Shape};
use super::prepare::Shown;
use crate::experiments::Assigned;
use crate::runtime::{Answer, Event, Route};
use crate::unix;
use choice::Choice;
use object::Head;
use piece::Piece;
pub(super) use told::Told;
use trace::Trace;
use usage::Usage;

/// Everything that is needed to tell a client about one answer.
pub(super) struct Report {
    head: Head,
    shape: Shape,
    route: Arc<Route>,
    vocabulary: Arc<Vocabulary>,
    usage: Usage,
    choices: Vec<Choice>,
}

/// What follows from news of a choice.
#[derive(Debug)]
enum News {
    /// It goes on, with this more.
    More(Piece),
    /// It is over, with this at its end.
    Ended(Piece),
    /// It cannot be continued.
    Failed(String),
}

impl Report {
    /// A report about an answer that has just begun, as its client named the model, under this number.
    pub(super) fn new(
        dialect: Dialect,
        shape: Shape,
        (model, id): (String, u64),
        answers: &[Answer],
    ) -> Self {
        let answer = answers.first().expect("a request wants at least one answer");
        let revision = answer.revision.as_ref().map(|revision| revision.digest().to_string());
        let policy = answer.revision.as_ref().map(|revision| revision.descriptor().name.clone());
        let rules = answer.revision.as_ref().zip(answer.settings.as_ref());
        let rules = rules.map(|(revision, settings)| revision.descriptor().rules(settings));
        let trace = Trace {
            route: answer.route.name.clone(),
            policy,
            revision: revision.clone(),
            settings: answer.settings.as_ref().map(settings),
            guards: rules.map(|rules| rules.guards).unwrap_or_default(),
            arm: None,
            seed: 0,
            fell_back: None,
        };
        let choice = |_| Choice::new(dialect, shape, shape.route_trace.then(|| trace.clone()));
        Self {
            head: Head { dialect, id, created: unix::now_s(), model, fingerprint: revision },
            shape,
            route: Arc::clone(&answer.route),
            vocabulary: answer.route.tokenizer.vocabulary(),
            usage: Usage::new(answer.route.models.len()),
            choices: answers.iter().map(choice).collect(),
        }
    }

    /// How calls of tools are read, if there may be some.
    pub(super) fn with_calls(mut self, reading: Option<Reading>) -> Self {
        for (ix, choice) in (0..).zip(&mut self.choices) {
            choice.calls = reading.map(|reading| Calls::new(reading, self.head.id.wrapping_add(ix)));
        }
        self
    }

    /// What the prompts are; each is continued by as many choices.
    pub(super) fn with_prompts(mut self, prompts: &[Shown]) -> Self {
        self.usage.prompt = prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        let each = self.choices.len() / prompts.len().max(1);
        for (choices, prompt) in self.choices.chunks_mut(each.max(1)).zip(prompts) {
            choices.iter_mut().for_each(|choice| choice.continues(self.shape, prompt));
        }
        self
    }

    /// The keys of the choices' randomness, with which they can be made again.
    pub(super) fn with_seeds(mut self, seeds: impl Iterator<Item = u64>) -> Self {
        for (choice, seed) in self.choices.iter_mut().zip(seeds) {
            if let Some(trace) = &mut choice.trace {
                trace.seed = seed;
            }
        }
        self
    }

    /// The arm that serves it, if there is an experiment on its route.
    pub(super) fn with_arm(mut self, assigned: Option<&Assigned>) -> Self {
        let Some(assigned) = assigned else { return self };
        for trace in self.choices.iter_mut().filter_map(|choice| choice.trace.as_mut()) {
            trace.arm = Some((assigned.split.name().to_owned(), assigned.arm_name().to_owned()));
        }
        self
    }

    /// How the answer is shown.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// What is known of a choice before anything is heard of it.
    fn begun(&mut self, index: usize) -> Piece {
        self.choices[index].unscored(&self.vocabulary)
    }

    /// What follows from an event of a choice.
    fn hear(&mut self, index: usize, event: Event) -> News {
        let choice = &mut self.choices[index];
        match event {
            Event::Scored(scores) => News::More(choice.scored(&scores, &self.vocabulary)),
            Event::Made(made) => {
                self.usage.count(made.by);
                News::More(choice.made(&made, self.shape, &self.route, &self.vocabulary))
            }
            Event::FellBack { fault } => {
                // The trace says so from now on.
                if let Some(trace) = &mut choice.trace {
                    trace.fell_back = Some(fault);
                }
                News::More(Piece::default())
            }
            Event::Finished(reason) => News::Ended(choice.finished(reason)),
            Event::Failed { message } => News::Failed(message),
        }
    }

    fn usage(&self) -> Value {
        self.usage.object(&self.route.model_names)
    }

    /// One line per answer in the log; nothing of its text. Of several choices the first's reason stands for all.
    fn log_end(&self, failed: bool) {
        let reason = self.choices.first().and_then(|choice| choice.reason).filter(|_| !failed);
        let reason = reason.map_or("failed", object::reason);
        let (prompt_tokens, completion_tokens) = (self.usage.prompt, self.usage.completion());
        tracing::info!(prompt_tokens, completion_tokens, choices = self.choices.len(), reason, "answered");
    }
}

#[cfg(test)]
mod tests;

fn settings(settings: &Settings) -> Value {
    settings
        .iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
