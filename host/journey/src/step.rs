//! What one decoding step gives, per journey.
//!
//! The engine fills [`Sampled`]; the journey adds where it happened and shows it to the policy as [`Step`].

use std::sync::Arc;

use crate::adjust::Adjust;
use crate::distribution::Distribution;
use crate::ids::Role;
use crate::question::Answer;
use crate::request::Sampling;

/// How the engine is to choose the token that follows a position, and what it is to tell beside it.
///
/// Cheap to copy: whatever is long is borrowed from the journey.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// Temperature and truncation of the distribution.
    pub sampling: Sampling,
    /// The uniform number in [0, 1) that picks the token; unused by greedy sampling.
    pub uniform: f64,
    /// What changes the logits first; `None` costs nothing.
    pub adjust: Option<Adjust<'a>>,
    /// How many of the most probable tokens to report in [`Sampled::candidates`].
    pub candidates: usize,
    /// Tokens whose log-probabilities to report in [`Sampled::logprobs`].
    pub logprobs_of: &'a [u32],
    /// Whether to keep the whole distribution, in [`Sampled::kept`].
    pub keep: bool,
    /// Whether to run the engine's heads, for [`Sampled::scores`].
    pub scores: bool,
}

impl Draw<'_> {
    /// A draw at one uniform number that asks for nothing beside the token.
    #[must_use]
    pub const fn new(sampling: Sampling, uniform: f64) -> Self {
        Self { sampling, uniform, adjust: None, candidates: 0, logprobs_of: &[], keep: false, scores: false }
    }

    /// The most probable token and nothing beside it.
    pub const GREEDY: Self = Self::new(Sampling::GREEDY, 0.0);
}

/// Scalars of the next-token distribution at temperature 1, before any truncation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Shannon entropy over the full vocabulary, in nats.
    pub entropy: f32,
    /// Probability of the most probable token.
    pub top1: f32,
    /// Probability of the most probable token less that of the second.
    pub margin: f32,
}

/// One of the most probable tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: u32,
    /// Its logit as the model gave it.
    pub logit: f32,
    /// Its probability at temperature 1.
    pub prob: f32,
}

/// A token that was sampled and is not yet part of any sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: u32,
    /// Its log-probability by the model's own logits at temperature 1, in nats, whatever adjusted them for the choice.
    pub logprob: f32,
    /// Scalars of the distribution it came from.
    pub signals: Signals,
    /// The most probable tokens, best first; as many as were asked for.
    pub candidates: Vec<Candidate>,
    /// Log-probabilities of the tokens of [`Draw::logprobs_of`], of the same kind as `logprob`.
    pub logprobs: Vec<f32>,
    /// The distribution by the model's own logits, if [`Draw::keep`] asked for it. It is let go with the `Sampled`: when
    /// the token is dropped or becomes part of the answer.
    pub kept: Option<Arc<Distribution>>,
    /// What the engine's heads say of the token, if [`Draw::scores`] asked for it: one number for each score of each
    /// head, in the order in which the heads were attached and name them. All finite.
    pub scores: Vec<f32>,
}

/// One decoded position as the policy sees it. The token is *held*: it is not in the sequence yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The index that the token would take among the tokens generated so far (0 = first of the answer).
    pub index: u32,
    /// How many tokens this model committed since the journey last came to it.
    pub run: u32,
    /// The model that sampled it.
    pub role: Role,
    /// Whether the token ends the answer.
    pub at_eos: bool,
    /// The first of the policy's guards that fired, by index.
    pub fired: Option<u32>,
    /// The token and its signals.
    pub sampled: Sampled,
    /// The end of the answer's text before the token, as long as the policy asked for.
    pub tail: String,
    /// To the question that `route` asked about this very step.
    pub answers: Vec<Answer>,
}
