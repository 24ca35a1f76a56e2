//! What a policy can ask models without anything of it staying: neither in the answer nor in any model's sequence.
//!
//! Values only. How a journey goes round the models with a question is in `journey/asking.rs`.

use crate::ids::Role;
use crate::step::Candidate;
use crate::watch::Condition;

/// A question to some models, asked in this order.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Whom; the model where the journey is may be among them.
    pub models: Vec<Role>,
    /// Text that follows the answer for this question only.
    pub side: String,
    /// Whether the held token, or the tokens of the offer, stand before the side text.
    pub with_held: bool,
    /// What.
    pub ask: Ask,
}

/// What a model is asked about the position after the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Its so many most probable tokens.
    Candidates(usize),
    /// How it would have judged each of the last so many tokens of the answer. No side text.
    Last(usize),
    /// Log-probabilities of these tokens.
    Tokens(Vec<u32>),
    /// The same of the first token of each of these texts.
    Texts(Vec<String>),
    /// Continuations.
    Drafts(DraftRequest),
    /// What its heads say.
    Scores,
}

/// Continuations that are not kept unless one is adopted.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftRequest {
    /// Most tokens of each; at least 1.
    pub tokens: u32,
    /// What else ends one.
    pub until: Vec<Condition>,
    /// How many, each with randomness of its own; at least 1.
    pub samples: u32,
    /// Temperature instead of the request's.
    pub temperature: Option<f32>,
}

/// One model's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The model.
    pub role: Role,
    /// What it said.
    pub found: Found,
}

/// What a model said, by [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Best first.
    Candidates(Vec<Candidate>),
    /// In the order of the answer.
    Last(Vec<Judgement>),
    /// At temperature 1, in nats, in the order of the question.
    Logprobs(Vec<f32>),
    /// In the order in which they were made.
    Drafts(Vec<Draft>),
    /// By head.
    Scores(Vec<f32>),
    /// Models cannot hold the answer so far and the question.
    Nothing,
}

/// A model's view of a token that is in the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The token.
    pub token: u32,
    /// Its log-probability at temperature 1, in nats.
    pub logprob: f32,
    /// Entropy of the distribution at its position, in nats.
    pub entropy: f32,
    /// Probability of the most probable token there.
    pub top1: f32,
    /// The most probable token there.
    pub best: u32,
}

/// A continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Log-probability of each at temperature 1, in nats.
    pub logprobs: Vec<f32>,
    /// Its text.
    pub text: String,
    /// Why it ended.
    pub why: Ended,
}

/// Why a visit or a draft ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It had all the tokens it was allowed.
    Length,
    /// A condition held.
    Condition,
    /// A token, a stop string or the longest length ended the answer.
    Answer,
}
