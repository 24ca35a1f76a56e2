//! Counters and gauges, and their Prometheus text.
//!
//! Names follow vLLM's meanings under our prefix, so that dashboards port by renaming. Every label comes from the
//! configuration. Writers are the loops; each write is one relaxed atomic operation, because a scrape needs no order
//! between metrics.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use engine::KvUsage;

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
    steps: AtomicU64,
    rows: AtomicU64,
    fed: AtomicU64,
    generated: AtomicU64,
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
        let model =
            |model: &crate::runtime::Model| ModelMetrics { name: model.name.clone(), ..Default::default() };
        let models: Vec<ModelMetrics> = catalog.models.iter().map(model).collect();
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

    /// Counts a request as waiting for a place.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(Arc::clone(&self.waiting))
    }

    /// The Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = Page(String::new());
        page.per_model(
            "num_requests_running",
            GAUGE,
            "Journeys whose turn it is at the model.",
            &self.models,
            |m| m.running.load(Relaxed) as u64,
        );
        page.per_model(
            "num_requests_parked",
            GAUGE,
            "Journeys that are away and whose KV is kept.",
            &self.models,
            |m| m.parked.load(Relaxed) as u64,
        );
        page.per_model("kv_cache_tokens", GAUGE, "Tokens in the KV cache.", &self.models, |m| {
            m.kv_tokens.load(Relaxed) as u64
        });
        page.per_model("steps_total", COUNTER, "Steps of the model.", &self.models, |m| {
            m.steps.load(Relaxed)
        });
        page.per_model("step_rows_total", COUNTER, "Journeys in steps, summed.", &self.models, |m| {
            m.rows.load(Relaxed)
        });
        page.per_model("fed_tokens_total", COUNTER, "Tokens fed to the model.", &self.models, |m| {
            m.fed.load(Relaxed)
        });
        page.per_model(
            "generation_tokens_total",
            COUNTER,
            "Committed tokens made by the model.",
            &self.models,
            |m| m.generated.load(Relaxed),
        );
        self.render_handoffs(&mut page);
        page.single(
            "num_requests_waiting",
            GAUGE,
            "Requests waiting for a place.",
            self.waiting.load(Relaxed) as u64,
        );
        let total = |counter: &AtomicU64| counter.load(Relaxed);
        page.single("request_success_total", COUNTER, "Answers that were completed.", total(&self.finished));
        page.single("request_failure_total", COUNTER, "Answers that failed.", total(&self.failed));
        page.single("request_cancelled_total", COUNTER, "Answers whose client left.", total(&self.cancelled));
        page.single(
            "policy_failures_total",
            COUNTER,
            "Journeys that fell back from their policy.",
            total(&self.policy_failures),
        );
        page.0
    }

    pub(crate) fn set_journeys(&self, model: ModelIx, running: usize, parked: usize, kv: KvUsage) {
        let model = &self.models[model.index()];
        model.running.store(running, Relaxed);
        model.parked.store(parked, Relaxed);
        model.kv_tokens.store(kv.tokens, Relaxed);
    }

    pub(crate) fn step(&self, model: ModelIx, rows: usize, tokens: usize) {
        let model = &self.models[model.index()];
        model.steps.fetch_add(1, Relaxed);
        model.rows.fetch_add(rows as u64, Relaxed);
        model.fed.fetch_add(tokens as u64, Relaxed);
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
        page.head("handoffs_total", COUNTER, "Journeys handed from one model to another.");
        for (source, row) in self.models.iter().zip(&self.handoffs) {
            for (target, count) in self.models.iter().zip(row) {
                if source.name != target.name {
                    let labels = format!("{{source={:?},target={:?}}}", source.name, target.name);
                    page.value("handoffs_total", &labels, count.load(Relaxed));
                }
            }
        }
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ok = write!(self.0, "# HELP {PREFIX}_{name} {help}\n# TYPE {PREFIX}_{name} {kind}\n");
    }

    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let _ok = writeln!(self.0, "{PREFIX}_{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.head(name, kind, help);
        self.value(name, "", value);
    }

    fn per_model(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        models: &[ModelMetrics],
        read: impl Fn(&ModelMetrics) -> u64,
    ) {
        self.head(name, kind, help);
        for model in models {
            self.value(name, &format!("{{model={:?}}}", model.name), read(model));
        }
    }
}

const PREFIX: &str = "tokenrouter";
const GAUGE: &str = "gauge";
const COUNTER: &str = "counter";
