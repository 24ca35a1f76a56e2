//! The engine from outside: against the reference implementation, against itself in other batches, and against
//! damaged checkpoints.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod checkpoints;
mod damaged;
mod drafts;
mod gguf_tokens;
mod golden;
mod heads;
mod invariance;
mod refusals;
mod sim;
mod steps;
mod templates;
mod tokens;
