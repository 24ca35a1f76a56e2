//! The chain seen at every completion of a batch, for any number of models: states are found by following it.
//!
//! Exact, and the measure of [`super::starts`]. What limits it is the number of states.

use std::collections::BTreeMap;

use super::stationary::stationary;
use super::{Chain, TooManyStates};
use crate::plan::numbers::binomial;

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

/// All states that can be reached, and what follows each.
pub(super) struct Built {
    moves: Vec<Move>,
}

impl Built {
    pub(super) fn of(chain: &Chain, batch: &[usize]) -> Result<Self, TooManyStates> {
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

    pub(super) fn states(&self) -> usize {
        self.moves.len()
    }

    /// Tokens per tick in the stationary distribution.
    ///
    /// Chains with few states are almost periodic, as steps have a fixed length: iterating them takes tens of thousands
    /// of turns, so they are solved. Those with many states mix sooner.
    pub(super) fn rate(&self) -> f64 {
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

    fn stationary(&self) -> Vec<f64> {
        let states = self.moves.len();
        let mut flows = vec![vec![0.0; states]; states];
        for (line, step) in flows.iter_mut().zip(&self.moves) {
            for (to, chance) in &step.to {
                line[*to] += chance;
            }
        }
        stationary(&flows, self.likeliest())
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

/// States up to which the distribution is solved for, in well below a second.
const SOLVED_STATES: usize = 700;
const CHECK_TURNS: usize = 40;
const CHECKS_MAX: usize = 50;
const WARM_UP_TURNS: usize = 300;
/// Outcomes less likely than this are left out.
const CHANCE_MIN: f64 = 1e-12;
