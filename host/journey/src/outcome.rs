//! What a journey answers when it is told what happened: effects to perform, tokens made, refusals.

use crate::decision::Offer;
use crate::ids::Role;
use crate::step::{Sampled, Signals, Step};

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end token, a stop string, or the policy's word.
    Stop,
    /// `max_tokens` or the context was used up.
    Length,
}

/// What must happen next with a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It stays in this model's batch.
    Decode,
    /// It goes to another model's subserver; its KV here stays parked.
    Leave {
        /// The model whose turn it is.
        to: Role,
    },
    /// It is over; KV is released everywhere.
    Finish(FinishReason),
}

/// Whether the policy must be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Consult {
    /// Ask `route`, then call [`Journey::decide`](crate::Journey::decide).
    Route(Step),
    /// Ask `receive`, then call [`Journey::accept`](crate::Journey::accept).
    Receive(Offer),
    /// Another token drawn in the same step is to be told first.
    More,
    /// Nobody needs to be asked.
    Settled(Effect),
}

/// A token that was dropped so that another model decides its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The model that proposed it.
    pub by: Role,
    /// The dropped token.
    pub token: u32,
    /// Scalars of the distribution it came from.
    pub signals: Signals,
    /// What let the policy be asked about it; none for a policy that is asked about every token.
    pub fired: Option<Fired>,
}

/// A guard that fired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fired {
    /// Which, by its index in [`Rules::guards`](crate::Rules::guards).
    pub guard: u32,
    /// The value of its signal, if it compares one.
    pub value: Option<f32>,
}

/// A token of the entry model at which the route was open, as a policy of signals saw it; see
/// [`Rules::considered`](crate::Rules::considered).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Considered {
    /// The journey's position; keys the policy's random numbers.
    pub position: u64,
    /// As [`Step::index`].
    pub index: u32,
    /// As [`Step::run`].
    pub run: u32,
    /// As [`Step::at_eos`].
    pub at_eos: bool,
    /// The token.
    pub token: u32,
    /// Its log-probability.
    pub logprob: f32,
    /// Its signals.
    pub signals: Signals,
    /// Whether the journey left for another model here.
    pub left: bool,
}

/// A committed token of the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The model that made it.
    pub by: Role,
    /// The token and its signals.
    pub sampled: Sampled,
    /// Text that became visible with it; may be empty.
    pub text: String,
    /// What was dropped at this position, if the journey was handed off for it.
    pub proposal: Option<Proposal>,
}

/// An answer of a policy that cannot be followed. The journey is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The route has no such model.
    #[error("handoff to {0}, but the route has {1} models")]
    UnknownRole(Role, usize),
    /// The journey is already there.
    #[error("handoff to {0}, where the journey already is")]
    SameModel(Role),
    /// The policy only moves the journey about.
    #[error("{0} handoffs in a row without a committed token")]
    NoProgress(u32),
    /// The policy commits and drops over and over.
    #[error("{0} tokens committed and dropped again, far more than the answer may have")]
    NoEnd(usize),
    /// A draft that nobody made was to be verified.
    #[error("nothing to verify: no draft is offered")]
    NothingToVerify,
    /// Distributions were not kept.
    #[error("the distributions are not there; the descriptor must ask for `distributions`")]
    NoDistributions,
    /// A question without a model.
    #[error("a question names no model")]
    AsksNobody,
    /// Nothing to mix, or a weight that is no number.
    #[error("a mixture needs parts, and finite weights")]
    BadMixture,
    /// The question is about the answer's own tokens.
    #[error("`last` judges the answer's own tokens and takes no side text")]
    SideText,
    /// What the client asked for does not allow it.
    #[error("the answer must follow a grammar, which allows neither these tokens here nor an end")]
    AgainstGrammar,
    /// The client has seen what was to be dropped.
    #[error("{0} tokens are to be dropped, but only {1} are held back from the client (see `holdback`)")]
    DropsSeen(usize, usize),
    /// No token has this number.
    #[error("token {0} of a vocabulary of {1}")]
    UnknownToken(u32, usize),
    /// It was not among the answers.
    #[error("draft {draft} of answer {answer} is not among the answers to the last question")]
    NoSuchDraft {
        /// Index of the answer.
        answer: usize,
        /// Index of the draft.
        draft: usize,
    },
    /// More was accepted than was offered.
    #[error("receive takes {0} tokens of {1} offered")]
    TakesTooMany(usize, usize),
}
