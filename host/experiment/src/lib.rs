//! Live experiments on a route: who gets which arm, what the arms did, and what may be concluded from it.
//!
//! Pure: no clock, no threads, no files, no randomness. The seed of an experiment is part of its definition, so every
//! replica gives a key the same arm, before and after a restart. What happens flows one way:
//!
//! ```text
//! Definition ──Experiment::create──▶ Experiment ──Assigner::new──▶ assign(key) ─▶ Assignment { arm, unit, shadows }
//!                 ▲                                                                     │ the server serves the arm
//!                 │ apply(Action)                                                       ▼
//!                 └──────── guardrail::check ◀── Tallies ◀── record(arm, unit, Answer), feedback(arm, unit, score)
//!                                                   └──────▶ readout::read ─▶ Readout for people
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`definition`] | what a person writes: arms, weights, shadow arms, stickiness, evidence, guardrails; its checks |
//! | [`lifecycle`] | running, paused, promoted, rolled back; transitions as functions that also describe themselves |
//! | [`assign`] | a keyed hash to a point, and the layout in which growing an arm takes from the control only |
//! | [`metric`] | what is measured, its unit, bounds and good direction |
//! | [`tally`] | what the arms did, in bounded memory, mergeable between replicas |
//! | [`evidence`] | confidence sequences and the test of the sample ratio, each with its source |
//! | [`readout`] | effects with intervals that may be looked at whenever one likes |
//! | [`guardrail`] | limits whose crossing rolls an experiment back |
//! | [`study`] | simulated experiments: false-positive rates and power |

pub mod assign;
pub mod definition;
pub mod evidence;
pub mod guardrail;
pub mod lifecycle;
pub mod metric;
pub mod readout;
pub mod study;
pub mod tally;

pub use assign::{Assigner, Assignment, Unit};
pub use definition::{Definition, DefinitionError};
pub use lifecycle::{Action, Experiment, State};
pub use tally::{Answer, Tallies};
