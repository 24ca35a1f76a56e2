//! How long answers take, as histograms.

use std::time::{Duration, Instant};

use super::histogram::Histogram;
use super::page::{Family, Page};

/// Times of all answers.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    first: Histogram<{ FIRST_MS.len() }>,
    gap: Histogram<{ GAP_MS.len() }>,
    whole: Histogram<{ WHOLE_MS.len() }>,
}

/// The times of one answer, from the acceptance of its request. It travels with the journey; tokens are seen where they are
/// committed, so a client that reads slowly says nothing of the models.
#[derive(Debug)]
pub struct Stopwatch {
    came: Instant,
    /// When the last token was committed.
    last: Option<Instant>,
}

impl Stopwatch {
    /// Of a request that is accepted now.
    #[must_use]
    pub fn start() -> Self {
        Self { came: Instant::now(), last: None }
    }
}

impl Latencies {
    /// So many tokens were committed together, all now.
    pub(super) fn made(&self, of: &mut Stopwatch, tokens: usize) {
        if tokens == 0 {
            return;
        }
        let now = Instant::now();
        match of.last {
            None => self.first.time(&FIRST_MS, now.saturating_duration_since(of.came), 1),
            Some(last) => self.gap.time(&GAP_MS, now.saturating_duration_since(last), 1),
        }
        // Between tokens that a step or a visit brought together is nothing.
        self.gap.time(&GAP_MS, Duration::ZERO, tokens as u64 - 1);
        of.last = Some(now);
    }

    /// The answer is complete.
    pub(super) fn finished(&self, of: &Stopwatch) {
        self.whole.time(&WHOLE_MS, of.came.elapsed(), 1);
    }

    pub(super) fn render(&self, page: &mut Page) {
        page.head(&FIRST);
        self.first.times(page, &FIRST, "", &FIRST_MS);
        page.head(&GAP);
        self.gap.times(page, &GAP, "", &GAP_MS);
        page.head(&WHOLE);
        self.whole.times(page, &WHOLE, "", &WHOLE_MS);
    }
}

/// Bounds in milliseconds: from a small model alone to a long line in front of a large one.
const FIRST_MS: [f64; 16] = [
    1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 20_000.0,
    40_000.0, 80_000.0,
];
/// A step takes from a fifth of a millisecond to some seconds.
const GAP_MS: [f64; 16] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 150.0, 250.0, 500.0, 1_000.0, 2_500.0];
const WHOLE_MS: [f64; 16] = [
    5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0,
    120_000.0, 300_000.0, 600_000.0,
];

const FIRST: Family = Family::histogram(
    "time_to_first_token_seconds",
    "From the acceptance of a request to the first token of its answer.",
);
const GAP: Family = Family::histogram(
    "inter_token_latency_seconds",
    "Between tokens of an answer; 0 where they come together.",
);
const WHOLE: Family = Family::histogram(
    "e2e_request_latency_seconds",
    "From the acceptance of a request to the end of its answer, of those that were completed.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_one_first_token_and_a_gap_less_than_tokens() {
        let latencies = Latencies::default();
        let mut of = Stopwatch::start();
        for tokens in [0, 3, 1] {
            latencies.made(&mut of, tokens);
        }
        latencies.finished(&of);
        let mut page = Page::default();
        latencies.render(&mut page);
        let text = page.text();
        for (name, count) in
            [("time_to_first_token", 1), ("inter_token_latency", 3), ("e2e_request_latency", 1)]
        {
            assert!(text.contains(&format!("tokenrouter_{name}_seconds_count {count}\n")), "{text}");
        }
    }
}
