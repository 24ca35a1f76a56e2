//! More than two models in one lane: whose step is worth its fixed cost.
//!
//! Per row and per token costs are paid whatever is decided, so what matters is how the fixed costs of steps are shared.
//! With two models the optimal rule is "repeat the feeder as long as `n p price >= a`". `price`, fixed seconds per visit,
//! over `p`, visits per row of the feeder, is the fixed cost of everything per row of the feeder; in that form the rule
//! says the same of any model: **a step of `m` is worth it iff `n_m g_m >= a_m`**, `g_m` being all fixed seconds spent
//! per row that `m` has served. The cheapest model whose step is worth it goes first, as its rows only join the queues of
//! the others meanwhile; if no step is worth it, the one that is nearest. `g_m` is measured as it goes, which is the
//! iteration of Dinkelbach for fractional programmes.

use super::{Conductor, Mode};
use crate::Member;

/// Fixed seconds spent and rows served, decayed.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    fixed_s: f64,
    rows: Vec<f64>,
}

impl Ledger {
    pub(super) fn new(models: usize) -> Self {
        Self { fixed_s: 0.0, rows: vec![0.0; models] }
    }

    /// Every step counts, forced ones too: leaving those out costs up to a quarter of the throughput.
    pub(super) fn step(&mut self, member: Member, fixed_s: f64, rows: usize) {
        self.fixed_s = self.fixed_s * KEEP + fixed_s;
        for rows in &mut self.rows {
            *rows *= KEEP;
        }
        self.rows[member.0] += rows as f64;
    }

    /// All fixed seconds per row that this model has served.
    pub(super) fn price_s(&self, member: Member) -> f64 {
        self.fixed_s / self.rows[member.0].max(1e-9)
    }
}

impl Conductor {
    /// Whether turns go by price rather than by the thresholds of a pair.
    pub(super) fn uses_prices(&self) -> bool {
        self.settings.mode == Mode::Ours && self.stations.len() > 2
    }

    /// The cheapest model whose step is worth its fixed cost, else the one that is nearest to it.
    pub(super) fn by_price(&self, lane: impl Iterator<Item = Member> + Clone) -> Option<Member> {
        let fixed_s = |member: &Member| self.beliefs.law(*member).fixed_s;
        let worth = |member: &Member| {
            let ready = self.stations[member.0].ready as f64;
            ready * self.ledger.price_s(*member) / fixed_s(member).max(f64::MIN_POSITIVE)
        };
        let worthy = lane.clone().filter(|member| worth(member) >= 1.0);
        let cheapest = worthy.min_by(|a, b| fixed_s(a).total_cmp(&fixed_s(b)));
        cheapest.or_else(|| lane.max_by(|a, b| worth(a).total_cmp(&worth(b))))
    }
}

const KEEP: f64 = 0.995;
