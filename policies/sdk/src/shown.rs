//! What a policy is shown at its calls: the interface's numbers, and with them what `view` has to show.
//!
//! The host says with every call what there is to be seen, and only that is fetched.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bindings::tokenrouter::policy::types::{self, Sights};
use crate::host::view;
use crate::{Answer, Candidates, Ended, Role, TokenId};

/// Fixed for one journey.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// How many models the route has; [`host::models`](crate::host::models) says what they are.
    pub models: u32,
    /// Most tokens, prompt included, that every model of the route can hold.
    pub context: u32,
    /// A value for every declared parameter; see [`Start::number`].
    pub settings: Settings,
    /// Number of tokens of the prompt.
    pub prompt_tokens: u32,
    /// Most tokens that the answer may have.
    pub max_tokens: u32,
    /// The end of the prompt as text, as long as the descriptor asked for.
    pub prompt: String,
}

/// A value for every declared parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub(crate) keys: &'static [String],
    pub(crate) values: Vec<f64>,
}

/// One decoded position. The token is *held*: it is in no model's sequence until `route` lets it be committed.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Index among the tokens of the answer; 0 is the first.
    pub index: u32,
    /// Tokens committed by this model since the journey last came to it.
    pub run: u32,
    /// The model that sampled the token.
    pub role: Role,
    /// The token.
    pub token: TokenId,
    /// Whether it ends the answer.
    pub at_eos: bool,
    /// The first guard of the descriptor that fired, if the role has any. None where `route` is asked again because
    /// answers are there.
    pub fired: Option<u32>,
    /// Log-probability of the token at temperature 1, in nats.
    pub logprob: f32,
    /// Entropy of the whole distribution at temperature 1, in nats.
    pub entropy: f32,
    /// Probability of the most probable token.
    pub top1: f32,
    /// `top1` less the probability of the second token.
    pub margin: f32,
    /// What the model's heads say, in the order of the role's `heads`.
    pub scores: Vec<f32>,
    /// Best first; as many as the descriptor asked for.
    pub candidates: Vec<Candidate>,
    /// The end of the answer's text, the held token not included, as long as the descriptor asked for.
    pub tail: String,
    /// To the `consult` that `route` answered to this very step; otherwise empty.
    pub answers: Vec<Answer>,
}

/// One of the most probable tokens at a position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: TokenId,
    /// As the model gave it.
    pub logit: f32,
    /// At temperature 1.
    pub prob: f32,
}

/// What a bounded visit brought, for a policy that `receives`.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The model that made the tokens.
    pub source: Role,
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// Log-probability of each at temperature 1, in nats.
    pub logprobs: Vec<f32>,
    /// Their text.
    pub text: String,
    /// Why the visit ended.
    pub why: Ended,
    /// To the `consult` that `receive` answered to this very offer; otherwise empty.
    pub answers: Vec<Answer>,
}

impl Settings {
    /// The value of a parameter.
    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        let index = self.keys.iter().position(|known| known == key)?;
        self.values.get(index).copied()
    }
}

impl Start {
    /// What the host says, for a policy with these parameters.
    pub(crate) fn seen(start: types::Start, keys: &'static [String]) -> Self {
        let types::Start { models, context, settings, prompt_tokens, max_tokens, shows } = start;
        let settings = Settings { keys, values: settings };
        let prompt = if shows.contains(Sights::PROMPT) { view::prompt() } else { String::new() };
        Self { models, context, settings, prompt_tokens, max_tokens, prompt }
    }
}

impl Candidates {
    /// Each with its numbers, best first.
    #[must_use]
    pub fn all(&self) -> Vec<Candidate> {
        let numbers = self.logits.iter().zip(&self.probs);
        let candidate = |(&token, (&logit, &prob))| Candidate { token, logit, prob };
        self.tokens.iter().zip(numbers).map(candidate).collect()
    }
}

impl Step {
    pub(crate) fn seen(step: types::Step) -> Self {
        let types::Step { index, run, role, token, at_eos, fired, logprob, entropy, top1, margin, shows } =
            step;
        let scores = if shows.contains(Sights::SCORES) { view::scores() } else { Vec::new() };
        let candidates =
            if shows.contains(Sights::CANDIDATES) { view::candidates().all() } else { Vec::new() };
        let tail = if shows.contains(Sights::TAIL) { view::tail() } else { String::new() };
        let answers = answers(shows);
        Self {
            index,
            run,
            role,
            token,
            at_eos,
            fired,
            logprob,
            entropy,
            top1,
            margin,
            scores,
            candidates,
            tail,
            answers,
        }
    }
}

impl Offer {
    pub(crate) fn seen(offer: types::Offer) -> Self {
        let types::Offer { source, length: _, why, shows } = offer;
        let (tokens, logprobs, text) = (view::tokens(), view::logprobs(), view::text());
        Self { source, tokens, logprobs, text, why, answers: answers(shows) }
    }
}

fn answers(shows: Sights) -> Vec<Answer> {
    if shows.contains(Sights::ANSWERS) { view::answers() } else { Vec::new() }
}
