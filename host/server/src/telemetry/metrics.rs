//! Counters and gauges, and their Prometheus text.
//!
//! Names follow vLLM's meanings under our prefix, so that dashboards port by renaming. Every label comes from the
//! configuration. Writers are the loops; each write is one relaxed atomic operation, because a scrape needs no order
//! between metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use engine::KvUsage;

use super::page::{Family, Named, Page};
use super::{PolicyGauges, SchedulingGauges};
use crate::runtime::{Catalog, Event, ModelIx};

/// All metrics of a runtime.
#[derive(Debug)]
pub struct Metrics {
    models: Vec<ModelMetrics>,
    /// Handoffs by source, then target.
    handoffs: Vec<Vec<AtomicU64>>,
    waiting: Arc<AtomicUsize>,
    finished: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    policy_failures: AtomicU64,
}

#[derive(Debug, Default)]
struct ModelMetrics {
    name: String,
    running: AtomicUsize,
    parked: AtomicUsize,
    kv_tokens: AtomicUsize,
    kv_hits: AtomicU64,
    steps: AtomicU64,
    rows: AtomicU64,
    fed: AtomicU64,
    generated: AtomicU64,
    preempted: AtomicU64,
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
    /// Metrics at zero for the models of a catalog.
    #[must_use]
    pub fn new(catalog: &Catalog) -> Self {
        let model = |model: &Arc<crate::runtime::Model>| ModelMetrics {
            name: model.name.clone(),
            ..Default::default()
        };
        let models: Vec<ModelMetrics> = catalog.models.values().map(model).collect();
        let row = || models.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            handoffs: models.iter().map(|_| row()).collect(),
            models,
            waiting: Arc::default(),
            finished: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            policy_failures: AtomicU64::new(0),
        }
    }

    /// Journeys at a model's subserver: those whose turn it is there, and those parked there.
    #[must_use]
    pub fn journeys(&self, model: ModelIx) -> (usize, usize) {
        let model = &self.models[model.index()];
        (model.running.load(Relaxed), model.parked.load(Relaxed))
    }

    /// Tokens in a model's KV.
    #[must_use]
    pub fn kv_tokens(&self, model: ModelIx) -> usize {
        self.models[model.index()].kv_tokens.load(Relaxed)
    }

    /// Steps of a model, and journeys in them, summed.
    #[must_use]
    pub fn steps(&self, model: ModelIx) -> (u64, u64) {
        let model = &self.models[model.index()];
        (model.steps.load(Relaxed), model.rows.load(Relaxed))
    }

    /// Counts a request as waiting for a place.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(Arc::clone(&self.waiting))
    }

    /// The Prometheus text format.
    #[must_use]
    pub fn render(&self, scheduling: &SchedulingGauges, policies: &PolicyGauges) -> String {
        let mut page = Page::default();
        page.per_model(&RUNNING, &self.models, |m| m.running.load(Relaxed) as u64);
        page.per_model(&PARKED, &self.models, |m| m.parked.load(Relaxed) as u64);
        page.per_model(&KV_TOKENS, &self.models, |m| m.kv_tokens.load(Relaxed) as u64);
        page.per_model(&KV_HITS, &self.models, |m| m.kv_hits.load(Relaxed));
        page.per_model(&STEPS, &self.models, |m| m.steps.load(Relaxed));
        page.per_model(&STEP_ROWS, &self.models, |m| m.rows.load(Relaxed));
        page.per_model(&FED, &self.models, |m| m.fed.load(Relaxed));
        page.per_model(&GENERATED, &self.models, |m| m.generated.load(Relaxed));
        page.per_model(&PREEMPTED, &self.models, |m| m.preempted.load(Relaxed));
        self.render_handoffs(&mut page);
        page.single(&WAITING, self.waiting.load(Relaxed) as u64);
        page.single(&FINISHED, self.finished.load(Relaxed));
        page.single(&FAILED, self.failed.load(Relaxed));
        page.single(&CANCELLED, self.cancelled.load(Relaxed));
        page.single(&POLICY_FAILURES, self.policy_failures.load(Relaxed));
        policies.render(&mut page);
        scheduling.render(&mut page);
        page.text()
    }

    pub(crate) fn set_journeys(&self, model: ModelIx, running: usize, parked: usize, kv: KvUsage) {
        let model = &self.models[model.index()];
        model.running.store(running, Relaxed);
        model.parked.store(parked, Relaxed);
        model.kv_tokens.store(kv.tokens, Relaxed);
        model.kv_hits.store(kv.hit_tokens, Relaxed);
    }

    pub(crate) fn step(&self, model: ModelIx, rows: usize, tokens: usize) {
        let model = &self.models[model.index()];
        model.steps.fetch_add(1, Relaxed);
        model.rows.fetch_add(rows as u64, Relaxed);
        model.fed.fetch_add(tokens as u64, Relaxed);
    }

    pub(crate) fn preempted(&self, model: ModelIx) {
        self.models[model.index()].preempted.fetch_add(1, Relaxed);
    }

    pub(crate) fn token_made(&self, model: ModelIx) {
        self.models[model.index()].generated.fetch_add(1, Relaxed);
    }

    pub(crate) fn handed_off(&self, from: ModelIx, to: ModelIx) {
        self.handoffs[from.index()][to.index()].fetch_add(1, Relaxed);
    }

    pub(crate) fn journey_ended(&self, last: &Event) {
        let counter = if matches!(last, Event::Failed { .. }) { &self.failed } else { &self.finished };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn journey_cancelled(&self) {
        self.cancelled.fetch_add(1, Relaxed);
    }

    pub(crate) fn policy_failed(&self) {
        self.policy_failures.fetch_add(1, Relaxed);
    }

    fn render_handoffs(&self, page: &mut Page) {
        page.head(&HANDOFFS);
        for (source, row) in self.models.iter().zip(&self.handoffs) {
            for (target, count) in self.models.iter().zip(row) {
                if source.name != target.name {
                    let labels = format!("{{source={:?},target={:?}}}", source.name, target.name);
                    page.value(&HANDOFFS, &labels, count.load(Relaxed));
                }
            }
        }
    }
}

impl Named for ModelMetrics {
    fn name(&self) -> &str {
        &self.name
    }
}

const RUNNING: Family = Family::gauge("num_requests_running", "Journeys whose turn it is at the model.");
const PARKED: Family = Family::gauge("num_requests_parked", "Journeys that are away and whose KV is kept.");
const KV_TOKENS: Family = Family::gauge("kv_cache_tokens", "Tokens in the KV cache.");
const KV_HITS: Family =
    Family::counter("prefix_cache_hits_total", "Tokens found in the prefix cache instead of being computed.");
const STEPS: Family = Family::counter("steps_total", "Steps of the model.");
const STEP_ROWS: Family = Family::counter("step_rows_total", "Journeys in steps, summed.");
const FED: Family = Family::counter("fed_tokens_total", "Tokens fed to the model.");
const GENERATED: Family = Family::counter("generation_tokens_total", "Committed tokens made by the model.");
const PREEMPTED: Family =
    Family::counter("num_preemptions_total", "Journeys that went without memory for a while.");
const HANDOFFS: Family = Family::counter("handoffs_total", "Journeys handed from one model to another.");
const WAITING: Family = Family::gauge("num_requests_waiting", "Requests waiting for a place.");
const FINISHED: Family = Family::counter("request_success_total", "Answers that were completed.");
const FAILED: Family = Family::counter("request_failure_total", "Answers that failed.");
const CANCELLED: Family = Family::counter("request_cancelled_total", "Answers whose client left.");
const POLICY_FAILURES: Family =
    Family::counter("policy_failures_total", "Journeys that fell back from their policy.");
