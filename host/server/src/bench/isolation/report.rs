//! The table and the numbers.

use serde_json::{Value, json};

use super::streams::Seen;
use super::{HOSTILE, Harm};
use crate::terminal::{Align, Table};

/// What came of all cases.
#[derive(Clone, Debug)]
pub struct Report {
    /// By what A did; idle and benign first.
    pub rows: Vec<Row>,
    /// Whether steps only took time.
    pub simulated: bool,
}

/// B beside one kind of A.
#[derive(Clone, Debug)]
pub struct Row {
    /// What A did.
    pub harm: Harm,
    /// Between B's tokens, milliseconds.
    pub p50_ms: f64,
    /// The same, of the slowest hundredth.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Whether B's ids are those beside an idle A.
    pub same_ids: bool,
    /// Tokens per second of B and of A.
    pub tokens_per_s: (f64, f64),
    /// Answers of A that went on without its policy.
    pub fell_back: usize,
    /// Calls of A's policy outside of steps, and all that succeeded.
    pub calls: (u64, u64),
    /// Why they were outside.
    pub why: Option<String>,
}

impl Row {
    pub(super) fn new(harm: Harm, (b, a): (&Seen, &Seen), seconds: f64, policies: &Value) -> Self {
        let at = |share: f64| {
            let last = b.gaps_s.len().saturating_sub(1) as f64;
            b.gaps_s.get((share * last).round() as usize).map_or(f64::NAN, |s| s * 1e3)
        };
        let routes = policies["routes"].as_array().map_or(&[][..], Vec::as_slice);
        let health = routes.iter().find(|route| route["route"] == HOSTILE).map(|route| &route["health"]);
        let count = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        let lane = health.map(|health| &health["lane"]);
        let why = lane.and_then(|lane| lane["why"].as_str().or_else(|| lane["slow_tenant_why"].as_str()));
        Self {
            harm,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            max_ms: at(1.0),
            same_ids: true,
            tokens_per_s: (b.tokens as f64 / seconds, a.tokens as f64 / seconds),
            fell_back: a.fell_back,
            calls: (count(lane.map(|lane| &lane["calls"])), count(health.map(|health| &health["calls"]))),
            why: why.map(str::to_owned),
        }
    }
}

impl Report {
    /// How much higher the p99 of a row is than that of a case to compare with, in percent.
    fn rise(&self, row: &Row, than: Harm) -> f64 {
        let base = self.rows.iter().find(|row| row.harm == than).map_or(f64::NAN, |row| row.p99_ms);
        (row.p99_ms / base - 1.0) * 100.0
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "a": row.harm.name(),
                "b_itl_p50_ms": row.p50_ms,
                "b_itl_p99_ms": row.p99_ms,
                "b_itl_max_ms": row.max_ms,
                "b_p99_over_idle_percent": self.rise(row, Harm::Idle),
                "b_p99_over_benign_percent": self.rise(row, Harm::Benign),
                "b_ids_same": row.same_ids,
                "b_tokens_per_s": row.tokens_per_s.0,
                "a_tokens_per_s": row.tokens_per_s.1,
                "a_fell_back": row.fell_back,
                "a_lane_calls": row.calls.0,
                "a_calls": row.calls.1,
                "a_lane_why": row.why,
            })
        };
        let engine = if self.simulated { "sim" } else { "real" };
        json!({ "engine": engine, "isolation": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut columns = [Align::Right; 10];
        columns[0] = Align::Left;
        let mut table = Table::new(&columns);
        table.row([
            &"A",
            &"B p50 ms",
            &"p99 ms",
            &"max ms",
            &"p99 on idle",
            &"on benign",
            &"B's ids",
            &"B tok/s",
            &"A tok/s",
            &"A fell back",
        ]);
        for row in &self.rows {
            table.row([
                &row.harm.name(),
                &format!("{:.2}", row.p50_ms),
                &format!("{:.2}", row.p99_ms),
                &format!("{:.1}", row.max_ms),
                &format!("{:+.1} %", self.rise(row, Harm::Idle)),
                &format!("{:+.1} %", self.rise(row, Harm::Benign)),
                &(if row.same_ids { "same" } else { "DIFFERENT" }),
                &format!("{:.0}", row.tokens_per_s.0),
                &format!("{:.0}", row.tokens_per_s.1),
                &row.fell_back,
            ]);
        }
        table
    }
}
