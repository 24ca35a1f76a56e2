//! The mean of numbers in [0, 1], without further assumptions: predictable plug-in empirical Bernstein.
//!
//! Waudby-Smith and Ramdas (2023), "Estimating means of bounded random variables by betting", J. R. Stat. Soc. B 86(1),
//! theorem 2. With weights `l_i` in (0, 1) that depend on earlier values only, a predicted mean `m_(i-1)` and
//!
//! ```text
//! psi(l) = -ln(1 - l) - l        v_i = (x_i - m_(i-1))^2
//! center = sum l_i x_i / sum l_i
//! radius = (ln(2 / alpha) + sum v_i psi(l_i)) / sum l_i
//! m_t = (1/2 + sum x_i) / (t + 1)        s_t = (1/4 + sum (x_i - m_i)^2) / (t + 1)
//! l_t = min(sqrt(2 ln(2 / A) / (s_(t-1) t ln(1 + t))), 1/2)
//! ```
//!
//! holds for all t together with probability `1 - alpha`. A only tunes the weights ([`TUNED_ALPHA`]); the level is
//! chosen when reading. If the mean drifts, what is covered is the weighted mean of the conditional means, whatever the
//! dependence: it is a statement about what was served.
//!
//! The three sums of replicas add up: each replica's weights depend on its own past only, so the product of their
//! supermartingales is one again.

use serde::{Deserialize, Serialize};

use super::Interval;

/// What is kept of the values of one arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bernstein {
    count: u64,
    sum: f64,
    /// Sum of squared distances to the running mean.
    squares: f64,
    weights: f64,
    weighted: f64,
    /// Sum of `v_i psi(l_i)`.
    variation: f64,
}

impl Bernstein {
    /// One more value, in [0, 1]; what is outside is taken as the nearer end.
    pub fn add(&mut self, value: f64) {
        let x = value.clamp(0.0, 1.0);
        let weight = self.next_weight();
        let off = x - self.predicted();
        self.weights += weight;
        self.weighted += weight * x;
        self.variation += off * off * psi(weight);
        self.count += 1;
        self.sum += x;
        self.squares += (x - self.predicted()).powi(2);
    }

    /// The values of another replica.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.weights += other.weights;
        self.weighted += other.weighted;
        self.variation += other.variation;
    }

    /// The confidence sequence of the mean at this number of values.
    ///
    /// ```
    /// # use experiment::evidence::bernstein::Bernstein;
    /// let mut ones = Bernstein::default();
    /// ones.add(1.0);
    /// // l_1 = min(sqrt(2 ln 40 / (0.25 ln 2)), 0.5) = 0.5, v_1 = 0.25, psi = 0.193147, and ln(2 / 0.1) = 2.995732:
    /// // radius = (2.995732 + 0.048287) / 0.5 = 6.088038
    /// assert!((ones.radius(0.1) - 6.088038).abs() < 1e-6);
    /// assert_eq!((ones.interval(0.1).low, ones.interval(0.1).high), (0.0, 1.0));
    /// ```
    #[must_use]
    pub fn interval(&self, alpha: f64) -> Interval {
        if self.count == 0 {
            return Interval { low: 0.0, high: 1.0 };
        }
        let around = Interval::around(self.weighted / self.weights, self.radius(alpha));
        Interval { low: around.low.max(0.0), high: around.high.min(1.0) }
    }

    /// Half the width of the sequence before it is cut to [0, 1]; infinite without values.
    #[must_use]
    pub fn radius(&self, alpha: f64) -> f64 {
        ((2.0 / alpha).ln() + self.variation) / self.weights
    }

    /// Values so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    fn predicted(&self) -> f64 {
        (0.5 + self.sum) / (self.count as f64 + 1.0)
    }

    fn next_weight(&self) -> f64 {
        let t = self.count as f64 + 1.0;
        let variance = (0.25 + self.squares) / t;
        (2.0 * (2.0 / TUNED_ALPHA).ln() / (variance * t * t.ln_1p())).sqrt().min(WEIGHT_MAX)
    }
}

fn psi(weight: f64) -> f64 {
    -(-weight).ln_1p() - weight
}

/// The level for which the weights are best.
pub const TUNED_ALPHA: f64 = 0.05;
/// The authors advise 1/2 or 3/4: a weight near 1 is ruinous when the first values mislead.
const WEIGHT_MAX: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Bernstein {
        let mut sums = Bernstein::default();
        values.into_iter().for_each(|value| sums.add(value));
        sums
    }

    /// 1,000 values with every fifth a one, computed with a plain Python program from the formulas above.
    #[test]
    fn the_interval_is_that_of_an_independent_program() {
        let interval = of((0..1000).map(|i| f64::from(i % 5 == 0))).interval(0.05);
        assert!(
            (interval.low - PYTHON.0).abs() < 1e-9 && (interval.high - PYTHON.1).abs() < 1e-9,
            "{interval:?}"
        );
    }

    #[test]
    fn replicas_add_up() {
        let mut merged = of([0.1, 0.9]);
        merged.merge(&of([0.4]));
        let single = |value: f64| 0.5 * value;
        assert_eq!(merged.count(), 3);
        let weighted = merged.weighted - of([0.1, 0.9]).weighted;
        assert!((weighted - single(0.4)).abs() < 1e-12);
        assert!(merged.radius(0.05) < of([0.1, 0.9]).radius(0.05));
    }

    const PYTHON: (f64, f64) = (0.15287519114727427, 0.2503662714717033);
}
