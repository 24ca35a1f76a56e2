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
        for entry in &self.0 {
            let paper = entry.paper_tokens_per_s.map_or_else(String::new, |paper| format!("{paper:.1}"));
            let best = if entry.is_best { "best" } else { "" };
            let rate = format!("{:.1}", entry.tokens_per_s);
            table.row([&entry.journeys, &entry.batch, &rate, &paper, &best]);
        }
        table
    }
}

/// Two to four are the paper's. The chain's states grow with a power of the number: sixteen is what fits.
const JOURNEYS: [usize; 5] = [2, 3, 4, 8, 16];
