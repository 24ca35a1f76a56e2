//! What a client asked for, in the terms of the journey: already tokenised, checked and bounded.

use std::sync::Arc;

use crate::adjust::Adjustments;
use crate::grammar::Grammar;
use crate::ids::Role;
use crate::text::{Encode, Vocabulary};
use crate::watch::{Guard, Signal, Trigger};

/// How tokens are chosen from a distribution.
///
/// The temperature comes first; then min-p, then top-k, then top-p of what these left. Both min-p and top-k keep the
/// head of the list of tokens by probability, so their order is of no matter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Softmax temperature; 0 means greedy.
    pub temperature: f32,
    /// Keep the smallest set of most probable tokens whose probabilities reach this sum, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Keep this many of the most probable tokens; 0 keeps all.
    pub top_k: u32,
    /// Keep tokens with at least this share of the highest probability, in [0, 1]; 0 keeps all.
    pub min_p: f32,
}

impl Sampling {
    /// Always the most probable token.
    pub const GREEDY: Self = Self { temperature: 0.0, top_p: 1.0, top_k: 0, min_p: 0.0 };
}

/// Who decides where a journey goes.
#[derive(Clone, Debug)]
pub enum Routing {
    /// One model makes the whole answer.
    Single,
    /// A policy is asked.
    Policy(Arc<Rules>),
}

/// What a policy has declared, with the values of its parameters put in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// When `route` is asked about a role's tokens; a role without any is asked about at each.
    pub guards: Vec<Guard>,
    /// Whether tokens of a visit wait for the policy's `receive` instead of being committed as they come.
    pub holds_visits: bool,
    /// Whether the distributions of held tokens and of visits are kept.
    pub distributions: bool,
    /// By role: which of the scores that the model's engine gives the policy sees, in its order. Roles beyond the list
    /// have none, and their heads are not run.
    pub scores: Vec<Vec<usize>>,
    /// A signal of a role whose values at every token are kept, in [`Journey::take_observed`](crate::Journey::take_observed).
    pub observe: Option<(Role, Signal)>,
    /// Whether tokens of the entry model at which the route is open are kept, in
    /// [`Journey::take_considered`](crate::Journey::take_considered).
    pub considered: bool,
    /// Bytes of the answer's end that a step shows.
    pub tail: usize,
    /// Committed tokens that the client does not see until others follow.
    pub holdback: usize,
}

impl Rules {
    /// The scores of a role that the policy sees.
    #[must_use]
    pub fn scores_of(&self, role: Role) -> &[usize] {
        self.scores.get(role.index()).map_or(&[], Vec::as_slice)
    }

    /// The guards of a role, with their indices.
    pub fn guards_of(&self, role: Role) -> impl Iterator<Item = (u32, &Trigger)> {
        let of_role = (0u32..).zip(&self.guards).filter(move |(_, guard)| guard.role == role);
        of_role.map(|(index, guard)| (index, &guard.fires))
    }
}

/// Where an answer ends, beside its longest length.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// Tokens that end the answer: they are its last, and their text is not part of it.
    pub tokens: Arc<[u32]>,
    /// The answer ends before the first of these; empty strings are not allowed.
    pub strings: Vec<String>,
    /// Until the answer has this many tokens, none of `tokens` is chosen.
    pub tokens_min: usize,
}

/// Everything that is fixed when a journey begins.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt's tokens; never empty.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What changes logits before.
    pub adjustments: Adjustments,
    /// Key of all randomness of this journey.
    pub seed: u64,
    /// Where the answer ends.
    pub ends: Ends,
    /// What the answer must look like, if it must.
    pub grammar: Option<Arc<dyn Grammar>>,
    /// Most tokens to generate. 0 only feeds the prompt, and scores it if that is asked for.
    pub max_tokens: usize,
    /// Most tokens, prompt included, that every model of the route can hold.
    pub context: usize,
    /// Whether to tell the log-probabilities of the prompt's tokens, by
    /// [`Journey::take_scored`](crate::Journey::take_scored).
    pub score_prompt: bool,
    /// Bytes of each token.
    pub vocabulary: Arc<Vocabulary>,
    /// How many candidates the policy or the client wants to see per step.
    pub candidates: usize,
    /// Models in the route; roles are `0..roles`.
    pub roles: usize,
    /// Who decides.
    pub routing: Routing,
    /// Makes tokens of the texts that a policy gives.
    pub encoder: Arc<dyn Encode>,
}

impl Request {
    /// What the policy has declared, if there is one.
    #[must_use]
    pub fn rules(&self) -> Option<&Rules> {
        match &self.routing {
            Routing::Single => None,
            Routing::Policy(rules) => Some(rules),
        }
    }
}
