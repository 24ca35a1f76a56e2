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

/// How a mode is called on the command line, in tables and in JSON.
#[must_use]
pub fn name(mode: &Mode) -> &'static str {
    match mode {
        Mode::StepSync => "step-sync",
        Mode::ModelSync => "model-sync",
        Mode::EagerAsync => "eager-async",
        Mode::FixedB(_) => "fixed-B",
        Mode::PaperDtmc => "paper-dtmc",
        Mode::Ours => "ours",
    }
}

/// The modes that are compared, ours last.
pub(super) fn modes() -> [Mode; 5] {
    [Mode::StepSync, Mode::ModelSync, Mode::EagerAsync, Mode::PaperDtmc, Mode::Ours]
}

/// What a bar over a study says.
pub const PROGRESS: &str = "{bar:30} {pos}/{len} simulated runs";
