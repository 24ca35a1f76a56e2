//! The throughput model of the TokenRouter paper (arXiv 2610.12242, appendix D), written from its description.
//!
//! Every model starts a batch as soon as `B_i` journeys wait for it and takes all of them. The state (waiting, running
//! and residual time of each model) observed at batch completions is a finite Markov chain on a grid of time; its
//! stationary distribution gives `tokens per transition / seconds per transition`. The best `B` is found by trying. Here
//! it is a baseline: a step may last longer with more rows, which the paper leaves out, but there is no shared device,
//! no waiting for a step that is about to end, and no bound on latency.
//!
//! What limits it is the state space. With step times that do not depend on the batch, as in the paper, few residuals
//! occur, and states grow with the square of the number of journeys (146 at the best threshold for sixteen, 471 for
//! thirty-two); every step time that does depend on it adds residuals until nearly each of the `C(N + 3, 3)` ways to place
//! `N` journeys comes with all ticks of a step. Two models are therefore looked at when the first one starts, which leaves
//! the square of the journeys times the ticks of a step (`starts`); that gives the table for sixty-four journeys, with
//! all thresholds, in some seconds. Beyond [`Chain::states_max`] the chain is given up.

mod completions;
mod starts;
mod stationary;

use completions::Built;
use starts::Starts;

use crate::law::Affine;

/// Models, how journeys pass between them, and the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// Step time of each model.
    pub laws: Vec<Affine>,
    /// `routes[i][j]`: probability that a journey goes from `i` to `j` after a step; each line sums to 1 (`P`).
    pub routes: Vec<Vec<f64>>,
    /// `commits[i][j]`: tokens committed by that transition (`C`).
    pub commits: Vec<Vec<f64>>,
    /// Journeys in the system (`N`).
    pub journeys: usize,
    /// Seconds of a tick of the grid.
    pub tick_s: f64,
    /// States beyond which the chain is not built.
    pub states_max: usize,
}

/// Throughput of one choice of thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    /// Waiting journeys with which each model starts.
    pub batch: Vec<usize>,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// States of the chain.
    pub states: usize,
    /// Share of the distribution that was cut in a transition, and about the relative error of the rate by that; 0 where
    /// all states were followed.
    pub lost: f64,
}

/// The chain has more states than are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStates;

impl Chain {
    /// R2R on two models: a routed proposal is dropped and the large model decodes one token in its place.
    #[must_use]
    pub fn of_pair(pair: &super::Pair, tick_s: f64) -> Self {
        let p = pair.share;
        let back = 1.0 / pair.visit_tokens;
        Self {
            laws: vec![pair.small, pair.large],
            routes: vec![vec![1.0 - p, p], vec![back, 1.0 - back]],
            commits: vec![vec![1.0, 0.0], vec![1.0, 1.0]],
            journeys: pair.journeys.round().max(1.0) as usize,
            tick_s,
            states_max: STATES_MAX,
        }
    }

    /// Whether every model can at some time start: with `sum(B_i - 1) >= N` all may wait for ever.
    #[must_use]
    pub fn is_feasible(&self, batch: &[usize]) -> bool {
        batch.iter().map(|b| b.saturating_sub(1)).sum::<usize>() < self.journeys
    }

    /// Tokens per second with these thresholds.
    ///
    /// # Errors
    /// [`TooManyStates`] where the chain would have more than [`Self::states_max`].
    pub fn tokens_per_s(&self, batch: &[usize]) -> Result<Rated, TooManyStates> {
        if self.is_pair() && self.journeys > FOLLOWED_JOURNEYS && batch[0] <= 1 {
            return Ok(self.rated(&mut Starts::new(self)?, batch[1]));
        }
        let built = Built::of(self, batch)?;
        let rate = built.rate() / self.tick_s;
        Ok(Rated { batch: batch.to_vec(), tokens_per_s: rate, states: built.states(), lost: 0.0 })
    }

    /// Tokens per second with each of these thresholds of the last model and immediate admission at the others.
    ///
    /// For two models every one begins where the one before has ended, so that neighbours cost little.
    ///
    /// # Errors
    /// [`TooManyStates`] as soon as one of the chains has too many.
    pub fn sweep(&self, thresholds: impl IntoIterator<Item = usize>) -> Result<Vec<Rated>, TooManyStates> {
        let thresholds = thresholds.into_iter();
        if self.is_pair() && self.journeys > FOLLOWED_JOURNEYS {
            let mut starts = Starts::new(self)?;
            return Ok(thresholds.map(|last| self.rated(&mut starts, last)).collect());
        }
        let models = self.laws.len();
        let batch = |last| (0..models).map(|at| if at + 1 == models { last } else { 1 }).collect::<Vec<_>>();
        thresholds.map(|last| self.tokens_per_s(&batch(last))).collect()
    }

    /// The best threshold of the last model with immediate admission at the others, as in the paper's tables.
    ///
    /// Up to sixteen journeys every threshold is tried, beyond that sixteen of them and then those around the best.
    ///
    /// # Errors
    /// [`TooManyStates`] as soon as one of the chains has too many.
    pub fn best(&self) -> Result<Rated, TooManyStates> {
        let stride = self.journeys.div_ceil(ALL_TRIED);
        let best = self.best_of((1..=self.journeys).step_by(stride))?;
        if stride == 1 {
            return Ok(best);
        }
        let around = *best.batch.last().unwrap_or(&1);
        self.best_of(around.saturating_sub(stride - 1).max(1)..=(around + stride - 1).min(self.journeys))
    }

    fn best_of(&self, thresholds: impl Iterator<Item = usize>) -> Result<Rated, TooManyStates> {
        let rated = self.sweep(thresholds)?;
        // The lowest of those that are equal: below the natural batch a threshold changes nothing.
        let best = rated
            .into_iter()
            .reduce(|best, next| if next.tokens_per_s > NOISE * best.tokens_per_s { next } else { best });
        best.ok_or(TooManyStates)
    }

    fn rated(&self, starts: &mut Starts, last: usize) -> Rated {
        let found = starts.rate(last);
        let tokens_per_s = found.rate / self.tick_s;
        Rated { batch: vec![1, last], tokens_per_s, states: found.states, lost: found.lost }
    }

    fn is_pair(&self) -> bool {
        self.laws.len() == 2
    }

    fn ticks(&self, model: usize, rows: u16) -> u16 {
        let ticks = self.laws[model].step_s(f64::from(rows)) / self.tick_s;
        ticks.round().clamp(1.0, f64::from(u16::MAX)) as u16
    }

    fn tokens_of_row(&self, model: usize) -> f64 {
        self.routes[model].iter().zip(&self.commits[model]).map(|(p, c)| p * c).sum()
    }
}

const STATES_MAX: usize = 60_000;
/// Thresholds up to which all are tried.
const ALL_TRIED: usize = 16;
/// By how much a threshold has to be better for it to be more than what the iteration leaves open.
const NOISE: f64 = 1.0 + 1e-5;
/// Journeys up to which two models are followed from completion to completion, like more of them.
const FOLLOWED_JOURNEYS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::reference_chain;

    /// One journey: 1 / 0.35 small steps and one large one give 1 / 0.35 tokens.
    #[test]
    fn one_journey_is_a_renewal_process() {
        let rate = reference_chain(1).tokens_per_s(&[1, 1]).unwrap().tokens_per_s;
        let steps = 1.0 / 0.35;
        assert!((rate / (steps / (steps * 0.006 + 0.0279)) - 1.0).abs() < 1e-5, "{rate}");
    }

    /// Both ways of looking at two models, over thresholds, with the paper's laws, and with such that depend on the rows,
    /// visits that end by chance, and a second model that is faster than the first.
    #[test]
    fn the_chain_seen_at_starts_gives_what_the_one_seen_at_completions_does() {
        let law = |fixed_s, row_s| Affine { fixed_s, row_s };
        let rows = Chain { laws: vec![law(0.9, 0.1), law(3.0, 0.25)], tick_s: 0.5, ..reference_chain(1) };
        let quick = Chain { laws: vec![law(2.0, 0.0), law(0.6, 0.0)], tick_s: 0.2, ..reference_chain(1) };
        let by_chance = vec![vec![0.7, 0.3], vec![0.4, 0.6]];
        let chance = Chain {
            routes: by_chance.clone(),
            commits: vec![vec![1.0, 0.0], vec![1.0, 1.0]],
            ..rows.clone()
        };
        let quick_chance = Chain { routes: by_chance, ..quick.clone() };
        let cases = [(reference_chain(1), 16), (rows, 6), (quick, 10), (chance, 5), (quick_chance, 6)];
        for (chain, most) in cases {
            for journeys in [1, 2, 3, 5, most] {
                let chain = Chain { journeys, ..chain.clone() };
                let mut starts = Starts::new(&chain).unwrap();
                for last in (1..=journeys).step_by(1 + journeys / 6) {
                    let full = Built::of(&chain, &[1, last]).unwrap().rate();
                    let found = starts.rate(last);
                    let apart = (found.rate / full - 1.0).abs();
                    assert!(
                        apart < 1e-4,
                        "{} for {full} with N {journeys} B {last} of {chain:?}",
                        found.rate
                    );
                    assert!(found.lost < 1e-6, "{found:?}");
                }
            }
        }
    }

    /// High thresholds leave few enough states for both also with many journeys.
    #[test]
    fn many_journeys_agree_where_the_chain_seen_at_completions_can_be_solved() {
        for (journeys, last) in [(32, 20), (32, 28), (64, 56)] {
            let chain = reference_chain(journeys);
            let full = Built::of(&chain, &[1, last]).unwrap().rate() / chain.tick_s;
            let ours = chain.tokens_per_s(&[1, last]).unwrap().tokens_per_s;
            assert!((ours / full - 1.0).abs() < 1e-4, "{ours} for {full} with N {journeys} B {last}");
        }
    }

    #[test]
    fn thresholds_that_may_block_each_other_are_told_apart() {
        let chain = reference_chain(4);
        assert!(chain.is_feasible(&[1, 4]) && chain.is_feasible(&[2, 3]));
        assert!(!chain.is_feasible(&[2, 4]) && !chain.is_feasible(&[1, 5]));
    }

    #[test]
    fn too_many_states_are_refused() {
        let mut chain = reference_chain(8);
        chain.states_max = 20;
        assert_eq!(chain.best(), Err(TooManyStates));
    }

    /// Three models, the next one drawn by weight after every token: with equal steps and one journey a token a step.
    #[test]
    fn more_than_two_models_are_covered() {
        let law = Affine { fixed_s: 0.01, row_s: 0.0 };
        let line = vec![0.5, 0.3, 0.2];
        let chain = Chain {
            laws: vec![law; 3],
            routes: vec![line.clone(), line.clone(), line],
            commits: vec![vec![1.0; 3]; 3],
            journeys: 1,
            tick_s: 0.01,
            states_max: 1000,
        };
        assert!((chain.tokens_per_s(&[1, 1, 1]).unwrap().tokens_per_s - 100.0).abs() < 1e-6);
    }

    #[test]
    fn many_short_visits_within_a_long_step_are_given_up() {
        // A step of the first model with all rows is as long as fifty of the second, each with every way of ending.
        let law = |fixed_s, row_s| Affine { fixed_s, row_s };
        let pair = crate::plan::Pair {
            journeys: 12.0,
            share: 0.3,
            visit_tokens: 1.5,
            small: law(0.1, 5.0),
            large: law(1.0, 0.1),
        };
        let chain = Chain::of_pair(&pair, 1.3);
        assert_eq!(chain.best(), Err(TooManyStates));
        // Visits of one token have one way of ending.
        let short = Chain::of_pair(&crate::plan::Pair { visit_tokens: 1.0, ..pair }, 1.3);
        assert!(short.best().is_ok());
    }
}
