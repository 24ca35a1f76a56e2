//! What a policy answers: where a journey goes next and what becomes of its tokens.
//!
//! These are the host's own types. The Wasm host converts the guest's answers into them, so that nothing made by a
//! binding generator is known outside it. What they mean is written beside the same names in `wit/types.wit`.

use std::num::NonZeroU32;

use crate::distribution::Space;
use crate::ids::Role;
use crate::question::{Answer, Ended, Question};
use crate::watch::Condition;

/// The answer of `route` to one step.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Commit the held token and decode on with the same model.
    Stay,
    /// Go to another model; `send` says what becomes of the held token.
    Handoff(Handoff),
    /// Commit the held token and end the answer.
    Finish,
    /// Keep holding the token and ask; `route` is then asked again with the answers.
    Consult(Question),
    /// Replace the held token by one drawn from a mixture and commit that.
    Mix(Mixture),
    /// Change the answer so far.
    Rewrite(Rewrite),
    /// Take one of the drafts that were answered.
    Adopt(Adoption),
}

/// A visit to another model.
#[derive(Clone, Debug, PartialEq)]
pub struct Handoff {
    /// The model to go to.
    pub to: Role,
    /// `Some(n)`: it decodes at most n tokens without asking the policy, then the journey comes back.
    pub run: Option<NonZeroU32>,
    /// The journey also comes back after a token for which one of these holds. Without either bound it stays there, and
    /// `route` is asked at each step until it hands off again.
    pub until: Vec<Condition>,
}

impl Handoff {
    /// A visit of so many tokens, or, with `None`, a move.
    #[must_use]
    pub const fn new(to: Role, run: Option<NonZeroU32>) -> Self {
        Self { to, run, until: Vec::new() }
    }

    /// Whether the journey comes back by itself.
    #[must_use]
    pub fn is_visit(&self) -> bool {
        self.run.is_some() || !self.until.is_empty()
    }
}

/// The answer of `send`: what crosses with a handoff beside the tokens that the target has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// Whether the held token is committed before leaving. Otherwise it is dropped and the target decides that
    /// position; the dropped token was never fed to a model, so dropping costs nothing.
    pub keep_held: bool,
}

/// What `receive` is shown when a visit has ended: the tokens wait for its word.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The model that made them.
    pub from: Role,
    /// The tokens, in order.
    pub tokens: Vec<u32>,
    /// Log-probability of each at temperature 1, in nats.
    pub logprobs: Vec<f32>,
    /// Their text.
    pub text: String,
    /// Why the visit ended.
    pub why: Ended,
    /// To the question that `receive` asked about this very offer.
    pub answers: Vec<Answer>,
}

/// The answer of `receive`.
#[derive(Clone, Debug, PartialEq)]
pub enum Accept {
    /// So many of the offered tokens are committed, from the first; the rest is dropped.
    Take(usize),
    /// What the model that the journey has come back to accepts.
    Verify(Check),
    /// Ask first; `receive` is then asked again with the answers.
    Consult(Question),
}

/// A test of an offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// When a token stands.
    pub rule: Rule,
    /// How many of the tokens are judged, from the first, if there are so many; the others are dropped.
    pub tokens: usize,
}

impl From<Rule> for Check {
    /// Of all tokens.
    fn from(rule: Rule) -> Self {
        Self { rule, tokens: usize::MAX }
    }
}

/// When a drafted token is kept; the first that is not ends the draft. p is the judge's probability, q the drafter's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// It is the token that the judge itself draws.
    Exact,
    /// With probability min(1, p / q), else it is replaced by one from max(0, p - q), normalised (Leviathan et al.,
    /// arXiv 2211.17192). p and q are what the request's own rules leave of both distributions.
    Rejection,
    /// p > min(epsilon, delta * e^(-entropy)) at temperature 1 (Medusa, arXiv 2401.10774).
    Typical {
        /// Probability that is always enough.
        epsilon: f32,
        /// Scale of what is enough where the judge is unsure.
        delta: f32,
    },
    /// -ln p is at most this, in nats, at temperature 1 (BiLD, arXiv 2302.07863).
    MaxLoss(f32),
    /// It is among the judge's so many most probable tokens.
    InTop(u32),
}

/// Several models' say about the position of the held token: the weighted sum of their numbers for each token.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// What numbers are added up.
    pub space: Space,
    /// The models and their weights; each once.
    pub parts: Vec<(Role, f32)>,
    /// Tokens that this model finds less probable than this share of its most probable one are left out.
    pub plausible: Option<(Role, f32)>,
}

/// The answer so far, changed, in the order of the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    /// Whether the held token is committed first; otherwise it is dropped.
    pub keep_held: bool,
    /// Tokens dropped from the end of the answer, none of which the client has seen.
    pub drop: usize,
    /// Tokens that are committed as if the model here had made them.
    pub tokens: Vec<u32>,
    /// Text that follows them.
    pub text: String,
    /// Where the answer goes on.
    pub then: Next,
}

/// Where a rewritten answer goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// At the model where it is.
    Stay,
    /// At another.
    Handoff(Handoff),
    /// Nowhere.
    Finish,
}

/// A draft that becomes part of the answer. If the question was asked with the held token, that is committed first;
/// otherwise it is dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// Which of the answers.
    pub answer: usize,
    /// Which of its drafts.
    pub draft: usize,
    /// At most so many of its tokens, from the first.
    pub tokens: usize,
    /// Where the answer goes on.
    pub then: Next,
}
