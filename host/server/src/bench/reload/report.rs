//! What a run of saves showed.

use serde_json::{Value, json};

use super::Log;
use crate::terminal::{Align, Table};

/// What a run of saves showed.
#[derive(Clone, Debug)]
pub struct Report {
    /// Answers that came.
    pub answers: u64,
    /// What went wrong with others.
    pub failed: Vec<String>,
    /// Revisions saved, the first one included.
    pub saved: usize,
    /// Those that made an answer.
    pub served: usize,
    /// Whether the last one did.
    pub last_serves: bool,
    /// From a save to the first request that its revision answered, seconds, in ascending order.
    pub until_served_s: Vec<f64>,
    /// Components compiled.
    pub compiled: u64,
    /// Memory after each save, bytes.
    pub resident: Vec<u64>,
}

impl Report {
    pub(super) fn new(log: &Log, resident: Vec<u64>, page: &str) -> Self {
        let served = log.saved.values().filter_map(|(saved, first)| Some((*first)? - *saved));
        let mut until_served_s: Vec<f64> = served.map(|after| after.as_secs_f64()).collect();
        until_served_s.sort_by(f64::total_cmp);
        let compiled = page.lines().find_map(|line| line.strip_prefix(COMPILATIONS)?.trim().parse().ok());
        Self {
            answers: log.answers,
            failed: log.failed.clone(),
            saved: log.saved.len(),
            served: until_served_s.len(),
            last_serves: log.last_serves(),
            until_served_s,
            compiled: compiled.unwrap_or(0),
            resident,
        }
    }

    /// Bytes by which memory grows with a save: the slope of a line through the later half.
    #[must_use]
    pub fn growth(&self) -> f64 {
        let late = &self.resident[self.resident.len() / 2..];
        let count = late.len() as f64;
        let mean = late.iter().map(|bytes| *bytes as f64).sum::<f64>() / count.max(1.0);
        let middle = (count - 1.0) / 2.0;
        let of = |part: fn(f64, f64) -> f64| {
            let each = (0..).zip(late).map(|(at, bytes)| part(f64::from(at) - middle, *bytes as f64 - mean));
            each.sum::<f64>()
        };
        of(|x, y| x * y) / of(|x, _| x * x).max(1.0)
    }

    fn at(&self, share: f64) -> f64 {
        let last = self.until_served_s.len().saturating_sub(1) as f64;
        self.until_served_s.get((share * last).round() as usize).copied().unwrap_or(f64::NAN)
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "answers": self.answers,
            "failed": self.failed,
            "saved": self.saved,
            "served": self.served,
            "until_served_p50_s": self.at(0.5),
            "until_served_max_s": self.at(1.0),
            "compiled": self.compiled,
            "resident_mib": self.resident.iter().map(|bytes| *bytes as f64 / MIB).collect::<Vec<_>>(),
            "growth_kib_per_save": self.growth() / 1024.0,
        })
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mib = |bytes: Option<&u64>| format!("{:.1} MiB", bytes.map_or(f64::NAN, |b| *b as f64 / MIB));
        let mut table = Table::new(&[Align::Left, Align::Right]);
        table.row([&"answers", &self.answers]);
        table.row([&"failed, or of no saved revision", &self.failed.len()]);
        table.row([&"revisions saved", &self.saved]);
        table.row([&"revisions that answered", &self.served]);
        table.row([&"compilations", &self.compiled]);
        table.row([&"save to first answer, median", &format!("{:.2} s", self.at(0.5))]);
        table.row([&"save to first answer, longest", &format!("{:.2} s", self.at(1.0))]);
        table.row([&"memory half way", &mib(self.resident.get(self.resident.len() / 2))]);
        table.row([&"memory at the end", &mib(self.resident.last())]);
        table.row([&"growth in the later half, per save", &format!("{:.1} KiB", self.growth() / 1024.0)]);
        table
    }
}

const COMPILATIONS: &str = "tokenrouter_policy_compilations_total";
const MIB: f64 = (1 << 20) as f64;
