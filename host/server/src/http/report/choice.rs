//! One choice of an answer: what it says of its tokens, and of the prompt before them.

use journey::{FinishReason, Made, Sampled, Vocabulary};
use serde_json::Value;

use super::echo::texts;
use super::logprobs::Logprobs;
use super::trace::Trace;
use super::{Piece, object};
use crate::http::calls::Calls;
use crate::http::parse::{Dialect, Shape};
use crate::http::prepare::Shown;
use crate::runtime::Route;

/// What is kept of a choice while it is made.
pub(super) struct Choice {
    pub(super) logprobs: Option<Logprobs>,
    pub(super) trace: Option<Trace>,
    /// Tells calls of tools from text, if there may be some.
    pub(super) calls: Option<Calls>,
    /// Sent with its first object, if the client wants ids.
    pub(super) prompt_ids: Option<Vec<u32>>,
    /// The prompt, until it is shown.
    echo: Option<Shown>,
    /// Why it ended, once it has.
    pub(super) reason: Option<FinishReason>,
}

impl Choice {
    pub(super) fn new(dialect: Dialect, shape: Shape, trace: Option<Trace>) -> Self {
        let logprobs = shape.logprobs.map(|top| Logprobs::new(dialect, top));
        Self { logprobs, trace, calls: None, prompt_ids: None, echo: None, reason: None }
    }

    /// The prompt that it continues.
    pub(super) fn continues(&mut self, shape: Shape, prompt: &Shown) {
        self.prompt_ids = shape.token_ids.then(|| prompt.tokens.clone());
        self.echo = shape.echo.then(|| prompt.clone());
    }

    /// The prompt as the beginning of the answer, where it is not scored: then it waits for its scores.
    pub(super) fn unscored(&mut self, vocabulary: &Vocabulary) -> Piece {
        match &self.logprobs {
            None => self.scored(&[], vocabulary),
            Some(_) => Piece::default(),
        }
    }

    /// The prompt as the beginning of the answer, if that is wanted.
    pub(super) fn scored(&mut self, scores: &[Sampled], vocabulary: &Vocabulary) -> Piece {
        let Some(prompt) = self.echo.take() else { return Piece::default() };
        let texts = texts(&prompt, vocabulary);
        let text = texts.concat();
        let logprobs = self.logprobs.as_mut();
        let logprobs = logprobs.map(|logprobs| logprobs.prompt(&prompt.tokens, (texts, scores), vocabulary));
        Piece { text, logprobs: logprobs.unwrap_or_default(), ..Piece::default() }
    }

    /// What a committed token adds.
    pub(super) fn made(
        &mut self,
        made: &Made,
        shape: Shape,
        route: &Route,
        vocabulary: &Vocabulary,
    ) -> Piece {
        let logprobs = self.logprobs.as_mut().map(|logprobs| logprobs.made(made, vocabulary));
        let said = self.calls.as_mut().map(|calls| calls.push(made.sampled.token, &made.text));
        Piece {
            text: if said.is_some() { String::new() } else { made.text.clone() },
            said: said.unwrap_or_default(),
            token_ids: if shape.token_ids { vec![made.sampled.token] } else { Vec::new() },
            logprobs: logprobs.unwrap_or_default(),
            trace: self.trace.iter().map(|trace| trace.token(made, route, vocabulary)).collect(),
        }
    }

    /// What its end adds: log-probabilities, and text, that waited for more text.
    pub(super) fn finished(&mut self, reason: FinishReason) -> Piece {
        self.reason = Some(reason);
        let logprobs = self.logprobs.as_mut().map(Logprobs::finish).unwrap_or_default();
        let said = self.calls.as_mut().map(Calls::finish).unwrap_or_default();
        Piece { logprobs, said, ..Piece::default() }
    }

    /// Why it ended, as clients are told.
    pub(super) fn told_reason(&self) -> Option<&'static str> {
        let called = self.calls.as_ref().is_some_and(Calls::any);
        self.reason.map(|reason| match reason {
            FinishReason::Stop if called => "tool_calls",
            reason => object::reason(reason),
        })
    }

    /// Its trace, with the tokens of a piece.
    pub(super) fn traced(&self, tokens: Vec<Value>) -> Option<Value> {
        self.trace.as_ref().map(|trace| trace.object(tokens))
    }
}
