//! Short ways to write the values of the interface.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::{Accept, Decision, Descriptor, Handoff, Offer, Parameter, Parcel, Role, Start};

impl Descriptor {
    /// A policy for routes of two models, without parameters, that sees only scalars and accepts what visits bring.
    #[must_use]
    pub fn new(name: &str, doc: &str) -> Self {
        Self {
            name: name.to_string(),
            doc: doc.to_string(),
            parameters: Vec::new(),
            models_least: 2,
            models_most: 2,
            candidates: 0,
            receives: false,
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// How many models a route with this policy may have.
    #[must_use]
    pub fn models(mut self, count: RangeInclusive<u32>) -> Self {
        self.models_least = *count.start();
        self.models_most = *count.end();
        self
    }

    /// How many of the most probable tokens each step shall show; at most 128.
    #[must_use]
    pub fn candidates(mut self, count: u32) -> Self {
        self.candidates = count;
        self
    }

    /// Asks for [`Session::receive`](crate::Session::receive) after each bounded visit.
    #[must_use]
    pub fn receives(mut self) -> Self {
        self.receives = true;
        self
    }
}

impl Parameter {
    /// Any number of the range.
    #[must_use]
    pub fn number(key: &str, default: f64, range: RangeInclusive<f64>, doc: &str) -> Self {
        Self {
            key: key.to_string(),
            default,
            least: *range.start(),
            most: *range.end(),
            whole: false,
            doc: doc.to_string(),
        }
    }

    /// A whole number of the range.
    #[must_use]
    pub fn count(key: &str, default: u32, range: RangeInclusive<u32>, doc: &str) -> Self {
        let range = f64::from(*range.start())..=f64::from(*range.end());
        Self { whole: true, ..Self::number(key, f64::from(default), range, doc) }
    }
}

impl Start {
    /// The value of a declared parameter.
    ///
    /// # Panics
    /// When the policy did not declare `key`; the host gives a value for every parameter that it did.
    #[must_use]
    pub fn number(&self, key: &str) -> f64 {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.expect("the parameter is declared in the descriptor").value
    }

    /// The value of a parameter that was declared by [`Parameter::count`].
    ///
    /// # Panics
    /// As [`Self::number`].
    #[must_use]
    pub fn count(&self, key: &str) -> u32 {
        self.number(key) as u32
    }
}

impl Decision {
    /// To the model `to`: for that many tokens and then back, or with 0 to stay there.
    #[must_use]
    pub fn hand_off(to: Role, tokens: u32) -> Self {
        Self::HandOff(Handoff { to, tokens })
    }
}

impl Parcel {
    /// The held token is dropped; the target decides its position.
    pub const DROP_HELD: Self = Self { keep_held: false };

    /// The held token is committed before the journey leaves.
    pub const KEEP_HELD: Self = Self { keep_held: true };
}

impl Accept {
    /// Takes everything that was offered.
    #[must_use]
    pub fn all(offer: &Offer) -> Self {
        Self { take: offer.tokens.len() as u32 }
    }
}
