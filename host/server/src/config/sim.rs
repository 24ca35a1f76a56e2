//! `[models.NAME.sim]`: a model whose steps only take time.

use std::num::NonZeroUsize;

use engine::SimSettings;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// `[models.NAME.sim]`. Tokenizer and shape are those of the model's files; its weights are not read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sim {
    /// Simulated models of the same number share a device, and its speed when both run. Default 0.
    pub device: u16,
    /// Milliseconds of every step. Default 0, as of all parts of the law.
    pub fixed_ms: f64,
    /// Milliseconds more for each row.
    pub row_ms: f64,
    /// Milliseconds more for each token that is computed.
    pub token_ms: f64,
    /// Milliseconds more for each position that the rows hold already.
    pub context_token_ms: f64,
    /// Share of positions at which the model is unsure: an entropy of 0.69 nats instead of 0.09. Default 0.
    pub unsure: f64,
    /// Most positions of one sequence. Default: as many as the model of the files has.
    pub context: Option<NonZeroUsize>,
    /// Models of one seed say the same. Default 0.
    pub seed: u64,
    /// What an answer says, over and over. Default: random tokens.
    pub text: Option<String>,
}

impl Sim {
    /// As the engine wants it.
    #[must_use]
    pub fn settings(&self) -> SimSettings {
        SimSettings {
            fixed_s: self.fixed_ms / 1e3,
            row_s: self.row_ms / 1e3,
            token_s: self.token_ms / 1e3,
            context_s: self.context_token_ms / 1e3,
            unsure: self.unsure,
            context: self.context.map(NonZeroUsize::get),
            seed: self.seed,
            text: self.text.clone(),
        }
    }

    /// Checks the numbers.
    pub(super) fn check(self, model: &str) -> Result<Self, ConfigError> {
        let refused = |key: &str, problem: &str| {
            Err(ConfigError::value(format!("models.{model}.sim.{key}"), problem.to_owned()))
        };
        let times = [
            ("fixed_ms", self.fixed_ms),
            ("row_ms", self.row_ms),
            ("token_ms", self.token_ms),
            ("context_token_ms", self.context_token_ms),
        ];
        for (key, ms) in times {
            if !(0.0..=STEP_MS_MAX).contains(&ms) {
                return refused(key, "must be a number of milliseconds from 0 to 1000000");
            }
        }
        if !(0.0..=1.0).contains(&self.unsure) {
            return refused("unsure", "must be a share from 0 to 1");
        }
        Ok(self)
    }
}

/// A quarter of an hour: nobody waits longer for a step.
const STEP_MS_MAX: f64 = 1e6;
