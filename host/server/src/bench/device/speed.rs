//! Tokens per second of one model by batch.

use std::time::Duration;

use engine::{Engine, EngineError};

use crate::bench::decode::{Plan, rounds};

/// Tokens per second over one batch, of the fastest round.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Sequences at once.
    pub batch: usize,
    /// Of feeding all prompts.
    pub prefill: f64,
    /// Of the steps after that.
    pub decode: f64,
}

/// Measures each batch of a plan.
///
/// # Errors
/// The engine's.
pub fn speeds(
    engine: &mut dyn Engine,
    plan: &Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Speed>, EngineError> {
    let speed = |&batch: &usize| {
        let times = rounds::all(engine, plan, batch, progress)?;
        let fastest = |tokens: usize, times: &mut dyn Iterator<Item = Duration>| {
            (batch * tokens) as f64 / times.min().unwrap_or_default().as_secs_f64().max(f64::MIN_POSITIVE)
        };
        Ok(Speed {
            batch,
            prefill: fastest(plan.prompt, &mut times.iter().map(|times| times.prefill)),
            decode: fastest(plan.tokens, &mut times.iter().map(|times| times.decode)),
        })
    };
    plan.batches.iter().map(speed).collect()
}
