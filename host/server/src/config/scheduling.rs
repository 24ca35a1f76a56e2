//! `[scheduler]`: when each model runs its next step.

use std::collections::BTreeMap;

use scheduler::conductor::{Bounds, Mode, Thresholds};
use scheduler::plan::Order;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// `[scheduler]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduling {
    /// Who runs when: `eager-async`, `ours`, or, to compare with, `step-sync`, `model-sync`, `fixed-b`, `paper-dtmc`.
    /// Default `eager-async`: every model as soon as anybody is ready there.
    pub mode: SchedulingMode,
    /// Bound on the 99th percentile of the milliseconds per output token of an answer, for `ours`. Default: none.
    pub slo_tpot_ms: Option<f64>,
    /// Bound on the 99th percentile of the milliseconds between two tokens of an answer, for `ours`. Default: none.
    pub slo_itl_ms: Option<f64>,
    /// For `fixed-b`: with how many ready journeys a model starts a step, by name. Default 1.
    pub thresholds: BTreeMap<String, usize>,
    /// For `fixed-b`: whether one model runs at a time. Default false.
    pub exclusive: bool,
}

/// How it is decided which model runs when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingMode {
    /// A barrier after every step over all models.
    StepSync,
    /// One model at a time, until nobody is left there.
    ModelSync,
    /// Every model as soon as anybody is ready.
    #[default]
    EagerAsync,
    /// Thresholds that are given.
    FixedB,
    /// Thresholds by the Markov chain of the TokenRouter paper.
    PaperDtmc,
    /// Order, thresholds and look-ahead by our plans.
    Ours,
}

impl Scheduling {
    /// As the scheduler wants it, for models in this order.
    #[must_use]
    pub fn mode_for<'a>(&self, models: impl Iterator<Item = &'a str>) -> Mode {
        match self.mode {
            SchedulingMode::StepSync => Mode::StepSync,
            SchedulingMode::ModelSync => Mode::ModelSync,
            SchedulingMode::EagerAsync => Mode::EagerAsync,
            SchedulingMode::FixedB => {
                let batch = models.map(|model| self.thresholds.get(model).copied().unwrap_or(1)).collect();
                let order = if self.exclusive { Order::Exclusive } else { Order::Parallel };
                Mode::FixedB(Thresholds::without_timers(batch, order))
            }
            SchedulingMode::PaperDtmc => Mode::PaperDtmc,
            SchedulingMode::Ours => Mode::Ours,
        }
    }

    /// The bounds of the whole server.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        bounds(self.slo_tpot_ms, self.slo_itl_ms)
    }

    /// As tables have it.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.mode_for(std::iter::empty()).name();
        match self.thresholds.values().max() {
            Some(most) if self.mode == SchedulingMode::FixedB => format!("{name}={most}"),
            _ => name.to_owned(),
        }
    }

    /// Checks bounds and thresholds.
    pub(super) fn check<'a>(self, models: impl Iterator<Item = &'a str>) -> Result<Self, ConfigError> {
        let models: Vec<&str> = models.collect();
        for (model, threshold) in &self.thresholds {
            let refused =
                |problem: String| Err(ConfigError::value(format!("scheduler.thresholds.{model}"), problem));
            if !models.contains(&model.as_str()) {
                return refused(format!("there is no such model; the models are {}", models.join(", ")));
            }
            if *threshold == 0 {
                return refused("must be at least 1".to_owned());
            }
        }
        if self.mode != SchedulingMode::FixedB && (self.exclusive || !self.thresholds.is_empty()) {
            let key = if self.exclusive { "scheduler.exclusive" } else { "scheduler.thresholds" };
            let problem = "is for mode = \"fixed-b\"; set that mode or leave it out";
            return Err(ConfigError::value(key, problem));
        }
        let bounds = [("slo_tpot_ms", self.slo_tpot_ms), ("slo_itl_ms", self.slo_itl_ms)];
        self.check_bounds("scheduler", bounds)?;
        Ok(self)
    }

    /// Checks the bounds of a table.
    pub(super) fn check_bounds(
        &self,
        table: &str,
        bounds: [(&str, Option<f64>); 2],
    ) -> Result<(), ConfigError> {
        for (key, bound) in bounds {
            let Some(bound) = bound else { continue };
            if !(bound > 0.0 && bound.is_finite()) {
                return Err(ConfigError::value(format!("{table}.{key}"), "must be a number above 0"));
            }
            if self.mode != SchedulingMode::Ours {
                let problem =
                    "is a bound for scheduler.mode = \"ours\"; set that mode or leave the bound out";
                return Err(ConfigError::value(format!("{table}.{key}"), problem));
            }
        }
        Ok(())
    }
}

/// Of milliseconds as they are written.
pub(super) fn bounds(slo_tpot_ms: Option<f64>, slo_itl_ms: Option<f64>) -> Bounds {
    let seconds = |ms: f64| ms / 1e3;
    Bounds { tpot_s: slo_tpot_ms.map(seconds), itl_s: slo_itl_ms.map(seconds) }
}
