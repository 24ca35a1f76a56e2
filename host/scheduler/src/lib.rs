//! When a model runs, and with whom: pure rules, no clock and no threads.
//!
//! A [`Scheduler`] belongs to one subserver. It knows which journeys are resident and how many tokens each waits to
//! feed; [`Scheduler::next_turn`] says what the next step of the model is made of. The decode loop performs it.

pub mod conductor;
pub mod law;
pub mod plan;
mod queue;
pub mod simulate;
pub mod study;
pub mod traffic;

pub use queue::{Limits, Scheduler, Share, Turn};

/// A model's place in its group, from 0: the models between which journeys pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub usize);
