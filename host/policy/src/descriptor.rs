//! What a policy says it is and needs, once checked; and the parameter values of a journey.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use journey::{Guard, Role, Rules, Signal, Trigger};

use crate::digest::Digest;
use crate::error::PolicyError;

/// What a policy is and needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// One word, as in file names.
    pub name: String,
    /// One line for people.
    pub doc: String,
    /// What can be set, in the policy's order.
    pub parameters: Vec<Parameter>,
    /// How many models a route with this policy may have.
    pub models: RangeInclusive<usize>,
    /// What it needs of the model in each role; roles beyond the list need nothing.
    pub needs: Vec<Need>,
    /// When `route` is asked.
    pub guards: Vec<PolicyGuard>,
    /// How many candidates each step must show.
    pub candidates: usize,
    /// Bytes of the answer's end that each step must show.
    pub tail: usize,
    /// Bytes of the prompt's end that a session begins with.
    pub prompt: usize,
    /// Whether `enter` is asked; otherwise a journey begins at the entry model.
    pub enters: bool,
    /// Whether `send` is asked; otherwise the held token is dropped.
    pub sends: bool,
    /// Whether `receive` judges what a bounded visit brings.
    pub receives: bool,
    /// Whether distributions are kept, for `verify` and `mix`.
    pub distributions: bool,
    /// Committed tokens that the client does not see until others follow.
    pub holdback: usize,
    /// Where a journey goes on if the policy fails.
    pub fallback: Option<Role>,
}

/// What a policy needs of the model in one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// What the policy calls the role.
    pub name: String,
    /// One line for people.
    pub doc: String,
    /// Heads that the model must have, in this order.
    pub heads: Vec<String>,
    /// Fewest tokens that it must be able to hold.
    pub context_least: usize,
}

/// A guard whose limits are parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyGuard {
    /// The model whose tokens it looks at.
    pub role: Role,
    /// When it fires.
    pub fires: Fires,
}

/// When a guard fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fires {
    /// The signal is above the parameter.
    Above(Limit),
    /// The signal is below the parameter.
    Below(Limit),
    /// The held token completes a text.
    Text(String),
    /// The held token is the first after a text.
    AfterText(String),
    /// The held token is the first of the answer.
    Start,
    /// The held token ends the answer.
    End,
}

/// A signal against a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The signal.
    pub signal: Signal,
    /// Key of the parameter.
    pub parameter: String,
}

/// A number that a route or a request may set.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in the configuration.
    pub key: String,
    /// Used when nobody sets it.
    pub default: f64,
    /// The allowed values.
    pub range: RangeInclusive<f64>,
    /// Whether only whole numbers are allowed.
    pub whole: bool,
    /// Meaning and unit, for people.
    pub doc: String,
}

/// A checked value for every parameter of one revision. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub(crate) revision: Digest,
    pub(crate) values: Arc<[(String, f64)]>,
}

impl Settings {
    /// The values by key, in the descriptor's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(key, value)| (key.as_str(), *value))
    }
}

impl Descriptor {
    /// What the host must do for a journey with these settings.
    #[must_use]
    pub fn rules(&self, settings: &Settings) -> Rules {
        let value = |limit: &Limit| {
            let value = settings.iter().find(|(key, _)| *key == limit.parameter);
            (limit.signal, value.map_or(f32::NAN, |(_, value)| value as f32))
        };
        let trigger = |fires: &Fires| match fires {
            Fires::Above(limit) => {
                let (signal, value) = value(limit);
                Trigger::Above(signal, value)
            }
            Fires::Below(limit) => {
                let (signal, value) = value(limit);
                Trigger::Below(signal, value)
            }
            Fires::Text(text) => Trigger::Text(text.clone()),
            Fires::AfterText(text) => Trigger::AfterText(text.clone()),
            Fires::Start => Trigger::Start,
            Fires::End => Trigger::End,
        };
        let guard = |guard: &PolicyGuard| Guard { role: guard.role, fires: trigger(&guard.fires) };
        Rules {
            guards: self.guards.iter().map(guard).collect(),
            holds_visits: self.receives,
            distributions: self.distributions,
            // Which scores of a model's engine are meant is known where the model is.
            scores: Vec::new(),
            observe: None,
            considered: false,
            tail: self.tail,
            holdback: self.holdback,
        }
    }

    /// Checks given values against the parameters and fills in the defaults.
    pub(crate) fn settings(
        &self,
        revision: Digest,
        given: &BTreeMap<String, f64>,
    ) -> Result<Settings, PolicyError> {
        if let Some(key) = given.keys().find(|key| !self.parameters.iter().any(|known| known.key == **key)) {
            return Err(PolicyError::UnknownSetting {
                policy: self.name.clone(),
                key: key.clone(),
                known: self.parameters.iter().map(|known| known.key.clone()).collect(),
            });
        }
        let setting = |parameter: &Parameter| {
            let value = given.get(&parameter.key).copied().unwrap_or(parameter.default);
            if parameter.allows(value) {
                return Ok((parameter.key.clone(), value));
            }
            Err(PolicyError::Setting {
                policy: self.name.clone(),
                key: parameter.key.clone(),
                value,
                allowed: parameter.allowed(),
            })
        };
        let values = self.parameters.iter().map(setting).collect::<Result<_, _>>()?;
        Ok(Settings { revision, values })
    }
}

impl Parameter {
    /// Whether the policy can be given this value.
    #[must_use]
    pub fn allows(&self, value: f64) -> bool {
        self.range.contains(&value) && (!self.whole || value.fract() == 0.0)
    }

    /// The allowed values, in words.
    #[must_use]
    pub fn allowed(&self) -> String {
        let kind = if self.whole { "whole number" } else { "number" };
        format!("a {kind} from {} to {}", self.range.start(), self.range.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        let parameter = |key: &str, default, most, whole| Parameter {
            key: key.to_owned(),
            default,
            range: 0.0..=most,
            whole,
            doc: String::new(),
        };
        Descriptor {
            name: "example".to_owned(),
            doc: String::new(),
            parameters: vec![parameter("threshold", 0.5, 1.0, false), parameter("tokens", 1.0, 8.0, true)],
            models: 2..=2,
            needs: Vec::new(),
            guards: Vec::new(),
            candidates: 0,
            tail: 0,
            prompt: 0,
            enters: false,
            sends: false,
            receives: false,
            distributions: false,
            holdback: 0,
            fallback: None,
        }
    }

    fn settings(key: &str, value: f64) -> Result<Settings, PolicyError> {
        descriptor().settings(Digest::of(b""), &BTreeMap::from([(key.to_owned(), value)]))
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let settings = settings("tokens", 8.0).expect("8 is allowed");
        assert_eq!(settings.iter().collect::<Vec<_>>(), [("threshold", 0.5), ("tokens", 8.0)]);
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_what_is_allowed() {
        let error = settings("threshold", 1.5).expect_err("1.5 is too large").to_string();
        assert_eq!(error, "setting `threshold` of policy example: 1.5 is not a number from 0 to 1");
        let error = settings("tokens", 1.5).expect_err("1.5 is not whole").to_string();
        assert_eq!(error, "setting `tokens` of policy example: 1.5 is not a whole number from 0 to 8");
        assert!(settings("threshold", f64::NAN).is_err());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_known_ones() {
        let error = settings("treshold", 0.5).expect_err("misspelt").to_string();
        assert_eq!(
            error,
            "setting `treshold` of policy example: there is no such parameter; it has: threshold, tokens"
        );
    }
}
