//! Learns a step law from measured steps: recursive least squares with forgetting.
//!
//! The sums are decayed by [`FORGETTING`] a step, so that only about the last fifty steps count, and the solution is
//! pulled towards the one before by a thousandth of each regressor's own weight. That pull decides nothing where the
//! steps differ; where a regressor never varies (every row feeds one token, the batch is always full) it keeps what
//! cannot be told apart as it was, which is what plain recursive least squares gets wrong: its gain grows without bound
//! along such a direction. Residuals count relative to the step time, so that one long prefill does not drown fifty
//! decoding steps.

use std::collections::VecDeque;

use super::solve::Normal;
use super::{Load, RowMix, StepLaw};

/// The law of one model as measured so far.
#[derive(Clone, Debug)]
pub struct Fit {
    law: StepLaw,
    gram: [[f64; 4]; 4],
    moment: [f64; 4],
    /// Decayed sums over rows, of rows, new tokens and context: the mean row.
    row_sums: [f64; 3],
    /// Decayed sums over steps, of seconds and of 1: the mean step.
    step_sums: [f64; 2],
    steps: u64,
    /// Relative errors of the latest predictions, a ring.
    errors: VecDeque<f64>,
}

/// How well the law predicted the steps that came after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitError {
    /// Median of |predicted - measured| / measured.
    pub median: f64,
    /// Its 90th percentile.
    pub p90: f64,
    /// How many steps this is over.
    pub steps: usize,
}

impl Fit {
    /// A fit that knows nothing but a guess.
    #[must_use]
    pub fn new(guess: StepLaw) -> Self {
        Self {
            law: guess,
            gram: [[0.0; 4]; 4],
            moment: [0.0; 4],
            row_sums: [0.0; 3],
            step_sums: [0.0; 2],
            steps: 0,
            errors: VecDeque::new(),
        }
    }

    /// Takes in one measured step. Steps of no duration or without rows say nothing and are left out.
    pub fn observe(&mut self, load: Load, measured_s: f64) {
        if load.rows == 0 || !measured_s.is_finite() || measured_s <= 0.0 {
            return;
        }
        let predicted_s = self.law.step_s(load);
        // A law may have all of its cost in a term that a step has nothing of. Taken at its word it would make of that step an
        // outlier of no duration and of endless weight, which no later step could outweigh.
        let expected_s = predicted_s.max(LEAST_SHARE * self.mean_s());
        let mut seconds = measured_s;
        if self.is_settled() {
            self.note_error((predicted_s - measured_s).abs() / measured_s);
            // A stopped process or a page fault is no property of the model; a real change gets through in a few steps.
            seconds = seconds.min(OUTLIER * expected_s);
        }
        self.steps += 1;
        self.add(load, seconds, expected_s);
        self.law = self.solved();
    }

    /// The law learnt so far; the guess before the first step.
    #[must_use]
    pub fn law(&self) -> StepLaw {
        self.law
    }

    /// The mean row of recent steps.
    #[must_use]
    pub fn mix(&self) -> RowMix {
        let [rows, tokens, context] = self.row_sums;
        if rows > 0.0 { RowMix { tokens: tokens / rows, context: context / rows } } else { RowMix::default() }
    }

    /// Steps that were taken in.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether enough steps were seen for the law to be more than the guess.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.steps >= SETTLED_STEPS
    }

    /// How well recent steps were predicted; `None` before there is a law to predict with.
    #[must_use]
    pub fn error(&self) -> Option<FitError> {
        let mut sorted: Vec<f64> = self.errors.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get(((sorted.len() as f64 - 1.0) * share).round() as usize).copied();
        Some(FitError { median: at(0.5)?, p90: at(0.9)?, steps: sorted.len() })
    }

    /// The mean of recent steps; 0 before the first.
    fn mean_s(&self) -> f64 {
        let [seconds, steps] = self.step_sums;
        if steps > 0.0 { seconds / steps } else { 0.0 }
    }

    fn add(&mut self, load: Load, seconds: f64, expected_s: f64) {
        let regressors = load.regressors();
        // By the expected time, not the measured one: weights that follow the noise would bias the law downwards.
        let scale = if self.is_settled() { expected_s.max(seconds / OUTLIER) } else { seconds };
        let weight = 1.0 / (scale * scale);
        let keep = if self.is_off() { FORGETTING_WHEN_OFF } else { FORGETTING };
        for i in 0..4 {
            for j in 0..4 {
                self.gram[i][j] = self.gram[i][j] * keep + weight * regressors[i] * regressors[j];
            }
            self.moment[i] = self.moment[i] * keep + weight * regressors[i] * seconds;
        }
        for (sum, value) in self.row_sums.iter_mut().zip(&regressors[1..]) {
            *sum = *sum * FORGETTING + value;
        }
        for (sum, value) in self.step_sums.iter_mut().zip([seconds, 1.0]) {
            *sum = *sum * FORGETTING + value;
        }
    }

    /// Whether the latest predictions were all far off: the machine has changed, not one step.
    fn is_off(&self) -> bool {
        let latest = || self.errors.iter().rev().take(OFF_STEPS);
        latest().count() == OFF_STEPS && latest().all(|error| *error > OFF_BY)
    }

    fn solved(&self) -> StepLaw {
        let mut normal = Normal { gram: self.gram, moment: self.moment };
        for (i, before) in self.law.coefficients().into_iter().enumerate() {
            // The fixed part is not pulled: the mean step is always met.
            let pull = if i == 0 { 1e-9 } else { PULL } * self.gram[i][i];
            normal.gram[i][i] += pull;
            normal.moment[i] += pull * before;
        }
        StepLaw::of(normal.not_negative())
    }

    fn note_error(&mut self, relative: f64) {
        if self.errors.len() == ERRORS_KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(relative);
    }
}

/// Weight of a step relative to the one after it.
const FORGETTING: f64 = 0.98;
/// The same while predictions are far off.
const FORGETTING_WHEN_OFF: f64 = 0.7;
const OFF_STEPS: usize = 8;
const OFF_BY: f64 = 0.25;
/// Strength of the pull towards the law before, relative to the regressor's own weight.
const PULL: f64 = 0.001;
/// Steps before predictions are trusted.
const SETTLED_STEPS: u64 = 8;
/// A step longer than this many predictions counts as that long.
const OUTLIER: f64 = 4.0;
/// Share of the mean step that any step is expected to take.
const LEAST_SHARE: f64 = 1e-3;
const ERRORS_KEPT: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use journey::random::{Purpose, uniform};
    use proptest::prelude::*;

    fn draw(at: u64, index: u32) -> f64 {
        uniform(11, at, Purpose::Sample, index)
    }

    /// A step with a random number of rows, some of which bring a suffix.
    fn load(at: u64) -> Load {
        let rows = 1 + (draw(at, 0) * 16.0) as usize;
        let missed = if draw(at, 1) < 0.5 { (draw(at, 2) * 40.0) as usize } else { 0 };
        Load { rows, tokens: rows + missed, context: rows * (100 + (draw(at, 3) * 900.0) as usize) }
    }

    #[test]
    fn a_law_is_learnt_exactly_from_steps_that_differ_whatever_the_guess() {
        let truth = StepLaw { fixed_s: 0.012, row_s: 0.0005, token_s: 0.0003, context_s: 2e-7 };
        let mut fit = Fit::new(StepLaw::affine(5.0, 3.0));
        for at in 0..400 {
            fit.observe(load(at), truth.step_s(load(at)));
        }
        for (got, expected) in fit.law().coefficients().iter().zip(truth.coefficients()) {
            assert!((got / expected - 1.0).abs() < 0.02, "{:?}", fit.law());
        }
        assert!(fit.error().unwrap().p90 < 0.01, "{:?}", fit.error());
    }

    #[test]
    fn a_batch_that_never_varies_keeps_the_guessed_slope_and_meets_the_mean() {
        let mut fit = Fit::new(StepLaw::affine(0.5, 0.002));
        for _ in 0..5000 {
            fit.observe(Load::decoding(4), 0.018);
        }
        let law = fit.law();
        assert!((law.step_s(Load::decoding(4)) - 0.018).abs() < 1e-6, "{law:?}");
        assert!((law.row_s + law.token_s - 0.002).abs() < 2e-4, "{law:?}");
    }

    #[test]
    fn a_changed_machine_is_learnt_within_a_hundred_steps() {
        let (before, after) = (StepLaw::affine(0.01, 0.001), StepLaw::affine(0.03, 0.004));
        let mut fit = Fit::new(before);
        for at in 0..300 {
            let law = if at < 200 { before } else { after };
            fit.observe(load(at), law.step_s(load(at)));
        }
        let eight = Load::decoding(8);
        assert!((fit.law().step_s(eight) / after.step_s(eight) - 1.0).abs() < 0.1, "{:?}", fit.law());
    }

    #[test]
    fn a_process_that_was_stopped_for_seconds_does_not_spoil_the_law() {
        let truth = StepLaw::affine(0.01, 0.001);
        let mut fit = Fit::new(truth);
        for at in 0..200 {
            let stopped = if at == 150 { 7.0 } else { 0.0 };
            fit.observe(load(at), truth.step_s(load(at)) + stopped);
        }
        let eight = Load::decoding(8);
        assert!((fit.law().step_s(eight) / truth.step_s(eight) - 1.0).abs() < 0.1, "{:?}", fit.law());
    }

    #[test]
    fn a_step_without_anything_of_the_only_term_does_not_end_the_law() {
        let mut fit = Fit::new(StepLaw::affine(0.0, 0.0));
        // Time that follows the context alone, until a step has none.
        for at in 1..200 {
            fit.observe(Load { rows: 1, tokens: 1, context: at * 10 }, at as f64 * 1e-4);
        }
        for _ in 0..200 {
            fit.observe(Load { rows: 1, tokens: 1, context: 0 }, 0.004);
        }
        let seconds = fit.law().step_s(Load { rows: 1, tokens: 1, context: 0 });
        assert!((seconds / 0.004 - 1.0).abs() < 0.05, "{:?}", fit.law());
    }

    #[test]
    fn noise_of_thirty_per_cent_does_not_bias_the_law() {
        let truth = StepLaw::affine(0.01, 0.001);
        let mut fit = Fit::new(StepLaw::affine(1.0, 0.0));
        let (mut sum, mut count) = (0.0, 0.0);
        for at in 0..4000 {
            fit.observe(load(at), truth.step_s(load(at)) * (0.7 + 0.6 * draw(at, 9)));
            if at >= 200 {
                sum += fit.law().step_s(Load::decoding(8)) / truth.step_s(Load::decoding(8));
                count += 1.0;
            }
        }
        assert!((sum / count - 1.0).abs() < 0.02, "mean ratio {}", sum / count);
    }

    proptest! {
        #[test]
        fn coefficients_are_finite_and_never_negative(
            steps in proptest::collection::vec((0usize..40, 0usize..300, 0usize..9000, -1.0f64..50.0), 1..120),
        ) {
            let mut fit = Fit::new(StepLaw::affine(1.0, 0.0));
            for (rows, more, context, seconds) in steps {
                fit.observe(Load { rows, tokens: rows + more, context }, seconds);
                prop_assert!(fit.law().coefficients().iter().all(|c| c.is_finite() && *c >= 0.0));
                // Whatever was measured took time, and so does what is believed.
                prop_assert!(fit.law().coefficients().iter().any(|c| *c > 0.0));
            }
        }
    }
}
