//! What a journey answers when it is told what happened: effects to perform, tokens made, refusals.

use crate::ids::Role;
use crate::step::{Sampled, Step};

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

/// Whether the policy must be asked about a sampled token.
#[derive(Clone, Debug, PartialEq)]
pub enum Consult {
    /// Ask `route`, then call [`Journey::stay`](crate::Journey::stay), [`finish`](crate::Journey::finish) or
    /// [`hand_off`](crate::Journey::hand_off).
    Route(Step),
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
    /// Entropy of the distribution it came from, in nats.
    pub entropy: f32,
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
    /// More was accepted than was offered.
    #[error("receive takes {0} tokens of {1} offered")]
    TakesTooMany(usize, usize),
}
