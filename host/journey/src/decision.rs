//! What a policy answers: where a journey goes next and what it carries.
//!
//! These are the host's own types. The Wasm host converts the guest's answers into them, so that nothing made by a
//! binding generator is known outside it.

use std::num::NonZeroU32;

use crate::ids::Role;

/// The answer of `route` to one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Commit the held token and decode on with the same model.
    Stay,
    /// Go to another model; `send` says what becomes of the held token.
    Handoff(Handoff),
    /// Commit the held token and end the answer.
    Finish,
}

/// A visit to another model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// The model to go to.
    pub to: Role,
    /// `Some(n)`: it decodes n tokens without asking the policy, then the journey comes back. `None`: the journey
    /// stays there, and `route` is asked at each step until it hands off again.
    pub run: Option<NonZeroU32>,
}

/// The answer of `send`: what crosses with a handoff beside the tokens that the target has not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// Whether the held token is committed before leaving. Otherwise it is dropped and the target decides that
    /// position; the dropped token was never fed to a model, so dropping costs nothing.
    pub keep_held: bool,
}

/// What `receive` is shown when a visit of n tokens has ended: the tokens wait for its word.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The model that made them.
    pub from: Role,
    /// The tokens, in order.
    pub tokens: Vec<u32>,
    /// Log-probability of each at temperature 1, in nats.
    pub logprobs: Vec<f32>,
}

/// The answer of `receive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// How many of the offered tokens are committed, from the first; the rest is dropped.
    pub take: usize,
}
