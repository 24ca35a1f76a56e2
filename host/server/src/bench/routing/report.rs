//! What clients saw, as a table and as JSON.

use serde_json::{Value, json};

use super::clients::Measured;
use super::{Plan, Way, picture};
use crate::bench::plot::Plot;
use crate::terminal::{Align, Table};

/// One way at one number of requests.
#[derive(Clone, Debug)]
pub struct Row {
    /// The way's name.
    pub mode: String,
    /// Requests at a time.
    pub requests: usize,
    /// Tokens that all clients received, per second.
    pub tokens_per_s: f64,
    /// Milliseconds to the first token, the middle one. Like those that follow, `None` where the run was too short for one.
    pub ttft_p50_ms: Option<f64>,
    /// Milliseconds per output token of an answer, the middle one.
    pub tpot_p50_ms: Option<f64>,
    /// The 99th percentile of the same.
    pub tpot_p99_ms: Option<f64>,
    /// The 99th percentile of the milliseconds between two tokens.
    pub itl_p99_ms: Option<f64>,
    /// Rows per step, by role.
    pub batch: Vec<f64>,
    /// The thresholds of the plan in force at the end, by model in the order of their names; empty without one.
    pub thresholds: Vec<usize>,
    /// Tokens per second that the plan promised.
    pub predicted_tokens_per_s: Option<f64>,
}

/// All rows.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether steps only took time.
    pub is_simulated: bool,
    /// The models and their steps, on one line.
    pub title: String,
    /// In the order in which they were measured.
    pub rows: Vec<Row>,
}

impl Row {
    pub(super) fn new(
        way: &Way,
        requests: usize,
        measured: &Measured,
        (batch, scheduling): (Vec<f64>, &Value),
    ) -> Self {
        let plan = &scheduling["plan"];
        let thresholds = plan["batch"].as_array().map_or(&[][..], Vec::as_slice);
        Self {
            mode: way.name(),
            requests,
            tokens_per_s: measured.tokens as f64 / measured.seconds,
            ttft_p50_ms: quantile_ms(&measured.ttft_s, 0.5),
            tpot_p50_ms: quantile_ms(&measured.tpot_s, 0.5),
            tpot_p99_ms: quantile_ms(&measured.tpot_s, 0.99),
            itl_p99_ms: quantile_ms(&measured.gaps_s, 0.99),
            batch,
            thresholds: thresholds.iter().filter_map(Value::as_u64).map(|batch| batch as usize).collect(),
            predicted_tokens_per_s: plan["tokens_per_s"].as_f64(),
        }
    }

    /// The large model's threshold: the only one that is not 1, as the entry model goes with whoever is ready.
    fn threshold(&self) -> Option<usize> {
        self.thresholds.iter().copied().max()
    }
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        let models = plan.config.routes.get(plan.route.split('@').next().unwrap_or_default());
        let names = models.map_or(&[][..], |route| route.models.as_slice());
        let steps = |name: &String| match &plan.config.models[name].sim {
            Some(sim) => {
                format!("{name} {} + {:.2} ms a row (device {})", sim.fixed_ms, sim.row_ms, sim.device)
            }
            None => name.clone(),
        };
        let is_simulated = names.iter().any(|name| plan.config.models[name].sim.is_some());
        let kind = if is_simulated { "simulated steps on the wall clock" } else { "measured" };
        let models: Vec<String> = names.iter().map(steps).collect();
        let title = format!("{kind}: {} by {}", models.join(", "), plan.route);
        Self { is_simulated, title, rows: Vec::new() }
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "mode": row.mode,
                "n": row.requests,
                "tokens_per_s": row.tokens_per_s,
                "tpot_p50_ms": row.tpot_p50_ms,
                "tpot_p99_ms": row.tpot_p99_ms,
                "itl_p99_ms": row.itl_p99_ms,
                "ttft_p50_ms": row.ttft_p50_ms,
                "mean_batch": row.batch,
                "b_star": row.threshold(),
                "predicted_tokens_per_s": row.predicted_tokens_per_s,
            })
        };
        let engine = if self.is_simulated { "sim" } else { "model" };
        json!({ "engine": engine, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    /// For people. Ratios are to the first way of the same number of requests.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[
            Align::Right,
            Align::Left,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Right,
            Align::Left,
            Align::Right,
            Align::Right,
        ]);
        let base = self.rows.first().map_or("the first", |row| row.mode.as_str());
        table.row([
            &"N",
            &"mode",
            &"tokens/s",
            &format!("of {base}"),
            &"TTFT ms",
            &"TPOT p50",
            &"p99",
            &"gap p99",
            &"rows a step",
            &"B*",
            &"predicted",
        ]);
        for row in &self.rows {
            let base = self.rows.iter().find(|other| other.requests == row.requests).map_or(row, |base| base);
            let batch: Vec<String> = row.batch.iter().map(|rows| format!("{rows:.1}")).collect();
            table.row([
                &row.requests,
                &row.mode,
                &format!("{:.1}", row.tokens_per_s),
                &format!("{:.2}", row.tokens_per_s / base.tokens_per_s),
                &or_blank(row.ttft_p50_ms, 1),
                &or_blank(row.tpot_p50_ms, 2),
                &or_blank(row.tpot_p99_ms, 2),
                &or_blank(row.itl_p99_ms, 1),
                &batch.join(" / "),
                &row.threshold().map_or_else(String::new, |batch| batch.to_string()),
                &or_blank(row.predicted_tokens_per_s, 1),
            ]);
        }
        table
    }

    /// Throughput against the speed that one request sees.
    #[must_use]
    pub fn plot(&self) -> Plot {
        picture::plot(self)
    }
}

fn or_blank(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

/// Milliseconds, of seconds in ascending order.
fn quantile_ms(sorted: &[f64], share: f64) -> Option<f64> {
    let at = (share * sorted.len() as f64).ceil() as usize;
    Some(1e3 * sorted.get(at.saturating_sub(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        let of = |share| quantile_ms(&hundred, share);
        assert_eq!([of(0.5), of(0.99), of(1.0)], [Some(50e3), Some(99e3), Some(100e3)]);
        assert_eq!([quantile_ms(&[3.0], 0.99), quantile_ms(&[], 0.5)], [Some(3e3), None]);
    }
}
