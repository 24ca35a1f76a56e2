//! What a row of logits says: the numbers that policies route by, and the best tokens.
//!
//! A vocabulary is long, so this is work for vectors: e^x in f32, sums by lane over a stretch of ids and then in
//! double precision over the stretches, always in the order of ids.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::math::{exp, soft_cap};
use super::simd::{Isa, LANES, Level, Work, dispatch, load_up_to, store_up_to};
use crate::sampler::Ranked;

/// Sums over a row of logits, relative to the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sums {
    /// The largest logit.
    pub(crate) best: f32,
    /// Sum of e^(logit - best).
    pub(crate) total: f64,
    /// Sum of e^(logit - best) * (logit - best).
    pub(crate) weighted: f64,
}

/// Caps logits where the model does, then sums them and finds the `count` best, best first; of equal ones the lower id
/// first. `None` if a logit is not a finite number, or there are none.
pub(crate) struct Survey<'a> {
    /// The logits.
    pub(crate) logits: &'a mut [f32],
    /// The model's cap.
    pub(crate) cap: Option<f32>,
    /// How many of the best are wanted.
    pub(crate) count: usize,
}

impl Work for Survey<'_> {
    type Output = Option<(Sums, Vec<Ranked>)>;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> Self::Output {
        let Self { logits, cap, count } = self;
        if let Some(cap) = cap {
            capped(isa, logits, cap);
        }
        if logits.is_empty() || !finite(isa, logits) {
            return None;
        }
        let best = Best { logits, count: count.max(1) }.with(isa);
        Some((weigh(isa, logits, best[0].logit, None), best))
    }
}

#[inline(always)]
fn capped<I: Isa>(isa: I, logits: &mut [f32], cap: f32) {
    for logits in logits.chunks_mut(LANES) {
        store_up_to(isa, soft_cap(isa, load_up_to(isa, logits, 0.0), cap), logits);
    }
}

/// A finite number times zero is zero; everything else is not.
#[inline(always)]
fn finite<I: Isa>(isa: I, logits: &[f32]) -> bool {
    let (whole, rest) = logits.as_chunks::<LANES>();
    let mut sum = isa.splat(0.0);
    for lanes in whole {
        sum = isa.fma(isa.load(lanes), isa.splat(0.0), sum);
    }
    isa.sum(sum) == 0.0 && rest.iter().all(|logit| logit.is_finite())
}

/// The sum of e^((logit - best) / temperature).
pub(crate) struct Total<'a> {
    /// The logits, all finite.
    pub(crate) logits: &'a [f32],
    /// The largest.
    pub(crate) best: f32,
    /// Above 0.
    pub(crate) temperature: f32,
}

impl Work for Total<'_> {
    type Output = f64;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> f64 {
        weigh(isa, self.logits, self.best, Some(self.temperature)).total
    }
}

/// The sums of e^x and of e^x * x, where x is logit - best, divided by the temperature if there is one.
#[inline(always)]
fn weigh<I: Isa>(isa: I, logits: &[f32], best: f32, temperature: Option<f32>) -> Sums {
    let (mut total, mut weighted) = (0.0, 0.0);
    for stretch in logits.chunks(STRETCH) {
        let (mut weights, mut products) = (isa.splat(0.0), isa.splat(0.0));
        for logits in stretch.chunks(LANES) {
            let distance = isa.sub(load_up_to(isa, logits, f32::NEG_INFINITY), isa.splat(best));
            let distance = match temperature {
                Some(temperature) => isa.div(distance, isa.splat(temperature)),
                None => distance,
            };
            // Where e^x is cut off its weight is nothing, but a distance of any size times it must be nothing too.
            let distance = isa.max(distance, isa.splat(-100.0));
            let weight = exp(isa, distance);
            weights = isa.add(weights, weight);
            products = isa.fma(weight, distance, products);
        }
        total += f64::from(isa.sum(weights));
        weighted += f64::from(isa.sum(products));
    }
    Sums { best, total, weighted }
}

/// Tokens with a logit of at least `from` and below `to`, in the order of ids.
pub(crate) fn between(level: Level, logits: &[f32], from: f32, to: f32) -> Vec<Ranked> {
    dispatch(level, Between { logits, from, to })
}

struct Between<'a> {
    logits: &'a [f32],
    from: f32,
    to: f32,
}

impl Work for Between<'_> {
    type Output = Vec<Ranked>;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> Vec<Ranked> {
        let mut found = Vec::new();
        // Strictly above the number before `from` is at least `from`.
        let below = self.from.next_down();
        for (at, logits) in (0u32..).step_by(LANES).zip(self.logits.chunks(LANES)) {
            if isa.any_above(load_up_to(isa, logits, f32::NEG_INFINITY), below) {
                let tokens = (at..).zip(logits).map(|(token, &logit)| Ranked { logit, token });
                found.extend(tokens.filter(|ranked| ranked.logit >= self.from && ranked.logit < self.to));
            }
        }
        found
    }
}

/// The `count` highest logits, best first; of equal ones the lower id first.
pub(crate) fn best(level: Level, logits: &[f32], count: usize) -> Vec<Ranked> {
    dispatch(level, Best { logits, count })
}

struct Best<'a> {
    logits: &'a [f32],
    count: usize,
}

impl Work for Best<'_> {
    type Output = Vec<Ranked>;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> Vec<Ranked> {
        let Self { logits, count } = self;
        // A heap whose top is the worst of the best so far: most vectors are turned away by one comparison.
        let mut heap: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(count.min(logits.len()));
        for (at, logits) in (0u32..).step_by(LANES).zip(logits.chunks(LANES)) {
            if heap.len() == count
                && let Some(Reverse(worst)) = heap.peek()
                && !isa.any_above(load_up_to(isa, logits, f32::NEG_INFINITY), worst.logit)
            {
                continue;
            }
            for (token, &logit) in (at..).zip(logits) {
                let ranked = Ranked { logit, token };
                if heap.len() < count {
                    heap.push(Reverse(ranked));
                } else if let Some(mut worst) = heap.peek_mut().filter(|worst| ranked > worst.0) {
                    worst.0 = ranked;
                }
            }
        }
        heap.into_sorted_vec().into_iter().map(|Reverse(ranked)| ranked).collect()
    }
}

/// Ids that are summed in single precision before double takes over.
const STRETCH: usize = 1024;
