//! Counters and gauges, and their Prometheus text.
//!
//! Names follow vLLM's meanings under our prefix, so that dashboards port by renaming. Every label comes from the
//! configuration. Writers are the loops; each write is one relaxed atomic operation, because a scrape needs no order
//! between metrics. What a model does is counted by its own [`Meter`](super::Meter).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::latency::Latencies;
use super::page::{Family, Named, Page};
use super::{PolicyGauges, SchedulingGauges, Stopwatch};
use crate::runtime::{Catalog, Event, Model};

/// What is counted over all models.
#[derive(Debug, Default)]
pub struct Metrics {
    waiting: Arc<AtomicUsize>,
    prompt_tokens: AtomicU64,
    latencies: Latencies,
    finished: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    policy_failures: AtomicU64,
}

/// A request counted as waiting until this is dropped.
#[derive(Debug)]
pub struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    /// Counts a request as waiting for a place.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(Arc::clone(&self.waiting))
    }

    /// The Prometheus text format.
    #[must_use]
    pub fn render(
        &self,
        catalog: &Catalog,
        scheduling: &SchedulingGauges,
        policies: &PolicyGauges,
    ) -> String {
        let mut page = Page::default();
        let models: Vec<&Model> = catalog.models.values().map(|model| &**model).collect();
        page.per_model(&RUNNING, &models, |m| m.meter.journeys().0 as u64);
        page.per_model(&PARKED, &models, |m| m.meter.journeys().1 as u64);
        page.per_model(&KV_TOKENS, &models, |m| m.meter.kv_tokens() as u64);
        page.per_model(&KV_USAGE, &models, |m| m.meter.kv_usage());
        page.per_model(&KV_HITS, &models, |m| m.meter.kv_hits());
        page.per_model(&STEPS, &models, |m| m.meter.steps().0);
        page.per_model(&STEP_ROWS, &models, |m| m.meter.steps().1);
        page.per_model(&STEP_TIME, &models, |m| m.meter.step_time().as_secs_f64());
        for (family, which) in [&FED, &GENERATED, &PREEMPTED].into_iter().zip(0..) {
            page.per_model(family, &models, |m| m.meter.tokens()[which]);
        }
        render_handoffs(&mut page, &models);
        page.single(&WAITING, self.waiting.load(Relaxed) as u64);
        page.single(&PROMPT_TOKENS, self.prompt_tokens.load(Relaxed));
        page.single(&FINISHED, self.finished.load(Relaxed));
        page.single(&FAILED, self.failed.load(Relaxed));
        page.single(&CANCELLED, self.cancelled.load(Relaxed));
        page.single(&POLICY_FAILURES, self.policy_failures.load(Relaxed));
        self.latencies.render(&mut page);
        policies.render(&mut page);
        scheduling.render(&mut page);
        page.text()
    }

    pub(crate) fn journey_begins(&self, prompt_tokens: usize) {
        self.prompt_tokens.fetch_add(prompt_tokens as u64, Relaxed);
    }

    /// So many tokens of an answer were committed together, now.
    pub(crate) fn tokens_made(&self, of: &mut Stopwatch, tokens: usize) {
        self.latencies.made(of, tokens);
    }

    pub(crate) fn journey_ended(&self, last: &Event, of: &Stopwatch) {
        if matches!(last, Event::Failed { .. }) {
            self.failed.fetch_add(1, Relaxed);
        } else {
            self.latencies.finished(of);
            self.finished.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn journey_cancelled(&self) {
        self.cancelled.fetch_add(1, Relaxed);
    }

    pub(crate) fn policy_failed(&self) {
        self.policy_failures.fetch_add(1, Relaxed);
    }
}

fn render_handoffs(page: &mut Page, models: &[&Model]) {
    page.head(&HANDOFFS);
    for source in models {
        for target in models.iter().filter(|target| target.name != source.name) {
            let labels = format!("{{source={:?},target={:?}}}", source.name, target.name);
            page.value(&HANDOFFS, &labels, source.meter.handoffs(&target.name));
        }
    }
}

impl Named for &Model {
    fn name(&self) -> &str {
        &self.name
    }
}

const RUNNING: Family = Family::gauge("num_requests_running", "Journeys whose turn it is at the model.");
const PARKED: Family = Family::gauge("num_requests_parked", "Journeys that are away and whose KV is kept.");
const KV_TOKENS: Family = Family::gauge("kv_cache_tokens", "Tokens in the KV cache.");
// The name is vLLM's, and so is the range.
const KV_USAGE: Family = Family::gauge(
    "kv_cache_usage_perc",
    "Part of the memory for KV that is taken, from 0 to 1; what is only kept for reuse does not count.",
);
const KV_HITS: Family =
    Family::counter("prefix_cache_hits_total", "Tokens found in the prefix cache instead of being computed.");
const STEPS: Family = Family::counter("steps_total", "Steps of the model.");
const STEP_ROWS: Family = Family::counter("step_rows_total", "Journeys in steps, summed.");
const STEP_TIME: Family = Family::counter("step_seconds_total", "Time of all steps of the model.");
const FED: Family = Family::counter("fed_tokens_total", "Tokens fed to the model.");
const GENERATED: Family = Family::counter("generation_tokens_total", "Committed tokens made by the model.");
const PREEMPTED: Family =
    Family::counter("num_preemptions_total", "Journeys that went without memory for a while.");
const HANDOFFS: Family = Family::counter("handoffs_total", "Journeys handed from one model to another.");
const WAITING: Family = Family::gauge("num_requests_waiting", "Requests waiting for a place.");
const PROMPT_TOKENS: Family =
    Family::counter("prompt_tokens_total", "Tokens of the prompts of all answers that were begun.");
const FINISHED: Family = Family::counter("request_success_total", "Answers that were completed.");
const FAILED: Family = Family::counter("request_failure_total", "Answers that failed.");
const CANCELLED: Family = Family::counter("request_cancelled_total", "Answers whose client left.");
const POLICY_FAILURES: Family =
    Family::counter("policy_failures_total", "Journeys that fell back from their policy.");
