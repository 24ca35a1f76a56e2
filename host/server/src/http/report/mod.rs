//! An answer as its client sees it.
//!
//! A [`Report`] turns what the runtime says into [`Piece`]s: what one token adds to the answer. A [`stream`] sends
//! each piece as a chunk; a [`whole`] answer is the sum of the same pieces, so both always tell the same.

mod logprobs;
mod object;
mod piece;
pub(super) mod stream;
mod trace;
mod usage;
pub(super) mod whole;

use std::sync::Arc;

use journey::{FinishReason, Made, Vocabulary};
use policy::Settings;
use serde_json::Value;

use super::parse::{Dialect, Shape};
use crate::experiments::Assigned;
use crate::runtime::{Answer, Route};
use crate::unix;
use logprobs::Logprobs;
use object::Head;
use piece::Piece;
use trace::Trace;
use usage::Usage;

/// Everything that is needed to tell a client about one answer.
pub(super) struct Report {
    head: Head,
    shape: Shape,
    route: Arc<Route>,
    vocabulary: Arc<Vocabulary>,
    usage: Usage,
    logprobs: Option<Logprobs>,
    trace: Option<Trace>,
    /// Sent once with the first object, if the client wants ids.
    prompt_ids: Option<Vec<u32>>,
}

impl Report {
    /// A report about an answer that has just begun, as its client named the model, under this number.
    pub(super) fn new(dialect: Dialect, shape: Shape, (model, id): (String, u64), answer: &Answer) -> Self {
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
        Self {
            head: Head { dialect, id, created: unix::now_s(), model, fingerprint: revision },
            shape,
            route: Arc::clone(&answer.route),
            vocabulary: answer.route.tokenizer.vocabulary(),
            usage: Usage::new(answer.route.models.len()),
            logprobs: shape.logprobs.map(|top| Logprobs::new(dialect, top)),
            trace: shape.route_trace.then_some(trace),
            prompt_ids: None,
        }
    }

    /// What the prompt is: its length, and its ids if the client wants them.
    pub(super) fn with_prompt(mut self, tokens: usize, ids: Option<Vec<u32>>) -> Self {
        self.usage.prompt = tokens;
        self.prompt_ids = ids;
        self
    }

    /// The key of the answer's randomness, with which it can be made again.
    pub(super) fn with_seed(mut self, seed: u64) -> Self {
        if let Some(trace) = &mut self.trace {
            trace.seed = seed;
        }
        self
    }

    /// The arm that serves it, if there is an experiment on its route.
    pub(super) fn with_arm(mut self, assigned: Option<&Assigned>) -> Self {
        if let Some((trace, assigned)) = self.trace.as_mut().zip(assigned) {
            trace.arm = Some((assigned.split.name().to_owned(), assigned.arm_name().to_owned()));
        }
        self
    }

    /// How the answer is shown.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// What a committed token adds.
    fn made(&mut self, made: &Made) -> Piece {
        self.usage.count(made.by);
        let logprobs = self.logprobs.as_mut().map(|logprobs| logprobs.made(made, &self.vocabulary));
        Piece {
            text: made.text.clone(),
            token_ids: if self.shape.token_ids { vec![made.sampled.token] } else { Vec::new() },
            logprobs: logprobs.unwrap_or_default(),
            trace: self.trace.iter().map(|trace| trace.token(made, &self.route, &self.vocabulary)).collect(),
        }
    }

    /// What the end adds: log-probabilities that waited for text.
    fn finished(&mut self) -> Piece {
        let logprobs = self.logprobs.as_mut().map(Logprobs::finish).unwrap_or_default();
        Piece { logprobs, ..Piece::default() }
    }

    /// The policy failed; the trace says so from now on.
    fn fell_back(&mut self, fault: String) {
        if let Some(trace) = &mut self.trace {
            trace.fell_back = Some(fault);
        }
    }

    fn usage(&self) -> Value {
        self.usage.object(&self.route.model_names)
    }

    /// One line per answer in the log; nothing of its text.
    fn log_end(&self, reason: Option<FinishReason>) {
        let reason = reason.map_or("failed", object::reason);
        let (prompt_tokens, completion_tokens) = (self.usage.prompt, self.usage.completion());
        tracing::info!(prompt_tokens, completion_tokens, reason, "answered");
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
