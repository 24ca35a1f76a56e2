//! Tokens per second of two models that write the same answers by turns.
//!
//! The entry model makes most tokens; every few tokens each journey goes to the other for one, which is fed what it has
//! not seen. One engine runs at a time, so this is what routing costs at least without overlap.

use std::time::Instant;

use engine::{Engine, EngineError};

use super::{advance, release};
use crate::bench::decode::Plan;
use crate::bench::decode::rounds::prompt;

/// What two models make together.
#[derive(Clone, Copy, Debug)]
pub struct Routed {
    /// Journeys at once.
    pub batch: usize,
    /// Tokens between two that the other model makes.
    pub every: usize,
    /// Tokens per second over the batch.
    pub tokens_per_s: f64,
}

/// Measures each batch of a plan, prompts fed to both models before.
///
/// # Errors
/// Of either engine.
pub fn routed(
    (entry, other): (&mut dyn Engine, &mut dyn Engine),
    plan: &Plan,
    every: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Routed>, EngineError> {
    let mut all = Vec::with_capacity(plan.batches.len());
    for &batch in &plan.batches {
        progress(&format!("routed, batch {batch}"));
        let vocabulary = entry.spec().vocabulary.min(other.spec().vocabulary);
        let mut texts: Vec<Vec<u32>> =
            (0..batch as u64).map(|seed| prompt(seed, plan.prompt, vocabulary)).collect();
        advance(other, &texts, CANDIDATES)?;
        let first = advance(entry, &texts, CANDIDATES)?;
        texts.iter_mut().zip(first).for_each(|(text, sampled)| text.push(sampled.token));
        let begun = Instant::now();
        for step in 1..=plan.tokens {
            let at: &mut dyn Engine = if step % every == 0 { &mut *other } else { &mut *entry };
            let made = advance(at, &texts, CANDIDATES)?;
            // What one model knows and the other does not is not among its ids.
            let token = |token: u32| token.min(vocabulary as u32 - 1);
            texts.iter_mut().zip(made).for_each(|(text, sampled)| text.push(token(sampled.token)));
        }
        let tokens_per_s = (batch * plan.tokens) as f64 / begun.elapsed().as_secs_f64();
        all.push(Routed { batch, every, tokens_per_s });
        release(entry, batch);
        release(other, batch);
    }
    Ok(all)
}

/// As many as a policy sees.
const CANDIDATES: usize = 4;

#[cfg(test)]
mod tests {
    use engine::{Device, LoadOptions, RandomShape, random};

    use super::*;

    #[test]
    fn two_models_take_turns_and_leave_no_kv() {
        let engine = || random(RandomShape::Tiny, Device::Cpu, LoadOptions::default()).unwrap();
        let (mut entry, mut other) = (engine(), engine());
        let plan = Plan { batches: vec![1, 3], prompt: 20, tokens: 9, rounds: 1, threads: 1 };
        let mut heard = 0;
        let routed = routed((&mut *entry, &mut *other), &plan, 4, &mut |_| heard += 1).unwrap();
        assert_eq!(routed.iter().map(|routed| routed.batch).collect::<Vec<_>>(), [1, 3]);
        assert!(routed.iter().all(|routed| routed.tokens_per_s > 0.0));
        assert_eq!((heard, entry.kv().tokens, other.kv().tokens), (2, 0, 0));
    }
}
