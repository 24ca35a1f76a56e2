//! Whether arms get the keys that their weights say. If not, something loses answers or counts them wrongly, and no
//! comparison can be trusted.
//!
//! Lindon and Malek (2022), "Anytime-valid inference for multinomial count data", NeurIPS 35: with weights `w_i` and
//! counts `S_i`, the Bayes factor of a Dirichlet(k w) mixture
//!
//! ```text
//! E = B(k w + S) / B(k w) / prod w_i^S_i,        B(x) = prod gamma(x_i) / gamma(sum x_i)
//! ```
//!
//! is a martingale that begins at 1 where keys are drawn by the weights, so `E >= 1 / alpha` ever happens with
//! probability alpha at most.
//!
//! Drawn are keys, not requests: one key that asks a thousand times is drawn once. [`Drawn`] counts a key when its cell
//! is first used. The cell says nothing of the arm, so the counted keys are drawn by the weights too, and memory is
//! bounded, at the price of counting no more than [`CELLS`] keys.

use serde::{Deserialize, Serialize};

use crate::assign::CELLS;

/// The keys that were drawn, each counted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// By cell: 0, or the arm of the first key plus 1.
    #[serde(deserialize_with = "crate::tally::of_length::<{ CELLS as usize }, _, _>")]
    cells: Vec<u8>,
}

impl Default for Drawn {
    fn default() -> Self {
        Self { cells: vec![0; usize::from(CELLS)] }
    }
}

impl Drawn {
    /// A key of this cell was given this arm.
    pub fn add(&mut self, cell: u16, arm: usize) {
        let cell = &mut self.cells[usize::from(cell % CELLS)];
        if *cell == 0 {
            *cell = u8::try_from(arm + 1).expect("a definition has far fewer arms than 255");
        }
    }

    /// The keys of another replica. NB: what is counted never changes, so reading after every merge is one sequence.
    pub fn merge(&mut self, other: &Self) {
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            if *cell == 0 {
                *cell = *other;
            }
        }
    }

    /// Keys by arm.
    #[must_use]
    pub fn counts(&self, arms: usize) -> Vec<u64> {
        let mut counts = vec![0; arms];
        for arm in self.cells.iter().filter_map(|cell| cell.checked_sub(1)) {
            if let Some(count) = counts.get_mut(usize::from(arm)) {
                *count += 1;
            }
        }
        counts
    }
}

/// `ln E` for these counts under these weights, which need not add up to 1.
///
/// ```
/// # use experiment::evidence::ratio::ln_evidence_with;
/// // Weights 1/2 and 1/2, k = 2: a uniform mixture. Three keys of one arm: B(4, 1) / B(1, 1) * 2^3 = 8 / 4 = 2.
/// assert!((ln_evidence_with(2.0, &[3, 0], &[1.0, 1.0]) - 2f64.ln()).abs() < 1e-12);
/// ```
#[must_use]
pub fn ln_evidence_with(concentration: f64, counts: &[u64], weights: &[f64]) -> f64 {
    let whole: f64 = weights.iter().sum();
    let total = counts.iter().sum::<u64>() as f64;
    let mut evidence = libm::lgamma(concentration) - libm::lgamma(concentration + total);
    for (&count, weight) in counts.iter().zip(weights.iter().map(|weight| weight / whole)) {
        if weight > 0.0 {
            let (prior, count) = (concentration * weight, count as f64);
            evidence += libm::lgamma(prior + count) - libm::lgamma(prior) - count * weight.ln();
        } else if count > 0 {
            return f64::INFINITY;
        }
    }
    evidence
}

/// [`ln_evidence_with`] the mixture that readouts use.
#[must_use]
pub fn ln_evidence(counts: &[u64], weights: &[f64]) -> f64 {
    ln_evidence_with(CONCENTRATION, counts, weights)
}

/// Tuned to shares that are off by a tenth or so: with 100 the mixture spreads a half by 5 percentage points.
const CONCENTRATION: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once_whatever_replica_saw_it() {
        let (mut one, mut two) = (Drawn::default(), Drawn::default());
        (0..10).for_each(|_| one.add(7, 1));
        two.add(7, 0);
        two.add(8, 0);
        one.merge(&two);
        assert_eq!(one.counts(2), [1, 1]);
    }

    #[test]
    fn lost_keys_raise_the_alarm_and_fair_ones_do_not() {
        assert!(ln_evidence(&[5000, 5000], &[1.0, 1.0]) < 0.0);
        // A fifth of one arm's keys is lost: 1000 against 800.
        assert!(ln_evidence(&[1000, 800], &[1.0, 1.0]) > 1000f64.ln());
        assert_eq!(ln_evidence(&[1000, 1], &[1.0, 0.0]), f64::INFINITY);
        assert_eq!(ln_evidence(&[1000, 0], &[1.0, 0.0]), 0.0);
    }
}
