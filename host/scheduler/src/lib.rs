//! When a model runs, and with whom: pure rules, no clock and no threads.
//!
//! A [`Scheduler`] belongs to one subserver. It knows which journeys are resident, on behalf of which [`Tenant`],
//! and how many tokens each waits to feed; [`Scheduler::next_turn`] says what the next step of the model is made of. The
//! decode loop performs it.
//!
//! Where memory is short, [`memory`] says who goes without; where places among the journeys are, a [`Line`] says who is next.
//!
//! A [`conductor::Conductor`] belongs to a group of models between which journeys pass. It says when each of them may
//! begin a step: a step costs much of its time once, whoever takes part, so waiting for more rows can be worth it. What
//! follows, in the order in which it builds on each other:
//!
//! | room | what is in it |
//! |---|---|
//! | [`law`] | how long a step takes, learnt from steps that were measured |
//! | [`traffic`] | how often journeys pass from one model to another |
//! | [`plan`] | what delay is worth: closed forms, a chain for few journeys, turns among many models, the paper's model |
//! | [`conductor`] | the state machine that the runtime and the simulator share |
//! | [`simulate`] | groups of models in virtual time |
//! | [`study`] | comparisons of the modes as plain data |

pub mod conductor;
pub mod law;
mod line;
pub mod memory;
pub mod plan;
mod queue;
pub mod simulate;
pub mod study;
pub mod traffic;

pub use line::Line;
pub use queue::{Behalf, Limits, SHARE_MAX, Scheduler, Share, Tenant, Turn};

/// A model's place in its group, from 0: the models between which journeys pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub usize);
