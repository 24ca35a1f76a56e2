//! What a client asked for, in the terms of the journey: already tokenised, checked and bounded.

use std::sync::Arc;

use crate::text::Vocabulary;

/// How tokens are chosen from a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Softmax temperature; 0 means greedy.
    pub temperature: f32,
    /// Keep the smallest set of most probable tokens whose probabilities reach this sum, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the most probable tokens; 0 keeps all.
    pub top_k: u32,
}

impl Sampling {
    /// Always the most probable token.
    pub const GREEDY: Self = Self { temperature: 0.0, top_p: 1.0, top_k: 0 };
}

/// Who decides where a journey goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One model makes the whole answer.
    Single,
    /// A policy is asked. `holds_visits`: tokens of a bounded visit wait for its `receive` instead of being
    /// committed as they come.
    Policy {
        /// Whether the policy declared that it wants to judge what a visit brought.
        holds_visits: bool,
    },
}

/// Everything that is fixed when a journey begins.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt's tokens; never empty.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Key of all randomness of this journey.
    pub seed: u64,
    /// The answer ends before the first of these; empty strings are not allowed.
    pub stop: Vec<String>,
    /// Most tokens to generate, at least 1.
    pub max_tokens: usize,
    /// Most tokens, prompt included, that every model of the route can hold.
    pub context: usize,
    /// Tokens that end the answer.
    pub eos: Arc<[u32]>,
    /// Bytes of each token.
    pub vocabulary: Arc<Vocabulary>,
    /// How many candidates the policy or the client wants to see per step.
    pub candidates: usize,
    /// Models in the route; roles are `0..roles`.
    pub roles: usize,
    /// Who decides.
    pub routing: Routing,
}
