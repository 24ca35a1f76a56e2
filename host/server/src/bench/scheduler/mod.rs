//! The scheduler's rules in virtual time: simulated, exact, and the same decisions as on real engines.
//!
//! Nothing here is measured on a model: step times follow a law, and every figure is labelled *simulated*. Three
//! studies: the curve of one situation over the number of requests, a sweep of many situations against the best
//! thresholds that a search finds, and the table of the TokenRouter paper.

mod curve;
mod picture;
mod reference;
mod sweep;

use scheduler::conductor::Mode;

pub use curve::{Curve, Situation};
pub use reference::Reference;
pub use sweep::{Extent, Sweep};

/// The modes that are compared, ours last.
pub(super) fn modes() -> [Mode; 5] {
    [Mode::StepSync, Mode::ModelSync, Mode::EagerAsync, Mode::PaperDtmc, Mode::Ours]
}

/// What a bar over a study says.
pub const PROGRESS: &str = "{bar:30} {pos}/{len} simulated runs";
