//! `[scheduler]`: when each model runs its next step.

use scheduler::conductor::Mode;
use serde::Deserialize;

use super::ConfigError;

/// `[scheduler]`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduling {
    /// Who runs when: `eager-async`, `ours`, or, to compare with, `step-sync`, `model-sync`, `paper-dtmc`. Default
    /// `eager-async`: every model as soon as anybody is ready there.
    pub mode: SchedulingMode,
    /// Bound on the 99th percentile of the milliseconds per output token of an answer, for `ours`. Default: none.
    pub slo_tpot_ms: Option<f64>,
    /// Bound on the 99th percentile of the milliseconds between two tokens of an answer, for `ours`. Default: none.
    pub slo_itl_ms: Option<f64>,
}

/// How it is decided which model runs when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingMode {
    /// A barrier after every step over all models.
    StepSync,
    /// One model at a time, until nobody is left there.
    ModelSync,
    /// Every model as soon as anybody is ready.
    #[default]
    EagerAsync,
    /// Thresholds by the Markov chain of the TokenRouter paper.
    PaperDtmc,
    /// Order, thresholds and look-ahead by our plans.
    Ours,
}

impl From<SchedulingMode> for Mode {
    fn from(mode: SchedulingMode) -> Self {
        match mode {
            SchedulingMode::StepSync => Self::StepSync,
            SchedulingMode::ModelSync => Self::ModelSync,
            SchedulingMode::EagerAsync => Self::EagerAsync,
            SchedulingMode::PaperDtmc => Self::PaperDtmc,
            SchedulingMode::Ours => Self::Ours,
        }
    }
}

impl Scheduling {
    /// Checks the bounds.
    pub(super) fn check(self) -> Result<Self, ConfigError> {
        for (key, bound) in [("slo_tpot_ms", self.slo_tpot_ms), ("slo_itl_ms", self.slo_itl_ms)] {
            let Some(bound) = bound else { continue };
            if !(bound > 0.0 && bound.is_finite()) {
                return Err(ConfigError::value(format!("scheduler.{key}"), "must be a number above 0"));
            }
            if self.mode != SchedulingMode::Ours {
                let problem = "is a bound for mode = \"ours\"; set that mode or leave the bound out";
                return Err(ConfigError::value(format!("scheduler.{key}"), problem));
            }
        }
        Ok(self)
    }
}
