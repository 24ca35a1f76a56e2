//! What one model does.

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::KvUsage;

/// Counters and gauges of one model. Written by its decode loop: each write is one relaxed atomic operation, because a scrape
/// needs no order between metrics.
#[derive(Debug, Default)]
pub struct Meter {
    running: AtomicUsize,
    parked: AtomicUsize,
    kv_tokens: AtomicUsize,
    /// Bytes of KV that are taken, and that there are.
    kv_bytes: [AtomicUsize; 2],
    kv_hits: AtomicU64,
    steps: AtomicU64,
    step_us: AtomicU64,
    rows: AtomicU64,
    fed: AtomicU64,
    generated: AtomicU64,
    preempted: AtomicU64,
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

    /// Tokens found in the prefix cache, summed.
    pub(super) fn kv_hits(&self) -> u64 {
        self.kv_hits.load(Relaxed)
    }

    /// Tokens fed, tokens committed, and journeys that went without memory, summed.
    pub(super) fn tokens(&self) -> [u64; 3] {
        [&self.fed, &self.generated, &self.preempted].map(|counter| counter.load(Relaxed))
    }

    /// Journeys handed to this model.
    pub(super) fn handoffs(&self, to: &str) -> u64 {
        let handoffs = self.handoffs.lock().unwrap_or_else(PoisonError::into_inner);
        handoffs.get(to).copied().unwrap_or(0)
    }

    pub(crate) fn set_journeys(&self, running: usize, parked: usize, kv: KvUsage) {
        self.kv_hits.store(kv.hit_tokens, Relaxed);
        self.kv_tokens.store(kv.tokens, Relaxed);
        self.kv_bytes[0].store(kv.bytes.saturating_sub(kv.cached_bytes), Relaxed);
        self.kv_bytes[1].store(kv.bytes_max, Relaxed);
        self.parked.store(parked, Relaxed);
        // Whoever sees that nobody runs any more sees what they left behind.
        self.running.store(running, Release);
    }

    pub(crate) fn step(&self, rows: usize, tokens: usize, took: Duration) {
        self.step_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
        self.steps.fetch_add(1, Relaxed);
        self.rows.fetch_add(rows as u64, Relaxed);
        self.fed.fetch_add(tokens as u64, Relaxed);
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
