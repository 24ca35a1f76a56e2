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
            candidates: 0,
            receives: false,
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
