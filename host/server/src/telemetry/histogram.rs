//! Histograms.
//!
//! A separate room because a histogram is many numbers that belong together. Buckets are fixed, so that a value costs a look at
//! a short list and two relaxed atomic operations, and histograms of several servers can be added up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::page::{Family, Page};

/// Counts by bucket, the last one being without a bound, and the sum of all values: of times in microseconds.
#[derive(Debug)]
pub(super) struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    beyond: AtomicU64,
    sum: AtomicU64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; N], beyond: AtomicU64::new(0), sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Histogram<N> {
    /// `times` times of this length, in buckets with these upper bounds in milliseconds.
    pub(super) fn time(&self, bounds_ms: &[f64; N], time: Duration, times: u64) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.add(bounds_ms, time.as_secs_f64() * 1e3, times, us);
    }

    /// One number, in buckets with these upper bounds.
    pub(super) fn number(&self, bounds: &[f64; N], number: usize) {
        self.add(bounds, number as f64, 1, number as u64);
    }

    fn add(&self, bounds: &[f64; N], value: f64, times: u64, summed: u64) {
        if times == 0 {
            return;
        }
        let bucket = bounds.iter().position(|bound| value <= *bound);
        bucket.and_then(|ix| self.counts.get(ix)).unwrap_or(&self.beyond).fetch_add(times, Relaxed);
        if summed > 0 {
            self.sum.fetch_add(summed.saturating_mul(times), Relaxed);
        }
    }

    /// The series of times with these labels, none or such as `model="a",`.
    pub(super) fn times(&self, page: &mut Page, family: &Family, labels: &str, bounds_ms: &[f64; N]) {
        self.series(page, family, labels, (&bounds_ms.map(|ms| ms / 1e3), 1e6));
    }

    /// The series of numbers with these labels.
    pub(super) fn numbers(&self, page: &mut Page, family: &Family, labels: &str, bounds: &[f64; N]) {
        self.series(page, family, labels, (bounds, 1.0));
    }

    /// Counts are read once and added up, so a scrape sees a bucket that holds the ones below it whatever happens meanwhile.
    fn series(&self, page: &mut Page, family: &Family, labels: &str, (bounds, unit): (&[f64; N], f64)) {
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(&self.counts) {
            below += count.load(Relaxed);
            page.part(family, "_bucket", &format!("{{{labels}le=\"{bound}\"}}"), below);
        }
        below += self.beyond.load(Relaxed);
        page.part(family, "_bucket", &format!("{{{labels}le=\"+Inf\"}}"), below);
        let labels = labels.strip_suffix(',').map_or_else(String::new, |labels| format!("{{{labels}}}"));
        page.part(family, "_sum", &labels, self.sum.load(Relaxed) as f64 / unit);
        page.part(family, "_count", &labels, below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_those_below_them() {
        let histogram = Histogram::<2>::default();
        let bounds = [1.0, 10.0];
        for (us, times) in [(1_000, 1), (1_001, 2), (10_000_000, 1), (0, 3)] {
            histogram.time(&bounds, Duration::from_micros(us), times);
        }
        let mut page = Page::default();
        histogram.times(&mut page, &Family::histogram("x_seconds", "X."), "", &bounds);
        let lines = "tokenrouter_x_seconds_bucket{le=\"0.001\"} 4\ntokenrouter_x_seconds_bucket{le=\"0.01\"} 6\n\
            tokenrouter_x_seconds_bucket{le=\"+Inf\"} 7\ntokenrouter_x_seconds_sum 10.003002\n\
            tokenrouter_x_seconds_count 7\n";
        assert_eq!(page.text(), lines);
    }

    #[test]
    fn a_series_has_its_labels_on_every_line() {
        let histogram = Histogram::<1>::default();
        for number in [1, 3] {
            histogram.number(&[2.0], number);
        }
        let mut page = Page::default();
        histogram.numbers(&mut page, &Family::histogram("x", "X."), "model=\"a\",", &[2.0]);
        let lines = "tokenrouter_x_bucket{model=\"a\",le=\"2\"} 1\ntokenrouter_x_bucket{model=\"a\",le=\"+Inf\"} 2\n\
            tokenrouter_x_sum{model=\"a\"} 4\ntokenrouter_x_count{model=\"a\"} 2\n";
        assert_eq!(page.text(), lines);
    }
}
