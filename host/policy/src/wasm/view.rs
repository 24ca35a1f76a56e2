//! What `view` shows a guest: whatever a call is about that takes more room than a number.
//!
//! It is filled in before the call and copied to the guest only where the guest asks, so a list that nobody looks at
//! costs nothing, and neither does one that is empty.

use std::sync::Arc;

use journey::Candidate;

use super::bindings::tokenrouter::policy::types::{self, Sights};
use super::bindings::tokenrouter::policy::view;
use super::convert;
use super::state::State;
use crate::session::ModelInfo;

/// What there is to be seen. It belongs to one session and is reused from call to call.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) models: Arc<[ModelInfo]>,
    pub(super) prompt: String,
    pub(super) candidates: Vec<Candidate>,
    pub(super) scores: Vec<f32>,
    pub(super) tail: String,
    pub(super) answers: Vec<types::Answer>,
    pub(super) tokens: Vec<u32>,
    pub(super) logprobs: Vec<f32>,
    pub(super) text: String,
}

impl Shown {
    /// Everything but the models is of one call; allocations are kept.
    pub(super) fn forget(&mut self) {
        let Self { models: _, prompt, candidates, scores, tail, answers, tokens, logprobs, text } = self;
        [prompt, tail, text].into_iter().for_each(String::clear);
        [scores, logprobs].into_iter().for_each(Vec::clear);
        candidates.clear();
        answers.clear();
        tokens.clear();
    }

    /// What of it is worth asking for.
    pub(super) fn sights(&self) -> Sights {
        let there = [
            (Sights::PROMPT, !self.prompt.is_empty()),
            (Sights::CANDIDATES, !self.candidates.is_empty()),
            (Sights::SCORES, !self.scores.is_empty()),
            (Sights::TAIL, !self.tail.is_empty()),
            (Sights::ANSWERS, !self.answers.is_empty()),
        ];
        there.into_iter().filter(|(_, is)| *is).fold(Sights::empty(), |sights, (sight, _)| sights | sight)
    }
}

impl view::Host for State {
    fn models(&mut self) -> wasmtime::Result<Vec<types::ModelInfo>> {
        Ok(self.asker.shown.models.iter().map(convert::model).collect())
    }

    fn prompt(&mut self) -> wasmtime::Result<String> {
        Ok(self.asker.shown.prompt.clone())
    }

    fn candidates(&mut self) -> wasmtime::Result<types::Candidates> {
        Ok(convert::candidates(&self.asker.shown.candidates))
    }

    fn scores(&mut self) -> wasmtime::Result<Vec<f32>> {
        Ok(self.asker.shown.scores.clone())
    }

    fn tail(&mut self) -> wasmtime::Result<String> {
        Ok(self.asker.shown.tail.clone())
    }

    fn answers(&mut self) -> wasmtime::Result<Vec<types::Answer>> {
        Ok(self.asker.shown.answers.clone())
    }

    fn tokens(&mut self) -> wasmtime::Result<Vec<u32>> {
        Ok(self.asker.shown.tokens.clone())
    }

    fn logprobs(&mut self) -> wasmtime::Result<Vec<f32>> {
        Ok(self.asker.shown.logprobs.clone())
    }

    fn text(&mut self) -> wasmtime::Result<String> {
        Ok(self.asker.shown.text.clone())
    }
}
