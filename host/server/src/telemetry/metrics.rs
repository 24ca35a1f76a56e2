//! Counters and gauges, and their Prometheus text.
//!
//! Names follow vLLM's meanings under our prefix, so that dashboards port by renaming. Every label comes from the
//! configuration. Writers are the loops; each write is one relaxed atomic operation, because a scrape needs no order
//! between metrics. What a model does is counted by its own [`Meter`](super::Meter).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use journey::FinishReason;

use super::latency::Latencies;
use super::page::{Family, Named, Page};
use super::{Meter, PolicyGauges, SchedulingGauges, Stopwatch, Traces};
use crate::runtime::{Catalog, Event, Model};

/// What is counted over all models.
#[derive(Debug, Default)]
pub struct Metrics {
    waiting: Arc<AtomicUsize>,
    prompt_tokens: AtomicU64,
    latencies: Latencies,
    /// By [`FinishReason`].
    finished: [AtomicU64; FINISHED_BY.len()],
    /// By [`Refusal`].
    refused: [AtomicU64; Refusal::ALL.len()],
    failed: AtomicU64,
    cancelled: AtomicU64,
    policy_failures: AtomicU64,
}

/// Why a request was not let in, though it is one that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its tenant has asked too often.
    Requests,
    /// Its tenant has used too many tokens.
    Tokens,
    /// Too many of its tenant's run.
    Journeys,
    /// It is larger than a whole quota of its tenant.
    Beyond,
    /// Too many wait already.
    Queue,
}

impl Refusal {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Requests, "requests"),
        (Self::Tokens, "tokens"),
        (Self::Journeys, "journeys"),
        (Self::Beyond, "beyond"),
        (Self::Queue, "queue"),
    ];
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
        traces: &Traces,
    ) -> String {
        let mut page = Page::default();
        let models: Vec<&Model> = catalog.models.values().map(|model| &**model).collect();
        page.per_model(&RUNNING, &models, |m| m.meter.journeys().0 as u64);
        page.per_model(&PARKED, &models, |m| m.meter.journeys().1 as u64);
        page.per_model(&KV_TOKENS, &models, |m| m.meter.kv_tokens() as u64);
        page.per_model(&KV_USAGE, &models, |m| m.meter.kv_usage());
        for (family, which) in [&KV_QUERIES, &KV_HITS].into_iter().zip(0..) {
            page.per_model(family, &models, |m| m.meter.kv_looks()[which]);
        }
        page.per_model(&STEPS, &models, |m| m.meter.steps().0);
        page.per_model(&STEP_ROWS, &models, |m| m.meter.steps().1);
        page.per_model(&STEP_TIME, &models, |m| m.meter.step_time().as_secs_f64());
        for (family, which) in [&FED, &SAMPLED, &GENERATED, &PREEMPTED].into_iter().zip(0..) {
            page.per_model(family, &models, |m| m.meter.tokens()[which]);
        }
        render_handoffs(&mut page, &models);
        let meters: Vec<(&str, &Meter)> = models.iter().map(|m| (m.name.as_str(), &*m.meter)).collect();
        Meter::render_visits(&mut page, &meters);
        page.single(&WAITING, self.waiting.load(Relaxed) as u64);
        page.single(&PROMPT_TOKENS, self.prompt_tokens.load(Relaxed));
        page.head(&FINISHED);
        for (count, (_, reason)) in self.finished.iter().zip(FINISHED_BY) {
            page.value(&FINISHED, &format!("{{finished_reason={reason:?}}}"), count.load(Relaxed));
        }
        page.head(&REFUSED);
        for (count, (_, reason)) in self.refused.iter().zip(Refusal::ALL) {
            page.value(&REFUSED, &format!("{{reason={reason:?}}}"), count.load(Relaxed));
        }
        page.single(&FAILED, self.failed.load(Relaxed));
        page.single(&CANCELLED, self.cancelled.load(Relaxed));
        page.single(&POLICY_FAILURES, self.policy_failures.load(Relaxed));
        self.latencies.render(&mut page);
        policies.render(&mut page);
        scheduling.render(&mut page);
        for (family, count) in [&SPANS, &SPANS_DROPPED].into_iter().zip(traces.counts()) {
            page.single(family, count);
        }
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
        let reason = match last {
            Event::Finished(reason) => FINISHED_BY.iter().position(|(by, _)| by == reason),
            _ => None,
        };
        match reason {
            Some(reason) => {
                self.latencies.finished(of);
                self.finished[reason].fetch_add(1, Relaxed);
            }
            None => {
                self.failed.fetch_add(1, Relaxed);
            }
        }
    }

    pub(crate) fn refused(&self, why: Refusal) {
        if let Some(at) = Refusal::ALL.iter().position(|(each, _)| *each == why) {
            self.refused[at].fetch_add(1, Relaxed);
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

/// What each reason is called.
const FINISHED_BY: [(FinishReason, &str); 2] =
    [(FinishReason::Stop, "stop"), (FinishReason::Length, "length")];

const RUNNING: Family = Family::gauge("num_requests_running", "Journeys whose turn it is at the model.");
const PARKED: Family = Family::gauge("num_requests_parked", "Journeys that are away and whose KV is kept.");
const KV_TOKENS: Family = Family::gauge("kv_cache_tokens", "Tokens in the KV cache.");
// The name is vLLM's, and so is the range.
const KV_USAGE: Family = Family::gauge(
    "kv_cache_usage_perc",
    "Part of the memory for KV that is taken, from 0 to 1; what is only kept for reuse does not count.",
);
const KV_QUERIES: Family =
    Family::counter("prefix_cache_queries_total", "Tokens looked up in the prefix cache.");
const KV_HITS: Family =
    Family::counter("prefix_cache_hits_total", "Tokens found in the prefix cache instead of being computed.");
const STEPS: Family = Family::counter("steps_total", "Steps of the model.");
const STEP_ROWS: Family = Family::counter("step_rows_total", "Journeys in steps, summed.");
const STEP_TIME: Family = Family::counter("step_seconds_total", "Time of all steps of the model.");
const FED: Family = Family::counter("fed_tokens_total", "Tokens fed to the model.");
const SAMPLED: Family = Family::counter(
    "sampled_tokens_total",
    "Tokens sampled by the model; those that are not made in the end were computed and dropped.",
);
const GENERATED: Family = Family::counter("generation_tokens_total", "Committed tokens made by the model.");
const PREEMPTED: Family =
    Family::counter("num_preemptions_total", "Journeys that went without memory for a while.");
const HANDOFFS: Family = Family::counter("handoffs_total", "Journeys handed from one model to another.");
const WAITING: Family = Family::gauge("num_requests_waiting", "Requests waiting for a place.");
const PROMPT_TOKENS: Family =
    Family::counter("prompt_tokens_total", "Tokens of the prompts of all answers that were begun.");
const FINISHED: Family = Family::counter("request_success_total", "Answers that were completed.");
const REFUSED: Family = Family::counter(
    "request_refused_total",
    "Requests that a quota of their tenant, or the length of the line, did not let in.",
);
const FAILED: Family = Family::counter("request_failure_total", "Answers that failed.");
const CANCELLED: Family = Family::counter("request_cancelled_total", "Answers whose client left.");
const SPANS: Family =
    Family::counter("trace_spans_exported_total", "Spans that the collector of traces took.");
const SPANS_DROPPED: Family = Family::counter(
    "trace_spans_dropped_total",
    "Spans that it did not take, or that there was no room for.",
);
const POLICY_FAILURES: Family =
    Family::counter("policy_failures_total", "Journeys that fell back from their policy.");
