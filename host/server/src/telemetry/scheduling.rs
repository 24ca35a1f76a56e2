//! What the scheduler believes and plans, as gauges.

use super::page::{Family, Named, Page};

/// A snapshot of the scheduler of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulingGauges {
    /// Plans made so far.
    pub plans: u64,
    /// Whether one model runs at a time; `None` without a plan.
    pub is_exclusive: Option<bool>,
    /// Tokens per second that the plan in force promises.
    pub predicted_tokens_per_s: Option<f64>,
    /// Speed of two models of a device at once, relative to one alone.
    pub overlap: f64,
    /// Every model.
    pub models: Vec<ModelGauges>,
}

/// A model of the group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelGauges {
    /// Its name.
    pub name: String,
    /// Journeys that could take part in a step now.
    pub ready: usize,
    /// Ready journeys with which it starts.
    pub threshold: usize,
    /// Seconds of every step, and more for each row, as believed.
    pub step_fixed_s: f64,
    /// Seconds more for each row.
    pub step_row_s: f64,
    /// How far off recent steps were predicted, relative to what they took: the median and the ninth decile.
    pub step_error: Option<[f64; 2]>,
}

impl SchedulingGauges {
    /// Adds the gauges to a page.
    pub(super) fn render(&self, page: &mut Page) {
        page.single(&PLANS, self.plans);
        page.single(&OVERLAP, self.overlap);
        // Families are told without a plan too, so that nobody takes their names for misspelt.
        page.head(&EXCLUSIVE);
        if let Some(is_exclusive) = self.is_exclusive {
            page.value(&EXCLUSIVE, "", u8::from(is_exclusive));
        }
        page.head(&PREDICTED);
        if let Some(predicted) = self.predicted_tokens_per_s {
            page.value(&PREDICTED, "", predicted);
        }
        page.per_model(&READY, &self.models, |model| model.ready);
        page.per_model(&THRESHOLD, &self.models, |model| model.threshold);
        page.per_model(&STEP_FIXED, &self.models, |model| model.step_fixed_s);
        page.per_model(&STEP_ROW, &self.models, |model| model.step_row_s);
        page.head(&STEP_ERROR);
        for model in &self.models {
            for (error, percentile) in model.step_error.into_iter().flatten().zip(["50", "90"]) {
                let labels = format!("{{model={:?},percentile={percentile:?}}}", model.name);
                page.value(&STEP_ERROR, &labels, error);
            }
        }
    }
}

impl Named for ModelGauges {
    fn name(&self) -> &str {
        &self.name
    }
}

const PLANS: Family = Family::counter("scheduler_plans_total", "Plans made.");
const OVERLAP: Family =
    Family::gauge("scheduler_overlap", "Speed of two models of a device at once, over one alone.");
const EXCLUSIVE: Family =
    Family::gauge("scheduler_exclusive", "1 where one model runs at a time by the plan in force.");
const PREDICTED: Family =
    Family::gauge("scheduler_predicted_tokens_per_second", "What the plan in force promises.");
const READY: Family = Family::gauge("scheduler_ready", "Journeys that could take part in a step now.");
const THRESHOLD: Family = Family::gauge("scheduler_threshold", "Ready journeys with which a step starts.");
const STEP_FIXED: Family = Family::gauge("scheduler_step_fixed_seconds", "Cost of every step, as believed.");
const STEP_ROW: Family = Family::gauge("scheduler_step_row_seconds", "Cost of a row more, as believed.");
const STEP_ERROR: Family = Family::gauge(
    "scheduler_step_error_ratio",
    "Difference of predicted and observed time of recent steps, over the observed one.",
);
