//! The best thresholds that a search can find for a scenario.

use super::{Outcome, Scenario, run};
use crate::conductor::{Mode, Thresholds};
use crate::plan::Order;

/// The best of a coordinate search over the thresholds and timers of two models, and what it does.
///
/// Thresholds of the second model first, then its timer, then threshold and timer of the first; on a shared exclusive
/// device only the first of these matters. Candidates are tried on a third of the tokens and another seed; the best four
/// are then run in full.
#[must_use]
pub fn search(scenario: &Scenario, order: Order, timers: bool) -> (Thresholds, Outcome) {
    let trial = Scenario { tokens: scenario.tokens / 3, seed: scenario.seed ^ 0x4D, ..scenario.clone() };
    let journeys = scenario.journeys_max() as f64;
    let law = scenario.models[0].law;
    let step_s = law.fixed_s + law.row_s * journeys * 0.7;
    let mut tried = Tried { trial: &trial, order, found: Vec::new() };
    for batch in batches(journeys) {
        tried.add(Setting { first: 1.0, first_s: 0.0, last: batch, last_s: f64::INFINITY });
    }
    if timers && journeys > 1.0 {
        let best = tried.best();
        for batch in [best.last, (best.last * 1.5).round().min(journeys), journeys] {
            for steps in [0.25, 0.5, 1.0, 2.0, 4.0] {
                tried.add(Setting { last: batch, last_s: steps * step_s, ..best });
            }
        }
        let best = tried.best();
        for share in [0.5, 0.75, 0.9, 1.0] {
            for steps in [0.25, 0.5, 1.0, f64::INFINITY] {
                tried.add(Setting { first: (share * journeys).max(2.0), first_s: steps * step_s, ..best });
            }
        }
    }
    tried.sort();
    let finalists = tried.found.iter().take(4).map(|(_, setting)| setting.thresholds(order));
    let runs = finalists.map(|thresholds| (thresholds.clone(), run(scenario, Mode::FixedB(thresholds))));
    let best = runs.max_by(|a, b| a.1.tokens_per_s.total_cmp(&b.1.tokens_per_s));
    best.unwrap_or_else(|| (Thresholds::without_timers(vec![1, 1], order), Outcome::default()))
}

/// Thresholds of two models: journeys and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    first: f64,
    first_s: f64,
    last: f64,
    last_s: f64,
}

impl Setting {
    fn thresholds(&self, order: Order) -> Thresholds {
        Thresholds {
            batch: vec![self.first as usize, self.last as usize],
            wait_s: vec![self.first_s, self.last_s],
            order,
        }
    }
}

struct Tried<'a> {
    trial: &'a Scenario,
    order: Order,
    found: Vec<(f64, Setting)>,
}

impl Tried<'_> {
    fn add(&mut self, setting: Setting) {
        if self.found.iter().any(|(_, tried)| *tried == setting) {
            return;
        }
        let outcome = run(self.trial, Mode::FixedB(setting.thresholds(self.order)));
        self.found.push((outcome.tokens_per_s, setting));
    }

    fn best(&mut self) -> Setting {
        self.sort();
        self.found[0].1
    }

    fn sort(&mut self) {
        self.found.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
}

/// Thresholds from 1 to all journeys, 4 to 5 % apart.
fn batches(journeys: f64) -> Vec<f64> {
    let mut all: Vec<f64> =
        (0..=24).map(|part| (f64::from(part) / 24.0 * journeys).round().max(1.0)).collect();
    all.dedup();
    all
}
