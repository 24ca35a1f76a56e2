//! How long answers take, as histograms.
//!
//! A separate room because a histogram is many numbers that belong together. Buckets are fixed, so that a time costs a look at
//! a short list and two relaxed atomic operations, and histograms of several servers can be added up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

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
            None => self.first.record(&FIRST_MS, now.saturating_duration_since(of.came), 1),
            Some(last) => self.gap.record(&GAP_MS, now.saturating_duration_since(last), 1),
        }
        // Between tokens that a step or a visit brought together is nothing.
        self.gap.record(&GAP_MS, Duration::ZERO, tokens as u64 - 1);
        of.last = Some(now);
    }

    /// The answer is complete.
    pub(super) fn finished(&self, of: &Stopwatch) {
        self.whole.record(&WHOLE_MS, of.came.elapsed(), 1);
    }

    pub(super) fn render(&self, page: &mut Page) {
        self.first.render(page, &FIRST, &FIRST_MS);
        self.gap.render(page, &GAP, &GAP_MS);
        self.whole.render(page, &WHOLE, &WHOLE_MS);
    }
}

/// Counts by bucket, the last one being without a bound, and the sum of all times.
#[derive(Debug)]
struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    beyond: AtomicU64,
    sum_us: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; N],
            beyond: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
        }
    }
}

impl<const N: usize> Histogram<N> {
    /// `times` times of this length, in buckets with these upper bounds in milliseconds.
    fn record(&self, bounds_ms: &[f64; N], time: Duration, times: u64) {
        if times == 0 {
            return;
        }
        let ms = time.as_secs_f64() * 1e3;
        let bucket = bounds_ms.iter().position(|bound| ms <= *bound);
        bucket.and_then(|ix| self.counts.get(ix)).unwrap_or(&self.beyond).fetch_add(times, Relaxed);
        if !time.is_zero() {
            let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.sum_us.fetch_add(us.saturating_mul(times), Relaxed);
        }
    }

    /// Counts are read once and added up, so a scrape sees a bucket that holds the ones below it whatever happens meanwhile.
    fn render(&self, page: &mut Page, family: &Family, bounds_ms: &[f64; N]) {
        page.head(family);
        let mut below = 0;
        for (bound, count) in bounds_ms.iter().zip(&self.counts) {
            below += count.load(Relaxed);
            page.part(family, "_bucket", &format!("{{le=\"{}\"}}", bound / 1e3), below);
        }
        below += self.beyond.load(Relaxed);
        page.part(family, "_bucket", "{le=\"+Inf\"}", below);
        page.part(family, "_sum", "", self.sum_us.load(Relaxed) as f64 / 1e6);
        page.part(family, "_count", "", below);
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
    fn buckets_hold_those_below_them() {
        let histogram = Histogram::<2>::default();
        let bounds = [1.0, 10.0];
        for (us, times) in [(1_000, 1), (1_001, 2), (10_000_000, 1), (0, 3)] {
            histogram.record(&bounds, Duration::from_micros(us), times);
        }
        let mut page = Page::default();
        histogram.render(&mut page, &Family::histogram("x_seconds", "X."), &bounds);
        let lines = "# HELP tokenrouter_x_seconds X.\n# TYPE tokenrouter_x_seconds histogram\n\
            tokenrouter_x_seconds_bucket{le=\"0.001\"} 4\ntokenrouter_x_seconds_bucket{le=\"0.01\"} 6\n\
            tokenrouter_x_seconds_bucket{le=\"+Inf\"} 7\ntokenrouter_x_seconds_sum 10.003002\n\
            tokenrouter_x_seconds_count 7\n";
        assert_eq!(page.text(), lines);
    }

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
