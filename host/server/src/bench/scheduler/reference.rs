//! The table of the paper, made anew from its Markov chain.

use scheduler::study;
use serde_json::json;

use crate::terminal::{Align, Table};

/// Throughput by threshold and number of requests, as the paper's model gives it.
#[derive(Clone, Debug)]
pub struct Reference(Vec<study::Reference>);

impl Reference {
    /// The paper's numbers of requests, and some beyond.
    #[must_use]
    pub fn compute() -> Self {
        Self(study::reference(&JOURNEYS))
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let entry = |entry: &study::Reference| {
            json!({
                "n": entry.journeys,
                "b1": entry.batch,
                "tokens_per_s": entry.tokens_per_s,
                "paper_tokens_per_s": entry.paper_tokens_per_s,
                "best": entry.is_best,
            })
        };
        json!({ "engine": "the paper's chain", "grid": self.0.iter().map(entry).collect::<Vec<_>>() })
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
        table.row([&"N", &"B1", &"tokens/s", &"in the paper", &""]);
        for entry in self.0.iter().filter(|entry| self.is_telling(entry)) {
            let paper = entry.paper_tokens_per_s.map_or_else(String::new, |paper| format!("{paper:.1}"));
            let best = if entry.is_best { "best" } else { "" };
            let rate = format!("{:.1}", entry.tokens_per_s);
            table.row([&entry.journeys, &entry.batch, &rate, &paper, &best]);
        }
        table
    }

    /// Of many thresholds, those at the ends and around the best.
    fn is_telling(&self, entry: &study::Reference) -> bool {
        let best = self.0.iter().find(|best| best.is_best && best.journeys == entry.journeys);
        let near = best.is_some_and(|best| best.batch.abs_diff(entry.batch) <= NEAR);
        entry.journeys <= ALL_UP_TO || near || entry.batch == 1 || entry.batch == entry.journeys
    }
}

/// Up to so many requests all thresholds are shown.
const ALL_UP_TO: usize = 8;
/// Beyond, so many on either side of the best.
const NEAR: usize = 2;

/// Two to four are the paper's.
const JOURNEYS: [usize; 6] = [2, 3, 4, 8, 16, 64];
