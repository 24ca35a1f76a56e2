//! When a model runs, and with whom: pure rules, no clock and no threads.
//!
//! A [`Scheduler`] belongs to one subserver. It knows which journeys are resident and how many tokens each waits to
//! feed; [`Scheduler::next_turn`] says what the next step of the model is made of. The decode loop performs it.

mod queue;

pub use queue::{Limits, Scheduler, Share, Turn};
