//! A quantile, at every number of values.
//!
//! Howard and Ramdas (2022), "Sequential estimation of quantiles with applications to A/B testing and best-arm
//! identification", Bernoulli 28(3): of n independent values the number S that are at most the p-quantile is a sum of
//! Bernoulli(p), so a confidence sequence for such sums is one for ranks. Theirs mixes over the odds with a beta
//! distribution (section 3; Robbins 1970): with `a = p k`, `b = (1 - p) k`
//!
//! ```text
//! M(S, n) = B(a + S, b + n - S) / (B(a, b) p^S (1 - p)^(n - S))
//! ```
//!
//! is a martingale that begins at 1, so it ever reaches `1 / alpha` with probability alpha at most (Ville). The ranks S
//! with `M < 1 / alpha` are an interval, and the values of these ranks hold the quantile. k makes the mixture as wide as
//! the sum's deviation at a horizon h: `k = h / 8`, the 8 being `h r^2` of [`asymptotic`](super::asymptotic).
//!
//! For distributions with steps, p-quantile means any value q with `P(x < q) <= p <= P(x <= q)`.

use super::ln_beta;

/// From which rank to which, of values in ascending order; ranks begin at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The quantile is at least the value of this rank. 0: nothing is known.
    pub low: u64,
    /// The quantile is at most the value of this rank. Above `count`: nothing is known.
    pub high: u64,
}

/// The ranks between which the p-quantile of `count` values lies, at all counts together with probability `1 - alpha`.
///
/// ```
/// # use experiment::evidence::quantile::{Ranks, ranks};
/// // p = 1/2, h = 16, so a = b = 1 and M(S, n) = 2^n / ((n + 1) C(n, S)). At n = 8 and alpha = 0.25:
/// // M(0) = 28.4, M(1) = 3.6 and M(2) = 1.02, so S is 1 to 7, and the median is between ranks 1 and 8.
/// assert_eq!(ranks(8, 0.5, 16.0, 0.25), Ranks { low: 1, high: 8 });
/// ```
#[must_use]
pub fn ranks(count: u64, p: f64, horizon: f64, alpha: f64) -> Ranks {
    let mixture = Mixture { count: count as f64, p, concentration: horizon / 8.0 };
    let limit = -alpha.ln();
    let excluded = |sum: u64| mixture.ln_martingale(sum as f64) >= limit;
    // M is least where the sum is what p says, and grows to both sides.
    let middle = (p * count as f64).round() as u64;
    let low = first(0, middle, |sum| !excluded(sum));
    let high = first(middle, count + 1, |sum| sum > count || excluded(sum));
    Ranks { low, high }
}

struct Mixture {
    count: f64,
    p: f64,
    concentration: f64,
}

impl Mixture {
    fn ln_martingale(&self, sum: f64) -> f64 {
        let (a, b) = (self.p * self.concentration, (1.0 - self.p) * self.concentration);
        let rest = self.count - sum;
        ln_beta(a + sum, b + rest) - ln_beta(a, b) - sum * self.p.ln() - rest * (-self.p).ln_1p()
    }
}

/// The first number in `from..=to` for which it holds, where it holds from one number on; `to` if for none before.
fn first(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by trying every sum in a Python program with `math.lgamma`.
    #[test]
    fn ranks_are_those_of_an_independent_program() {
        for (count, low, high) in PYTHON {
            assert_eq!(ranks(count, 0.99, 5000.0, 0.025), Ranks { low, high }, "{count}");
        }
    }

    #[test]
    fn few_values_say_nothing_of_the_far_end() {
        assert_eq!(ranks(100, 0.99, 5000.0, 0.05).high, 101);
        assert_eq!(ranks(0, 0.99, 5000.0, 0.05), Ranks { low: 0, high: 1 });
    }

    const PYTHON: [(u64, u64, u64); 3] = [(300, 287, 301), (2000, 1963, 1994), (10_000, 9866, 9931)];
}
