//! The chain of two models seen at the starts of the first, which admits at once: exact, and small enough for many
//! journeys.
//!
//! When the first model starts, it takes all that wait there, so that of the state only three numbers are left: how many
//! wait for the second model (`q`), how many are in its step (`r`), and what is left of that step in ticks; the other
//! `N - q - r` are in the step that starts. What follows until the next start is one binomial, how many of those are
//! routed. `N = 64` has two hundred thousand such states at low thresholds, and some thousands at high ones.
//!
//! Steps of fixed length make the residual nearly periodic, so plain iteration takes tens of thousands of turns. The
//! chain is therefore lumped by the residual now and then: the lumped chain, of which each state is a tick, is solved, and
//! the distribution scaled to it (aggregation and disaggregation after Takahashi). The two agree in the fixed point, so
//! this is exact as well.
//!
//! What is cut: states of less than [`SHARE_MIN`] are not followed, and binomial tails below [`CHANCE_MIN`] are left out;
//! what is lost is spread over the rest. [`Found::lost`] says how much that was in a turn; a restart changes what a
//! journey does for a few turns only, so that the relative error of the rate is of its order. In the paper's table it is
//! most at `N = 64` without delay, 4e-6; where the chain seen at completions can be solved the two differ by less.

use super::stationary::stationary;
use super::{Chain, TooManyStates};
use crate::plan::numbers::binomial;

/// What became of one choice of the threshold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Tokens per tick.
    pub(super) rate: f64,
    /// States that were followed.
    pub(super) states: usize,
    /// Share of the distribution that was cut in the last turn.
    pub(super) lost: f64,
}

/// The chain with the distribution that was found last, from which the next threshold is begun.
pub(super) struct Starts {
    journeys: usize,
    /// Ticks of a step by its rows.
    first_ticks: Vec<usize>,
    second_ticks: Vec<usize>,
    /// How many of so many rows of the first model are routed, and of the second stay.
    routed: Vec<Window>,
    stay: Vec<Window>,
    /// Tokens of a row of each.
    tokens: [f64; 2],
    residuals: usize,
    share: Table,
    /// Empty, for the next turn to write to.
    next: Table,
}

/// A distribution over states: for each residual and number of rows a line over those that wait.
#[derive(Clone, Default)]
struct Table {
    side: usize,
    cells: Vec<f64>,
    /// Which lines have anything in them; at high thresholds few do.
    used: Vec<bool>,
}

/// Probabilities of consecutive numbers, without the tails.
struct Window {
    from: usize,
    chances: Vec<f64>,
}

/// The second model at some time within a step of the first.
#[derive(Clone, Copy)]
struct Large {
    chance: f64,
    waiting: usize,
    rows: usize,
    /// Ticks left of its step; 0 if there is none.
    residual: usize,
    /// Ticks left of the first model's step.
    left: usize,
}

/// Sums over one turn.
struct Sums {
    tokens: f64,
    ticks: f64,
    states: usize,
    lost: f64,
    /// Flow between residuals.
    flows: Vec<Vec<f64>>,
}

impl Starts {
    /// # Errors
    /// [`TooManyStates`] where a table of all states would be larger than the chain allows, or where too much can happen
    /// within one step of the first model.
    pub(super) fn new(chain: &Chain) -> Result<Self, TooManyStates> {
        let journeys = chain.journeys;
        let ticks = |model| (0..=journeys).map(|rows| usize::from(chain.ticks(model, rows as u16))).collect();
        let windows = |chance: f64| (0..=journeys).map(|rows| Window::new(rows, chance)).collect();
        let (first_ticks, second_ticks): (Vec<usize>, Vec<usize>) = (ticks(0), ticks(1));
        // Every visit may stay or end at each of the second model's steps, and all ways are followed.
        let within = first_ticks[journeys] / second_ticks[1].max(1);
        if chain.routes[1][1] > 0.0 && within > FOLLOWED_STEPS_MAX {
            return Err(TooManyStates);
        }
        let residuals = second_ticks.iter().max().map_or(1, |most| most + 1);
        let slots = residuals * (journeys + 1) * (journeys + 1);
        if slots > chain.states_max {
            return Err(TooManyStates);
        }
        let next = Table::new(residuals, journeys + 1);
        let mut share = next.clone();
        share.line(0, 0)[0] = 1.0;
        Ok(Self {
            journeys,
            first_ticks,
            second_ticks,
            routed: windows(chain.routes[0][1]),
            stay: windows(chain.routes[1][1]),
            tokens: [chain.tokens_of_row(0), chain.tokens_of_row(1)],
            residuals,
            share,
            next,
        })
    }

    /// The rate with this threshold of the second model.
    pub(super) fn rate(&mut self, batch: usize) -> Found {
        let (mut before, mut agreed) = (0.0, 0);
        let mut round = 0;
        loop {
            // Longer from round to round: scaling shakes up how rows are spread for a given residual, which may calm down
            // slowly, and with rounds of one length the two may chase each other for ever.
            (0..TURNS * (round + 1)).for_each(|_| drop(self.turn(batch)));
            let sums = self.turn(batch);
            let rate = sums.tokens / sums.ticks;
            agreed = if (rate - before).abs() < AGREES * rate { agreed + 1 } else { 0 };
            if agreed == AGREED_ROUNDS || round == ROUNDS_MAX {
                return Found { rate, states: sums.states, lost: sums.lost };
            }
            (before, round) = (rate, round + 1);
            self.scale_to(&sums.flows);
        }
    }

    /// One turn of the chain from the distribution as it is. A part of every share stays: it might alternate for ever.
    fn turn(&mut self, batch: usize) -> Sums {
        let flows = vec![vec![0.0; self.residuals]; self.residuals];
        let mut sums = Sums { tokens: 0.0, ticks: 0.0, states: 0, lost: 0.0, flows };
        let mut next = std::mem::take(&mut self.next);
        let mut open = Vec::new();
        for (residual, rows, waiting, chance) in self.share.states() {
            next.line(residual, rows)[waiting] += STAY * chance;
            let here = self.journeys - rows - waiting;
            let left = if here > 0 { self.first_ticks[here] } else { residual };
            sums.states += 1;
            sums.ticks += chance * left as f64;
            sums.tokens += chance * here as f64 * self.tokens[0];
            open.push(Large { chance, waiting, rows, residual, left });
            sums.tokens += self.follow(batch, &mut open);
            for large in open.drain(..) {
                self.route((batch, here), large, &mut next, &mut sums.flows[residual]);
            }
        }
        let kept = next.total();
        sums.lost = 1.0 - kept;
        next.scale(|_| 1.0 / kept);
        self.next = std::mem::replace(&mut self.share, next);
        self.next.clear();
        sums
    }

    /// Lets the second model work until the step of the first ends, in every way in which its visits may end; the tokens.
    fn follow(&self, batch: usize, open: &mut Vec<Large>) -> f64 {
        let (mut tokens, mut at) = (0.0, 0);
        while let Some(&now) = open.get(at) {
            if now.residual == 0 || now.residual > now.left {
                open[at] = Large { residual: now.residual.saturating_sub(now.left), left: 0, ..now };
                at += 1;
                continue;
            }
            tokens += now.chance * now.rows as f64 * self.tokens[1];
            let idle = Large { rows: 0, residual: 0, left: now.left - now.residual, ..now };
            let ended = self.stay[now.rows].iter().map(|(stay, chance)| {
                let ended = Large { chance: now.chance * chance, waiting: now.waiting + stay, ..idle };
                // Where both steps end at once, those that are routed now count too.
                if idle.left > 0 { self.started(batch, ended) } else { ended }
            });
            open.extend(ended);
            open.swap_remove(at);
        }
        tokens
    }

    /// Ends the step of the first model with `here` rows, in every way in which they may be routed.
    fn route(&self, (batch, here): (usize, usize), large: Large, next: &mut Table, flows: &mut [f64]) {
        let chance = (1.0 - STAY) * large.chance;
        let routed = &self.routed[here];
        if large.residual > 0 {
            let line = &mut next.line(large.residual, large.rows)[large.waiting + routed.from..];
            line.iter_mut().zip(&routed.chances).for_each(|(slot, p)| *slot += chance * p);
            flows[large.residual] += chance;
            return;
        }
        for (more, p) in routed.iter() {
            let then = self.started(batch, Large { waiting: large.waiting + more, ..large });
            next.line(then.residual, then.rows)[then.waiting] += chance * p;
            flows[then.residual] += chance * p;
        }
    }

    /// The second model takes all that wait if it is idle and has its threshold.
    fn started(&self, batch: usize, large: Large) -> Large {
        if large.residual > 0 || large.waiting < batch.max(1) {
            return large;
        }
        Large { waiting: 0, rows: large.waiting, residual: self.second_ticks[large.waiting], ..large }
    }

    /// Scales the distribution so that residuals are as likely as in the chain lumped by them.
    fn scale_to(&mut self, flows: &[Vec<f64>]) {
        let mut mass = vec![0.0; self.residuals];
        self.share.states().for_each(|(residual, _, _, chance)| mass[residual] += chance);
        let seen: Vec<usize> =
            (0..self.residuals).filter(|at| flows[*at].iter().sum::<f64>() > 0.0).collect();
        let line = |from: &usize| {
            let total: f64 = flows[*from].iter().sum();
            seen.iter().map(|to| flows[*from][*to] / total).collect()
        };
        let lumped: Vec<Vec<f64>> = seen.iter().map(line).collect();
        let last = (0..seen.len()).max_by(|a, b| mass[seen[*a]].total_cmp(&mass[seen[*b]]));
        let level = stationary(&lumped, last.unwrap_or(0));
        if level.iter().any(|share| !share.is_finite()) {
            return;
        }
        let mut factors = vec![1.0; self.residuals];
        for (residual, level) in seen.into_iter().zip(level) {
            factors[residual] = level / mass[residual].max(f64::MIN_POSITIVE);
        }
        self.share.scale(|residual| factors[residual]);
        let total = self.share.total();
        self.share.scale(|_| 1.0 / total);
    }
}

impl Table {
    fn new(residuals: usize, side: usize) -> Self {
        let lines = residuals * side;
        Self { side, cells: vec![0.0; lines * side], used: vec![false; lines] }
    }

    /// The line over those that wait, to be written to.
    fn line(&mut self, residual: usize, rows: usize) -> &mut [f64] {
        let line = residual * self.side + rows;
        self.used[line] = true;
        &mut self.cells[line * self.side..][..self.side]
    }

    /// Residual, rows, waiting and share of every state that is followed.
    fn states(&self) -> impl Iterator<Item = (usize, usize, usize, f64)> {
        self.lines().flat_map(move |(line, cells)| {
            let shares = cells.iter().enumerate().filter(|(_, share)| **share >= SHARE_MIN);
            shares.map(move |(waiting, share)| (line / self.side, line % self.side, waiting, *share))
        })
    }

    fn total(&self) -> f64 {
        self.lines().map(|(_, cells)| cells.iter().sum::<f64>()).sum()
    }

    /// Multiplies every share by the factor for its residual.
    fn scale(&mut self, factor: impl Fn(usize) -> f64) {
        for (line, cells) in self.cells.chunks_mut(self.side).enumerate().filter(|(line, _)| self.used[*line])
        {
            let factor = factor(line / self.side);
            cells.iter_mut().for_each(|share| *share *= factor);
        }
    }

    fn clear(&mut self) {
        self.scale(|_| 0.0);
        self.used.fill(false);
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &[f64])> {
        self.cells.chunks(self.side).enumerate().filter(|(line, _)| self.used[*line])
    }
}

impl Window {
    fn new(trials: usize, chance: f64) -> Self {
        let all = binomial(trials, chance);
        let from = all.iter().position(|p| *p > CHANCE_MIN).unwrap_or(0);
        let to = all.iter().rposition(|p| *p > CHANCE_MIN).unwrap_or(0);
        Self { from, chances: all[from..=to].to_vec() }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, f64)> {
        self.chances.iter().enumerate().map(|(at, p)| (self.from + at, *p))
    }
}

/// Shares that are not followed.
const SHARE_MIN: f64 = 1e-9;
/// Outcomes less likely than this are left out.
const CHANCE_MIN: f64 = 1e-9;
/// Part of every share that stays in a turn.
const STAY: f64 = 0.1;
/// Turns before the one that is looked at, in the first round.
const TURNS: usize = 7;
/// Most steps of the second model within one of the first where its visits last.
const FOLLOWED_STEPS_MAX: usize = 8;
/// Relative change of the rate over a round that counts as none, and rounds in a row that have to agree.
const AGREES: f64 = 1e-5;
const AGREED_ROUNDS: usize = 2;
const ROUNDS_MAX: usize = 40;
