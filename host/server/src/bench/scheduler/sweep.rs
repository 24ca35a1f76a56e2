//! Many situations: how near our plan comes to the best thresholds that a search finds, and what the others reach.

use std::collections::BTreeMap;

use scheduler::study::{self, Compared, Grid, Regime, RegimeLoad};
use serde_json::json;

use crate::terminal::{Align, Table};

/// How much of the grid is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A few dozen situations, in seconds.
    Quick,
    /// All 720 per way of sharing devices and length of visits; an hour or more.
    Full,
}

/// What the runs gave, of both ways of sharing devices and visits of one and four tokens.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    cells: Vec<Compared>,
}

impl Extent {
    fn grids(self) -> Vec<Grid> {
        let kinds = [(true, 1), (true, 4), (false, 1), (false, 4)];
        let grid = |(is_shared, visit_tokens)| match self {
            Self::Full => Grid::full(is_shared, visit_tokens),
            Self::Quick => Grid {
                journeys: vec![1, 4, 16, 64],
                shares: vec![0.05, 0.2],
                ratios: vec![5.0, 20.0],
                fixed_over_row: vec![200.0, 4.0],
                tokens: 30_000,
                ..Grid::full(is_shared, visit_tokens)
            },
        };
        kinds.map(grid).into()
    }

    /// Situations.
    #[must_use]
    pub fn cells(self) -> usize {
        self.grids().iter().map(|grid| grid.cells().len()).sum()
    }

    /// Runs all; `progress` is called after each situation.
    pub fn run(self, mut progress: impl FnMut()) -> Sweep {
        let cells = self.grids().iter().flat_map(|grid| study::sweep(grid, |_, _| progress())).collect();
        Sweep { cells }
    }
}

/// Ratios of our throughput to another's over some situations.
struct Ratios(Vec<f64>);

impl Ratios {
    fn of(cells: &[&Compared], other: impl Fn(&Compared) -> Option<f64>) -> Self {
        let ratio = |cell: &&Compared| other(cell).map(|other| cell.ours.tokens_per_s / other);
        Self(cells.iter().filter_map(ratio).collect())
    }

    fn mean(&self) -> f64 {
        (self.0.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.0.len().max(1) as f64).exp()
    }

    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn share_of_at_least(&self, bound: f64) -> f64 {
        self.0.iter().filter(|ratio| **ratio >= bound).count() as f64 / self.0.len().max(1) as f64
    }
}

impl Sweep {
    /// For programs: every situation, and the summary by regime.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let cell = |cell: &Compared| {
            json!({
                "shared": cell.regime.is_shared,
                "n": cell.pair.journeys,
                "p": cell.pair.share,
                "visit_tokens": cell.pair.visit_tokens,
                "ratio": cell.pair.large.step_s(1.0) / cell.pair.small.step_s(1.0),
                "fixed_over_row": cell.pair.small.fixed_s / cell.pair.small.row_s,
                "b_star": cell.ours.batch.get(1),
                "ours": cell.ours.tokens_per_s,
                "predicted": cell.ours.predicted_tokens_per_s,
                "eager_async": cell.eager,
                "step_sync": cell.step_sync,
                "model_sync": cell.model_sync,
                "paper_dtmc": cell.paper,
                "oracle": cell.oracle,
                "oracle_b": cell.oracle_batch,
            })
        };
        json!({ "engine": "sim", "cells": self.cells.iter().map(cell).collect::<Vec<_>>() })
    }

    /// By regime, and all together.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            Align::Left,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
        ]);
        let head: [&dyn std::fmt::Display; 9] = [
            &"ours over",
            &"cells",
            &"oracle",
            &">= 98 %",
            &"eager",
            &"least",
            &"step-sync",
            &"model-sync",
            &"paper",
        ];
        table.row(head);
        let mut regimes: BTreeMap<Regime, Vec<&Compared>> = BTreeMap::new();
        for cell in &self.cells {
            regimes.entry(cell.regime).or_default().push(cell);
        }
        for (regime, cells) in &regimes {
            summarise(&mut table, &title(*regime), cells);
        }
        summarise(&mut table, "all", &self.cells.iter().collect::<Vec<_>>());
        table
    }
}

fn summarise(table: &mut Table, title: &str, cells: &[&Compared]) {
    let oracle = Ratios::of(cells, |cell| cell.oracle);
    let eager = Ratios::of(cells, |cell| Some(cell.eager));
    let mean = |ratios: &Ratios| format!("{:.3}", ratios.mean());
    table.row([
        &title,
        &cells.len(),
        &mean(&oracle),
        &format!("{:.1} %", 100.0 * oracle.share_of_at_least(0.98)),
        &mean(&eager),
        &format!("{:.3}", eager.least()),
        &mean(&Ratios::of(cells, |cell| Some(cell.step_sync))),
        &mean(&Ratios::of(cells, |cell| Some(cell.model_sync))),
        &mean(&Ratios::of(cells, |cell| cell.paper)),
    ]);
}

fn title(regime: Regime) -> String {
    let devices = if regime.is_shared { "shared" } else { "separate" };
    let cost = if regime.is_compute_bound { "per row" } else { "per step" };
    let load = match regime.load {
        RegimeLoad::Light => "y < 0.6",
        RegimeLoad::Even => "y < 1.2",
        RegimeLoad::Heavy => "y < 3",
        RegimeLoad::Dominant => "y >= 3",
    };
    format!("{devices}, cost {cost}, {load}")
}
