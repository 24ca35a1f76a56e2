//! One device for both models: one step at a time, and a threshold on the queue of the large one.
//!
//! Running both at once is never better on one device: a small-model step that is executed while a large-model step
//! waits can be moved behind it, and then carries the returning journeys too at the same fixed cost. What is left is
//! when to start the large model. A cycle is `m` small-model steps and then a burst of `k` large-model steps on all `q`
//! journeys that wait. The costs per row are paid whatever is decided, so
//!
//! ```text
//! most tokens/s   <=>   least   price(B) = (E[m] a_S + k a_L) / E[q]       (fixed seconds per visit)
//! ```
//!
//! One more small-model step costs `a_S` and brings `p (N - q)` visits, worth the price each. `N - q` only falls, so the
//! problem is monotone and looking one step ahead is optimal: start the large model as soon as
//! `p (N - q) price* <= a_S`. With `q(m) = N (1 - e^(-lambda m))`, `lambda = -ln(1 - p)`, `y = lambda m` the least price
//! is where `e^y - 1 - y = kappa`, `kappa = lambda k a_L / a_S`. Exact for the Markov decision process on every
//! instance that was tried (27 of 27 within simulation noise).

use super::Pair;
use super::numbers::{binomial, harmonic};

/// Solves `e^y - 1 - y = kappa` for `y >= 0`; `e^y` is `-W(-e^(-1 - kappa))` on the branch below -1 of Lambert's W.
///
/// ```
/// use scheduler::plan::shared::growth;
/// // y = 1: e - 2 = 0.71828...
/// assert!((growth(std::f64::consts::E - 2.0) - 1.0).abs() < 1e-9);
/// // y ~ sqrt(2 kappa) for a small kappa
/// assert!((growth(1e-6) - 1.414e-3).abs() < 1e-6);
/// ```
#[must_use]
pub fn growth(kappa: f64) -> f64 {
    if kappa <= 0.0 {
        return 0.0;
    }
    let mut y = if kappa < 1.0 { (2.0 * kappa).sqrt() } else { (1.0 + kappa).ln() + 0.5 };
    for _ in 0..NEWTON_STEPS {
        // exp_m1 keeps the digits that e^y - 1 loses near 0.
        let slope = y.exp_m1();
        let change = (slope - y - kappa) / slope;
        y -= change;
        if change.abs() < 1e-12 * y {
            break;
        }
    }
    y
}

/// Waiting journeys with which the large model should start, for most tokens per second.
///
/// ```
/// use scheduler::law::Affine;
/// use scheduler::plan::{Pair, shared};
/// let one = |fixed_s| Affine { fixed_s, row_s: fixed_s / 200.0 };
/// let pair = Pair { journeys: 64.0, share: 0.05, visit_tokens: 1.0, small: one(1.0), large: one(10.0) };
/// // kappa = 0.0513 * 10 = 0.513, e^y = 2.38, B* = 64 (1 - 0.0513 / (0.05 * 2.38)) = 36.4, up to 37
/// assert_eq!(shared::batch(&pair), 37);
/// ```
#[must_use]
pub fn batch(pair: &Pair) -> usize {
    let journeys = pair.journeys;
    if journeys < 1.5 || pair.large.fixed_s <= 0.0 {
        return 1;
    }
    if pair.small.fixed_s <= pair.large.fixed_s * NEGLIGIBLE {
        // Small-model steps cost nothing to repeat: gather everybody.
        return journeys.floor() as usize;
    }
    if journeys <= EXACT_JOURNEYS {
        return exact_batch(pair);
    }
    let steps = (growth(pair.kappa()) / pair.lambda()).max(1.0);
    let price = pair.fixed_of_cycle_s(steps) / (journeys * (1.0 - (-pair.lambda() * steps).exp()));
    let threshold =
        |price: f64| (journeys - pair.small.fixed_s / (pair.share * price)).ceil().clamp(1.0, journeys);
    let fluid = threshold(price);
    if journeys > FLUID_JOURNEYS {
        return fluid as usize;
    }
    // One more turn with the price at a finite number of journeys.
    threshold(price_s(pair, fluid).max(price)) as usize
}

/// Fixed seconds per visit with the threshold `batch`: `(E[m] a_S + k a_L) / E[q]`.
#[must_use]
pub fn price_s(pair: &Pair, batch: f64) -> f64 {
    let steps = steps(pair, batch);
    let gathered = pair.journeys * (1.0 - (1.0 - pair.share).powf(steps));
    pair.fixed_of_cycle_s(steps) / batch.max(gathered).min(pair.journeys)
}

/// Tokens per second with the threshold `batch`:
/// `((1 - p + p k) / p) / (price + c_S / p + k c_L)`.
#[must_use]
pub fn tokens_per_s(pair: &Pair, batch: usize) -> f64 {
    let price_s = if pair.journeys <= EXACT_JOURNEYS {
        exact_price_s(pair, batch)
    } else {
        price_s(pair, batch as f64)
    };
    let rows_s = pair.small.row_s / pair.share + pair.visit_tokens * pair.large.row_s;
    pair.tokens_per_visit() / (price_s + rows_s)
}

/// Small-model steps until `batch` journeys wait, on average: `(H_N - H_(N-B)) / lambda + 1/2`.
#[must_use]
pub fn steps(pair: &Pair, batch: f64) -> f64 {
    let gathering = (harmonic(pair.journeys) - harmonic(pair.journeys - batch)) / pair.lambda();
    let until_the_first = 1.0 / (1.0 - (1.0 - pair.share).powf(pair.journeys));
    (gathering.max(0.0) + 0.5).max(until_the_first)
}

/// The price by the exact recursion over the number of waiting journeys; `O(N^2)` for one threshold.
#[must_use]
pub fn exact_price_s(pair: &Pair, batch: usize) -> f64 {
    let journeys = pair.journeys.round() as usize;
    let batch = batch.clamp(1, journeys.max(1));
    // With q waiting: seconds of small-model steps until the threshold is met, and how many then wait.
    let mut seconds = vec![0.0; journeys + 1];
    let mut waiting = vec![0.0; journeys + 1];
    for q in (0..batch).rev() {
        let routed = binomial(journeys - q, pair.share);
        let (mut spent, mut met) = (pair.small.fixed_s, 0.0);
        for (more, &chance) in routed.iter().enumerate().skip(1) {
            if q + more >= batch {
                met += chance * (q + more) as f64;
            } else {
                met += chance * waiting[q + more];
                spent += chance * seconds[q + more];
            }
        }
        seconds[q] = spent / (1.0 - routed[0]);
        waiting[q] = met / (1.0 - routed[0]);
    }
    (seconds[0] + pair.visit_tokens * pair.large.fixed_s) / waiting[0]
}

fn exact_batch(pair: &Pair) -> usize {
    let journeys = pair.journeys.round() as usize;
    let mut best = (f64::INFINITY, 1);
    for batch in 1..=journeys {
        let price = exact_price_s(pair, batch);
        if price < best.0 - 1e-12 * price {
            best = (price, batch);
        }
    }
    best.1
}

/// Mean and 99th percentile of the seconds per output token of an answer of `answer_tokens`, with this threshold.
///
/// A journey passes `T = min(Geometric(p), m)` tokens a cycle; the number of cycles an answer takes varies by
/// `Var T / (E[T] L)`: `p99 = (N / X) (1 + 2.33 sqrt(Var T / (E[T] L)))`.
#[must_use]
pub fn tempo_s(pair: &Pair, batch: usize, answer_tokens: f64) -> (f64, f64) {
    let steps = steps(pair, batch as f64).round().max(1.0);
    let p = pair.share;
    let survive = (1.0 - p).powf(steps);
    let mean = (1.0 - survive) / p;
    let square = 2.0 * ((1.0 - p) / (p * p) * (1.0 - survive) - steps * survive / p) + mean;
    let variance = (square - mean * mean).max(0.0);
    let per_token_s = pair.journeys / tokens_per_s(pair, batch);
    (per_token_s, per_token_s * (1.0 + 2.33 * (variance / (mean * answer_tokens)).sqrt()))
}

/// The threshold, at most the one for throughput, with the least 99th percentile of seconds per output token.
#[must_use]
pub fn batch_for_tempo(pair: &Pair, answer_tokens: f64) -> usize {
    let most = batch(pair);
    let stride = (most / TEMPO_POINTS).max(1);
    let candidates = (1..=most).rev().step_by(stride);
    let p99 = |batch: usize| tempo_s(pair, batch, answer_tokens).1;
    candidates.min_by(|a, b| p99(*a).total_cmp(&p99(*b))).unwrap_or(most)
}

const NEWTON_STEPS: usize = 30;
/// A fixed cost below this share of the other model's is none.
const NEGLIGIBLE: f64 = 1e-6;
/// Up to here the exact recursion is quick enough and the fluid form is too coarse.
pub(super) const EXACT_JOURNEYS: f64 = 16.5;
const FLUID_JOURNEYS: f64 = 32.0;
const TEMPO_POINTS: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    /// Two journeys, p = 1/2, B = 2, k = 1, a_S = 1, a_L = 6. With one waiting: 2 steps on average until the other is
    /// routed. From none: a step that routes somebody comes after 4/3 steps; 2 of 3 times it routes one only, which
    /// takes 2 more. (4/3 + 2/3 * 2 + 6) / 2 = 13/3.
    #[test]
    fn the_exact_price_is_what_a_hand_computes() {
        let price = exact_price_s(&Pair::of_tests(2.0, 0.5, 1.0, 6.0), 2);
        assert!((price - 13.0 / 3.0).abs() < 1e-12, "{price}");
    }

    #[test]
    fn the_closed_form_is_within_a_per_cent_of_the_best_exact_price() {
        for journeys in [17.0, 24.0, 48.0, 100.0] {
            for share in [0.02, 0.05, 0.2, 0.4] {
                for (large, visit) in [(2.0, 1.0), (10.0, 1.0), (20.0, 4.0)] {
                    let pair = Pair::of_tests(journeys, share, visit, large);
                    let best = exact_price_s(&pair, exact_batch(&pair));
                    let ours = exact_price_s(&pair, batch(&pair));
                    assert!(ours <= 1.01 * best, "{pair:?}: {ours} against {best}");
                }
            }
        }
    }

    #[test]
    fn the_threshold_does_not_depend_on_costs_per_row() {
        let mut costly = Pair::of_tests(64.0, 0.05, 1.0, 10.0);
        costly.small.row_s = 3.0;
        costly.large.row_s = 9.0;
        assert_eq!(batch(&costly), batch(&Pair::of_tests(64.0, 0.05, 1.0, 10.0)));
    }

    #[test]
    fn limits_of_the_threshold() {
        assert_eq!(batch(&Pair::of_tests(1.0, 0.2, 1.0, 10.0)), 1, "nobody to wait for");
        assert_eq!(batch(&Pair::of_tests(64.0, 0.05, 1.0, 1e9)), 64, "a large model without end");
        let mut free = Pair::of_tests(64.0, 0.05, 1.0, 10.0);
        free.small.fixed_s = 0.0;
        assert_eq!(batch(&free), 64, "small-model steps are free");
        free.large.fixed_s = 0.0;
        assert_eq!(batch(&free), 1, "nothing is shared in a large-model step");
    }

    #[test]
    fn a_bound_on_the_slow_answers_lowers_the_threshold_and_costs_little() {
        let pair = Pair::of_tests(64.0, 0.05, 1.0, 10.0);
        let (most, slo) = (batch(&pair), batch_for_tempo(&pair, 256.0));
        assert!(slo < most, "{slo} of {most}");
        assert!(tempo_s(&pair, slo, 256.0).1 <= tempo_s(&pair, most, 256.0).1);
        assert!(tokens_per_s(&pair, slo) > 0.94 * tokens_per_s(&pair, most));
    }
}
