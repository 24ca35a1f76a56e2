//! Studies of the rules of this crate, as plain data: what `tokenrouter bench scheduler` prints.
//!
//! [`reference()`] is the paper's own table by the paper's own model; [`sweep`] compares the modes, and the best thresholds
//! that a search finds, over a grid of situations; [`throughput_curve`] is throughput over the number of journeys.

use crate::conductor::Mode;
use crate::law::Affine;
use crate::plan::paper::Chain;
use crate::plan::{Order, Pair};
use crate::simulate::{Demand, Outcome, Scenario, oracle, run};

/// One entry of the paper's table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference {
    /// Journeys (`N`).
    pub journeys: usize,
    /// Threshold of the large model (`B1`).
    pub batch: usize,
    /// Tokens per second by the chain.
    pub tokens_per_s: f64,
    /// What the paper gives for its model, if it does.
    pub paper_tokens_per_s: Option<f64>,
    /// Whether no other threshold is better for so many journeys.
    pub is_best: bool,
}

/// The paper's table for R2R (6.0 ms and 27.9 ms, `p = 0.35`), with more journeys where the chain can be built.
#[must_use]
pub fn reference(journeys: &[usize]) -> Vec<Reference> {
    let mut table = Vec::new();
    for &journeys in journeys {
        let chain = reference_chain(journeys);
        let Ok(rated) = chain.sweep(1..=journeys) else { continue };
        let best = rated.iter().map(|rated| rated.tokens_per_s).max_by(f64::total_cmp);
        table.extend(rated.iter().map(|rated| Reference {
            journeys,
            batch: rated.batch[1],
            tokens_per_s: rated.tokens_per_s,
            paper_tokens_per_s: paper_value(journeys, rated.batch[1]),
            is_best: Some(rated.tokens_per_s) == best,
        }));
    }
    table
}

/// R2R as in the paper, on a grid of 0.3 ms, which divides both step times.
#[must_use]
pub fn reference_chain(journeys: usize) -> Chain {
    let law = |fixed_s| Affine { fixed_s, row_s: 0.0 };
    Chain {
        laws: vec![law(0.006), law(0.0279)],
        routes: vec![vec![0.65, 0.35], vec![1.0, 0.0]],
        commits: vec![vec![1.0, 0.0], vec![1.0, 0.0]],
        journeys,
        tick_s: 0.0003,
        states_max: REFERENCE_STATES_MAX,
    }
}

fn paper_value(journeys: usize, batch: usize) -> Option<f64> {
    let line = PAPER_TABLE.iter().find(|(n, _)| *n == journeys)?;
    line.1.get(batch - 1).copied()
}

/// A grid of situations of two models. Times are in steps of the small model with one row, `T_S(1) = 1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Whether both models share a device.
    pub is_shared: bool,
    /// Numbers of journeys.
    pub journeys: Vec<usize>,
    /// Probabilities of being routed.
    pub shares: Vec<f64>,
    /// Step times of the large model with one row.
    pub ratios: Vec<f64>,
    /// Fixed cost of a step over that of a row, the same for both models.
    pub fixed_over_row: Vec<f64>,
    /// Tokens of a visit.
    pub visit_tokens: Vec<u32>,
    /// Tokens of a run; a quarter of it where that is enough, four times as many where visits are rare.
    pub tokens: u64,
    /// Whether to search the best thresholds, some fifty runs for each situation.
    pub searches: bool,
    /// Whether to run the paper's thresholds.
    pub runs_paper: bool,
}

impl Grid {
    /// The grid on which the rules were derived: 720 situations.
    #[must_use]
    pub fn full(is_shared: bool, visit_tokens: u32) -> Self {
        Self {
            is_shared,
            journeys: vec![1, 2, 4, 8, 16, 32, 64, 128, 256],
            shares: vec![0.02, 0.05, 0.1, 0.2, 0.4],
            ratios: vec![2.0, 5.0, 10.0, 20.0],
            fixed_over_row: vec![200.0, 32.0, 4.0, 0.5],
            visit_tokens: vec![visit_tokens],
            tokens: 150_000,
            searches: true,
            runs_paper: true,
        }
    }

    /// The situations, in order.
    #[must_use]
    pub fn cells(&self) -> Vec<Pair> {
        let mut cells = Vec::new();
        for &fixed_over_row in &self.fixed_over_row {
            let law = |step_s: f64| {
                let row_s = step_s / (1.0 + fixed_over_row);
                Affine { fixed_s: row_s * fixed_over_row, row_s }
            };
            for &ratio in &self.ratios {
                for &share in &self.shares {
                    for &visit_tokens in &self.visit_tokens {
                        cells.extend(self.journeys.iter().map(|journeys| Pair {
                            journeys: *journeys as f64,
                            share,
                            visit_tokens: f64::from(visit_tokens),
                            small: law(1.0),
                            large: law(ratio),
                        }));
                    }
                }
            }
        }
        cells
    }
}

/// What kind of situation it is: where delay can be expected to help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regime {
    /// Whether the models share a device.
    pub is_shared: bool,
    /// Whether steps cost mostly per row rather than once (`a < 8 c`).
    pub is_compute_bound: bool,
    /// How busy the large model is.
    pub load: RegimeLoad,
}

/// The large model's share of the work, by `y = p k T_L / T_S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegimeLoad {
    /// `y < 0.6`.
    Light,
    /// `y < 1.2`.
    Even,
    /// `y < 3`.
    Heavy,
    /// `y >= 3`.
    Dominant,
}

/// One situation in every mode; tokens per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The situation.
    pub pair: Pair,
    /// Its kind.
    pub regime: Regime,
    /// Our mode.
    pub ours: Outcome,
    /// Immediate admission, at once on a shared device.
    pub eager: f64,
    /// A barrier each step.
    pub step_sync: f64,
    /// One model until nobody is left there.
    pub model_sync: f64,
    /// The threshold of the paper's chain under the true laws.
    pub paper: Option<f64>,
    /// The best thresholds that were found.
    pub oracle: Option<f64>,
    /// The threshold that they have for the large model.
    pub oracle_batch: Option<usize>,
}

/// Runs every situation of a grid in every mode. `progress` is told how many of how many are done.
pub fn sweep(grid: &Grid, mut progress: impl FnMut(usize, usize)) -> Vec<Compared> {
    let cells = grid.cells();
    let total = cells.len();
    let mut results = Vec::with_capacity(total);
    for pair in cells {
        results.push(compare(grid, &pair));
        progress(results.len(), total);
    }
    results
}

/// Runs one situation in every mode.
#[must_use]
pub fn compare(grid: &Grid, pair: &Pair) -> Compared {
    let mut scenario = Scenario::pair(pair, grid.is_shared);
    let cycles = (pair.journeys / pair.share * CYCLES_MIN) as u64;
    scenario.tokens = cycles.clamp(grid.tokens / 4, 4 * grid.tokens);
    let rate = |mode| run(&scenario, mode).tokens_per_s;
    let order = if grid.is_shared { Order::Exclusive } else { Order::Parallel };
    let best = grid.searches.then(|| oracle::search(&scenario, order, !grid.is_shared));
    Compared {
        pair: *pair,
        regime: regime(pair, grid.is_shared),
        ours: run(&scenario, Mode::Ours),
        eager: rate(Mode::EagerAsync),
        step_sync: rate(Mode::StepSync),
        model_sync: rate(Mode::ModelSync),
        paper: grid.runs_paper.then(|| rate(Mode::PaperDtmc)),
        oracle: best.as_ref().map(|(_, outcome)| outcome.tokens_per_s),
        oracle_batch: best.map(|(thresholds, _)| thresholds.batch[1]),
    }
}

/// The kind of a situation.
#[must_use]
pub fn regime(pair: &Pair, is_shared: bool) -> Regime {
    let load = match pair.ratio() {
        y if y < 0.6 => RegimeLoad::Light,
        y if y < 1.2 => RegimeLoad::Even,
        y if y < 3.0 => RegimeLoad::Heavy,
        _ => RegimeLoad::Dominant,
    };
    Regime { is_shared, is_compute_bound: pair.small.fixed_s < 8.0 * pair.small.row_s, load }
}

/// Throughput of one mode with one number of journeys.
#[derive(Clone, Debug, PartialEq)]
pub struct CurvePoint {
    /// Journeys at a time.
    pub journeys: usize,
    /// How it was decided who runs.
    pub mode: Mode,
    /// What was measured.
    pub outcome: Outcome,
}

/// Runs a scenario with each number of journeys in each mode. `progress` is told how many of how many are done.
pub fn throughput_curve(
    scenario: &Scenario,
    journeys: impl IntoIterator<Item = usize>,
    modes: &[Mode],
    mut progress: impl FnMut(usize, usize),
) -> Vec<CurvePoint> {
    let journeys: Vec<usize> = journeys.into_iter().collect();
    let total = journeys.len() * modes.len();
    let mut points = Vec::with_capacity(total);
    for journeys in journeys {
        let scenario = Scenario { demand: Demand::Closed(journeys), ..scenario.clone() };
        for mode in modes {
            points.push(CurvePoint { journeys, mode: mode.clone(), outcome: run(&scenario, mode.clone()) });
            progress(points.len(), total);
        }
    }
    points
}

/// The paper's model, thresholds from 1 on.
const PAPER_TABLE: [(usize, &[f64]); 3] =
    [(2, &[99.0, 110.3]), (3, &[142.3, 158.1, 151.9]), (4, &[187.2, 195.4, 207.9, 190.7])];
/// Enough for the table of a hundred journeys.
const REFERENCE_STATES_MAX: usize = 1_000_000;
/// Visits of every journey that a run should see.
const CYCLES_MIN: f64 = 60.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_table_is_reproduced_within_a_per_cent_with_the_same_best() {
        let table = reference(&[2, 3, 4]);
        assert_eq!(table.len(), 9);
        for entry in &table {
            let expected = entry.paper_tokens_per_s.unwrap();
            assert!((entry.tokens_per_s / expected - 1.0).abs() < 0.01, "{entry:?}");
        }
        let best: Vec<usize> = table.iter().filter(|entry| entry.is_best).map(|entry| entry.batch).collect();
        assert_eq!(best, [2, 2, 3]);
    }

    /// A threshold gives the same on its own as in the table, where it begins with its neighbour's distribution.
    #[test]
    fn the_table_goes_on_to_many_journeys() {
        let table = reference(&[16]);
        let chain = reference_chain(16);
        for entry in table.iter().filter(|entry| entry.batch % 5 == 0) {
            let alone = chain.tokens_per_s(&[1, entry.batch]).unwrap().tokens_per_s;
            assert!((entry.tokens_per_s / alone - 1.0).abs() < 1e-4, "{entry:?} for {alone}");
        }
        let best = table.iter().find(|entry| entry.is_best).map(|entry| entry.batch);
        assert_eq!(best, Some(10));
        let rated = reference_chain(64).sweep([37, 40, 43]).unwrap();
        let rates: Vec<f64> = rated.iter().map(|rated| rated.tokens_per_s).collect();
        assert!(rates[1] > rates[0] && rates[1] > rates[2], "{rates:?}");
        assert!(rated.iter().all(|rated| rated.lost < 1e-6), "{rated:?}");
    }

    #[test]
    fn a_sweep_reports_each_cell_and_its_progress() {
        let grid = Grid {
            journeys: vec![1, 4],
            shares: vec![0.2],
            ratios: vec![5.0],
            fixed_over_row: vec![200.0],
            tokens: 8_000,
            ..Grid::full(true, 1)
        };
        let mut seen = Vec::new();
        let results = sweep(&grid, |done, total| seen.push((done, total)));
        assert_eq!(seen, [(1, 2), (2, 2)]);
        assert!(results[1].ours.tokens_per_s > 1.2 * results[1].step_sync);
        assert!(results[1].oracle.is_some() && results[1].paper.is_some());
        assert_eq!(results[1].regime.load, RegimeLoad::Even);
    }

    #[test]
    fn a_curve_has_a_point_for_each_mode_and_number() {
        let pair = Pair {
            journeys: 1.0,
            share: 0.1,
            visit_tokens: 1.0,
            small: Affine { fixed_s: 1.0, row_s: 0.01 },
            large: Affine { fixed_s: 8.0, row_s: 0.08 },
        };
        let scenario = Scenario { tokens: 5_000, ..Scenario::pair(&pair, true) };
        let points = throughput_curve(&scenario, [1, 8], &[Mode::Ours, Mode::StepSync], |_, _| {});
        assert_eq!(points.len(), 4);
        assert!(points[2].outcome.tokens_per_s > 2.0 * points[0].outcome.tokens_per_s);
    }
}
