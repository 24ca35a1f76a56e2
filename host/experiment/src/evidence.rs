//! What may be said of arms while their answers still come in.
//!
//! A *confidence sequence* at level alpha is an interval for every number of answers such that, with probability
//! `1 - alpha`, **all** of them hold. So one may look after every answer, stop when one likes, and go on.
//!
//! | room | says what of | rests on |
//! |---|---|---|
//! | [`bernstein`] | means of numbers in [0, 1] | nothing but the bounds |
//! | [`asymptotic`] | differences of any means, answers of one key depending on each other | a limit theorem |
//! | [`quantile`] | a quantile, e.g. p99 | answers independent of each other |
//! | [`ratio`] | whether arms get the keys that their weights say | nothing |

pub mod asymptotic;
pub mod bernstein;
pub mod quantile;
pub mod ratio;

use serde::Serialize;

/// From where to where. Ends may be infinite, where nothing is known yet; in JSON they are then null.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Nothing is known.
    pub const EVERYTHING: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// The interval of this radius around a number.
    #[must_use]
    pub fn around(center: f64, radius: f64) -> Self {
        Self { low: center - radius, high: center + radius }
    }

    /// What this number can be less the other, if each is in its interval: a union bound adds their levels of error.
    ///
    /// ```
    /// # use experiment::evidence::Interval;
    /// let (a, b) = (Interval { low: 3.0, high: 5.0 }, Interval { low: 1.0, high: 2.0 });
    /// assert_eq!(a.minus(b), Interval { low: 1.0, high: 4.0 });
    /// ```
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }

    /// Whether the number is in it.
    #[must_use]
    pub fn contains(self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }
}

/// `ln B(a, b)`, the logarithm of the beta function.
fn ln_beta(a: f64, b: f64) -> f64 {
    libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b)
}
