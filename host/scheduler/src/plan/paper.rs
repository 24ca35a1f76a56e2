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
//! `N` journeys comes with all ticks of a step. So
//! [`Chain::tokens_per_s`] gives up beyond [`Chain::states_max`].

use std::collections::BTreeMap;

use super::numbers::binomial;
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
        let built = Built::of(self, batch)?;
        let rate = built.rate() / self.tick_s;
        Ok(Rated { batch: batch.to_vec(), tokens_per_s: rate, states: built.moves.len() })
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
        let mut best: Option<Rated> = None;
        for last in thresholds {
            let mut batch = vec![1; self.laws.len()];
            batch[self.laws.len() - 1] = last;
            let rated = self.tokens_per_s(&batch)?;
            if best.as_ref().is_none_or(|best| rated.tokens_per_s > best.tokens_per_s) {
                best = Some(rated);
            }
        }
        best.ok_or(TooManyStates)
    }

    fn ticks(&self, model: usize, rows: u16) -> u16 {
        let ticks = self.laws[model].step_s(f64::from(rows)) / self.tick_s;
        ticks.round().clamp(1.0, f64::from(u16::MAX)) as u16
    }

    fn tokens_of_row(&self, model: usize) -> f64 {
        self.routes[model].iter().zip(&self.commits[model]).map(|(p, c)| p * c).sum()
    }
}

/// One model within a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    waiting: u16,
    running: u16,
    residual: u16,
}

type Weighted = (Vec<Spot>, f64);

/// What follows a state.
struct Move {
    ticks: f64,
    tokens: f64,
    to: Vec<(usize, f64)>,
}

struct Built {
    moves: Vec<Move>,
}

impl Built {
    fn of(chain: &Chain, batch: &[usize]) -> Result<Self, TooManyStates> {
        let mut first = vec![Spot::default(); chain.laws.len()];
        first[0].waiting = chain.journeys as u16;
        start(chain, batch, &mut first);
        let mut names = BTreeMap::from([(first.clone(), 0)]);
        let mut open = vec![first];
        let mut moves = Vec::new();
        while moves.len() < open.len() {
            let (mut following, ticks, tokens) = completions(chain, &open[moves.len()]);
            let mut to = Vec::with_capacity(following.len());
            for (state, chance) in &mut following {
                start(chain, batch, state);
                let next = names.len();
                let name = *names.entry(state.clone()).or_insert(next);
                if name == next {
                    open.push(state.clone());
                }
                to.push((name, *chance));
            }
            if open.len() > chain.states_max {
                return Err(TooManyStates);
            }
            moves.push(Move { ticks, tokens, to });
        }
        Ok(Self { moves })
    }

    /// Tokens per tick in the stationary distribution.
    ///
    /// Chains with few states are almost periodic, as steps have a fixed length: iterating them takes tens of thousands
    /// of turns, so they are solved. Those with many states mix sooner.
    fn rate(&self) -> f64 {
        if self.moves.len() <= SOLVED_STATES { self.rate_in(&self.stationary()) } else { self.iterated() }
    }

    fn rate_in(&self, share: &[f64]) -> f64 {
        let sum = |of: fn(&Move) -> f64| share.iter().zip(&self.moves).map(|(s, m)| s * of(m)).sum::<f64>();
        sum(|m| m.tokens) / sum(|m| m.ticks)
    }

    fn iterated(&self) -> f64 {
        let mut share = vec![0.0; self.moves.len()];
        share[0] = 1.0;
        let mut before = 0.0;
        for _ in 0..CHECKS_MAX {
            (0..CHECK_TURNS).for_each(|_| share = self.turned(&share, 0.3));
            let rate = self.rate_in(&share);
            if (rate - before).abs() < 1e-6 * rate {
                return rate;
            }
            before = rate;
        }
        before
    }

    /// One turn of the chain, damped: `stay` of every share stays.
    fn turned(&self, share: &[f64], stay: f64) -> Vec<f64> {
        let mut next: Vec<f64> = share.iter().map(|s| stay * s).collect();
        for (from, step) in share.iter().zip(&self.moves) {
            for (to, chance) in &step.to {
                next[*to] += (1.0 - stay) * from * chance;
            }
        }
        next
    }

    /// The stationary distribution by the elimination of Grassmann, Taksar and Heyman, which never subtracts.
    fn stationary(&self) -> Vec<f64> {
        let states = self.moves.len();
        // The state that is left over must be one to which the chain returns; the likeliest after a while is.
        let last = self.likeliest();
        let name = |state: usize| if state == last { 0 } else { state + usize::from(state < last) };
        let mut dense = vec![vec![0.0; states]; states];
        for (from, step) in self.moves.iter().enumerate() {
            for (to, chance) in &step.to {
                dense[name(from)][name(*to)] += chance;
            }
        }
        for gone in (1..states).rev() {
            let (kept, rest) = dense.split_at_mut(gone);
            let out = &rest[0][..gone];
            let leaving: f64 = out.iter().sum();
            for line in kept {
                let into = line[gone] / leaving;
                line[gone] = into;
                if into > 0.0 {
                    line[..gone].iter_mut().zip(out).for_each(|(slot, chance)| *slot += into * chance);
                }
            }
        }
        let mut mass = vec![1.0; states];
        for state in 1..states {
            mass[state] = (0..state).map(|from| mass[from] * dense[from][state]).sum();
        }
        let total: f64 = mass.iter().sum();
        (0..states).map(|state| mass[name(state)] / total).collect()
    }

    fn likeliest(&self) -> usize {
        let mut share = vec![0.0; self.moves.len()];
        share[0] = 1.0;
        (0..WARM_UP_TURNS).for_each(|_| share = self.turned(&share, 0.5));
        (0..share.len()).max_by(|a, b| share[*a].total_cmp(&share[*b])).unwrap_or(0)
    }
}

/// Lets every idle model that has its threshold take all that wait.
fn start(chain: &Chain, batch: &[usize], state: &mut [Spot]) {
    for (model, spot) in state.iter_mut().enumerate() {
        if spot.running == 0 && spot.waiting > 0 && usize::from(spot.waiting) >= batch[model] {
            let residual = chain.ticks(model, spot.waiting);
            *spot = Spot { waiting: 0, running: spot.waiting, residual };
        }
    }
}

/// The states right after the next completion, before anybody starts; with its ticks and tokens.
fn completions(chain: &Chain, state: &[Spot]) -> (Vec<Weighted>, f64, f64) {
    let running = state.iter().filter(|spot| spot.running > 0);
    let ticks = running.map(|spot| spot.residual).min().unwrap_or(1);
    let mut base = state.to_vec();
    let mut tokens = 0.0;
    let mut ended = Vec::new();
    for (model, spot) in base.iter_mut().enumerate().filter(|(_, spot)| spot.running > 0) {
        spot.residual -= ticks;
        if spot.residual == 0 {
            tokens += f64::from(spot.running) * chain.tokens_of_row(model);
            ended.push((model, spot.running));
            spot.running = 0;
        }
    }
    let mut all = vec![(base, 1.0)];
    for (model, rows) in ended {
        all = all.into_iter().flat_map(|from| spread(chain, model, rows, from)).collect();
    }
    (all, f64::from(ticks), tokens)
}

/// Every way in which the rows of a batch may be routed: a multinomial, as one binomial after the other.
fn spread(chain: &Chain, model: usize, rows: u16, from: Weighted) -> Vec<Weighted> {
    let mut open = vec![(from.0, from.1, rows)];
    let mut rest = 1.0;
    let targets = chain.laws.len();
    for to in 0..targets {
        let share = chain.routes[model][to];
        let chance = if to + 1 == targets || rest <= 0.0 { 1.0 } else { (share / rest).min(1.0) };
        let mut next = Vec::new();
        for (state, weight, rows) in open {
            for (taken, p) in binomial(usize::from(rows), chance).into_iter().enumerate() {
                if weight * p > CHANCE_MIN {
                    let mut state = state.clone();
                    state[to].waiting += taken as u16;
                    next.push((state, weight * p, rows - taken as u16));
                }
            }
        }
        open = next;
        rest -= share;
    }
    open.into_iter().map(|(state, weight, _)| (state, weight)).collect()
}

const STATES_MAX: usize = 60_000;
/// States up to which the distribution is solved for, in well below a second.
const SOLVED_STATES: usize = 700;
const CHECK_TURNS: usize = 40;
const CHECKS_MAX: usize = 50;
const WARM_UP_TURNS: usize = 300;
/// Thresholds up to which all are tried.
const ALL_TRIED: usize = 16;
/// Outcomes less likely than this are left out.
const CHANCE_MIN: f64 = 1e-12;

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
}
