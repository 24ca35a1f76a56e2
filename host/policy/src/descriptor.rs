//! What a policy says it is and needs, once checked; and the parameter values of a journey.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

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
    /// How many candidates each step must show.
    pub candidates: usize,
    /// Whether `receive` judges what a bounded visit brings.
    pub receives: bool,
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
    /// Checks given values against the parameters and fills in the defaults.
    pub(crate) fn settings(
        &self,
        revision: Digest,
        given: &BTreeMap<String, f64>,
    ) -> Result<Settings, PolicyError> {
        for (key, value) in given {
            let parameter = self.parameters.iter().find(|known| known.key == *key);
            let known = || self.parameters.iter().map(|known| known.key.clone()).collect();
            let Some(parameter) = parameter else {
                return Err(PolicyError::UnknownSetting {
                    policy: self.name.clone(),
                    key: key.clone(),
                    known: known(),
                });
            };
            if !parameter.range.contains(value) {
                return Err(PolicyError::Setting {
                    policy: self.name.clone(),
                    key: key.clone(),
                    value: *value,
                    least: *parameter.range.start(),
                    most: *parameter.range.end(),
                });
            }
        }
        let value = |parameter: &Parameter| given.get(&parameter.key).copied().unwrap_or(parameter.default);
        let values = self.parameters.iter().map(|p| (p.key.clone(), value(p))).collect();
        Ok(Settings { revision, values })
    }
}
