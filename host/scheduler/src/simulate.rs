//! Runs a group of models in virtual time, deciding with the very [`Conductor`](crate::conductor::Conductor) that the
//! server uses.
//!
//! A [`Scenario`] says how long steps take, how journeys pass between models and how they come; [`run`] plays it in one
//! [`Mode`] and measures. What a journey does is a function of the seed, the journey and how far
//! it is, so two modes see the same journeys, and a run can be repeated exactly. [`oracle`] searches the best thresholds
//! for a scenario by trying.

mod events;
pub mod oracle;
mod outcome;
mod scenario;
mod world;

pub use outcome::Outcome;
pub use scenario::{Burst, Demand, Knowledge, Scenario, SimModel, Visit};

use crate::conductor::Mode;

/// Plays a scenario in one mode.
#[must_use]
pub fn run(scenario: &Scenario, mode: Mode) -> Outcome {
    events::Simulation::new(scenario, mode).play()
}
