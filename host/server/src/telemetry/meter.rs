//! What one model does.

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::KvUsage;

use super::histogram::Histogram;
use super::page::{Family, Page};

/// Counters and gauges of one model. Written by its decode loop: each write is one relaxed atomic operation, because a scrape
/// needs no order between metrics.
#[derive(Debug, Default)]
pub struct Meter {
    running: AtomicUsize,
    parked: AtomicUsize,
    kv_tokens: AtomicUsize,
    /// Bytes of KV that are taken, and that there are.
    kv_bytes: [AtomicUsize; 2],
    /// Tokens looked up in the prefix cache, and found there.
    kv_looks: [AtomicU64; 2],
    steps: AtomicU64,
    step_us: AtomicU64,
    rows: AtomicU64,
    fed: AtomicU64,
    sampled: AtomicU64,
    generated: AtomicU64,
    preempted: AtomicU64,
    delay: Histogram<{ DELAY_MS.len() }>,
    suffix: Histogram<{ SUFFIX.len() }>,
    /// By the model that they went to. A lock at each handoff, which nobody else wants but a scrape, is a hundredth of what a
    /// handoff costs.
    handoffs: Mutex<BTreeMap<String, u64>>,
}

impl Meter {
    /// Journeys at the model's subserver: those whose turn it is there, and those parked there.
    #[must_use]
    pub fn journeys(&self) -> (usize, usize) {
        (self.running.load(Acquire), self.parked.load(Relaxed))
    }

    /// Tokens in the model's KV.
    #[must_use]
    pub fn kv_tokens(&self) -> usize {
        self.kv_tokens.load(Relaxed)
    }

    /// Steps of the model, and journeys in them, summed.
    #[must_use]
    pub fn steps(&self) -> (u64, u64) {
        (self.steps.load(Relaxed), self.rows.load(Relaxed))
    }

    /// Part of the memory for KV that is taken, from 0 to 1.
    pub(super) fn kv_usage(&self) -> f64 {
        let [taken, most] = [&self.kv_bytes[0], &self.kv_bytes[1]].map(|bytes| bytes.load(Relaxed));
        if most == 0 { 0.0 } else { taken as f64 / most as f64 }
    }

    /// Time of all steps.
    pub(super) fn step_time(&self) -> Duration {
        Duration::from_micros(self.step_us.load(Relaxed))
    }

    /// Tokens looked up in the prefix cache, and tokens found there, summed.
    pub(super) fn kv_looks(&self) -> [u64; 2] {
        [0, 1].map(|which: usize| self.kv_looks[which].load(Relaxed))
    }

    /// How long journeys wait for their first step at the model, and what of a sequence they bring that it has not seen.
    pub(super) fn render_visits(page: &mut Page, models: &[(&str, &Self)]) {
        page.head(&DELAY);
        for (name, meter) in models {
            meter.delay.times(page, &DELAY, &format!("model={name:?},"), &DELAY_MS);
        }
        page.head(&SUFFIX_LENGTH);
        for (name, meter) in models {
            meter.suffix.numbers(page, &SUFFIX_LENGTH, &format!("model={name:?},"), &SUFFIX);
        }
    }

    /// Tokens fed, tokens sampled, tokens committed, and journeys that went without memory, summed.
    pub(super) fn tokens(&self) -> [u64; 4] {
        [&self.fed, &self.sampled, &self.generated, &self.preempted].map(|counter| counter.load(Relaxed))
    }

    /// Journeys handed to this model.
    pub(super) fn handoffs(&self, to: &str) -> u64 {
        let handoffs = self.handoffs.lock().unwrap_or_else(PoisonError::into_inner);
        handoffs.get(to).copied().unwrap_or(0)
    }

    pub(crate) fn set_journeys(&self, running: usize, parked: usize, kv: KvUsage) {
        self.kv_looks[0].store(kv.queried_tokens, Relaxed);
        self.kv_looks[1].store(kv.hit_tokens, Relaxed);
        self.kv_tokens.store(kv.tokens, Relaxed);
        self.kv_bytes[0].store(kv.bytes.saturating_sub(kv.cached_bytes), Relaxed);
        self.kv_bytes[1].store(kv.bytes_max, Relaxed);
        self.parked.store(parked, Relaxed);
        // Whoever sees that nobody runs any more sees what they left behind.
        self.running.store(running, Release);
    }

    /// A step of so many rows, which fed so many tokens and sampled so many.
    pub(crate) fn step(&self, rows: usize, (fed, sampled): (usize, usize), took: Duration) {
        self.step_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        self.steps.fetch_add(1, Relaxed);
        self.rows.fetch_add(rows as u64, Relaxed);
        self.fed.fetch_add(fed as u64, Relaxed);
        self.sampled.fetch_add(sampled as u64, Relaxed);
    }

    /// A journey that came so long ago takes part in its first step here. One that another model handed over brings so many
    /// tokens that this one has not seen.
    pub(crate) fn visit_begins(&self, waited: Duration, suffix: Option<usize>) {
        self.delay.time(&DELAY_MS, waited, 1);
        if let Some(tokens) = suffix {
            self.suffix.number(&SUFFIX, tokens);
        }
    }

    pub(crate) fn preempted(&self) {
        self.preempted.fetch_add(1, Relaxed);
    }

    pub(crate) fn token_made(&self) {
        self.generated.fetch_add(1, Relaxed);
    }

    pub(crate) fn handed_off(&self, to: &str) {
        let mut handoffs = self.handoffs.lock().unwrap_or_else(PoisonError::into_inner);
        match handoffs.get_mut(to) {
            Some(count) => *count += 1,
            // The first one to there.
            None => {
                handoffs.insert(to.to_owned(), 1);
            }
        }
    }
}

/// Bounds in milliseconds: from the next step of a small model to a batch that waits for others.
const DELAY_MS: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0];
/// From one token to an answer that comes back after a long visit.
const SUFFIX: [f64; 12] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 4_096.0];

const DELAY: Family = Family::histogram(
    "admission_delay_seconds",
    "From a journey's coming to a model to the beginning of its first step there.",
);
const SUFFIX_LENGTH: Family = Family::histogram(
    "handoff_suffix_tokens",
    "Tokens of a journey that was handed over which the model that gets it has not seen.",
);
