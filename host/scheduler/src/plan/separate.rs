//! A device for each model: both run at once, and delay at the large model pays only where its steps are long.
//!
//! With batches of `b` at the large model the small one's population decays during a large step from `N - b` to `n1`,
//! `(a_S / lambda) ln((N - b) / n1) + (c_S / p) (N - b - n1) = T_L(b)`; those that were routed wait, the `b` return, and
//! gathering up to `B` takes `(a_S / lambda) (H_(N - q) - H_(N - B)) + (c_S / p) (B - q)` more. Three corrections make it
//! accurate: the number routed is binomial (so its shortfall is that of a normal), a gathering overshoots by
//! `(p (N - B) - 1) / 2`, and journeys that return during a step wait for its end. Immediate admission has an estimate
//! of its own, by Little's law. Delay is worth it only if it wins by a margin, as both are estimates.
//!
//! The same formulas predict two models that run at once on one device, where `wall` is how much longer a step takes.

use super::numbers::{harmonic, normal_below, shortfall};
use super::{Pair, chain};

/// Throughput of one way of running, as predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Waiting journeys with which the large model starts; 1 is immediate admission.
    pub batch: usize,
    /// Tokens per second.
    pub tokens_per_s: f64,
}

/// The best threshold for two models that run at once, each step `wall` times longer than alone (1: own devices).
///
/// `O(50)` evaluations of the cycle, or of the chain over the batch for up to eight journeys.
#[must_use]
pub fn best(pair: &Pair, wall: f64) -> Forecast {
    let now = immediate(pair, wall);
    // Waiting saves fixed costs of large steps; where they are next to nothing, so is what it can gain.
    let fixed_share = pair.large.fixed_s / pair.large.step_s(now.batch).max(f64::MIN_POSITIVE);
    if pair.journeys < 1.5 || fixed_share < FIXED_SHARE_MIN {
        return Forecast { batch: 1, tokens_per_s: now.tokens_per_s };
    }
    let small = is_small(pair);
    let at_once = match (small, pair.visit_tokens < 1.5) {
        (true, _) => chain::tokens_per_s(pair, 1, wall),
        (false, true) => now.tokens_per_s.max(cycle(pair, 1.0, wall)),
        (false, false) => now.tokens_per_s,
    };
    let margin = if small { CHAIN_MARGIN } else { CYCLE_MARGIN };
    let mut best = Forecast { batch: 1, tokens_per_s: at_once * margin };
    let mut batch = if small { 2.0 } else { (now.batch.floor() + 1.0).max(2.0).min(pair.journeys) };
    let stride = SCAN_STRIDE.max((pair.journeys / batch).powf(1.0 / SCAN_POINTS));
    loop {
        let tokens_per_s = predicted(pair, batch, wall);
        if tokens_per_s > best.tokens_per_s {
            best = Forecast { batch: batch as usize, tokens_per_s };
        }
        if batch >= pair.journeys {
            break;
        }
        batch = (batch * stride).ceil().max(batch + 1.0).min(pair.journeys);
    }
    if best.batch == 1 {
        // What is reported of immediate admission is its own estimate, without the margin.
        best.tokens_per_s = if small { at_once } else { now.tokens_per_s };
    }
    best
}

/// Tokens per second with the threshold `batch`.
#[must_use]
pub fn predicted(pair: &Pair, batch: f64, wall: f64) -> f64 {
    if is_small(pair) { chain::tokens_per_s(pair, batch as usize, wall) } else { cycle(pair, batch, wall) }
}

/// Up to two dozen journeys on one-token visits the chain over the batch is quick (60 us a threshold), and the fluid cycle
/// too coarse: it is up to a tenth too low between the batch of immediate admission and the best one.
fn is_small(pair: &Pair) -> bool {
    pair.journeys <= CHAIN_JOURNEYS && pair.visit_tokens < 1.5
}

/// What immediate admission does on its own.
#[derive(Clone, Copy, Debug)]
pub struct Immediate {
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// Mean rows of a large-model step.
    pub batch: f64,
}

/// Immediate admission by Little's law: `N = n + v (W + k T_L + R)`, with `n` at the small model, `v = p n / T_S(n)`
/// visits per second, `W` the wait for a large step in flight and `R` that for a small one. Found by bisection in `n`.
#[must_use]
pub fn immediate(pair: &Pair, wall: f64) -> Immediate {
    let (mut low, mut high) = (0.0, pair.journeys);
    for _ in 0..BISECTIONS {
        let middle = 0.5 * (low + high);
        if placed(pair, middle, wall).0 > pair.journeys {
            high = middle;
        } else {
            low = middle;
        }
    }
    let at_small = 0.5 * (low + high);
    let step_s = pair.small.step_s(at_small) * wall;
    let tokens_per_token = 1.0 - pair.share + pair.share * pair.visit_tokens;
    Immediate { tokens_per_s: tokens_per_token * at_small / step_s, batch: placed(pair, at_small, wall).1 }
}

/// How many journeys there must be for `at_small` of them to be at the small model, and the large model's batch then.
fn placed(pair: &Pair, at_small: f64, wall: f64) -> (f64, f64) {
    let (small, large, k) = (pair.small.slowed(wall), pair.large.slowed(wall), pair.visit_tokens);
    let small_s = small.step_s(at_small);
    let visits_per_s = at_small * pair.share / small_s;
    // A large batch is what arrives during a large step, whose time is linear in it.
    let rest = 1.0 - k * visits_per_s * large.row_s;
    let mut batch = if rest > 1e-6 { k * visits_per_s * large.fixed_s / rest } else { pair.journeys };
    batch = batch.min(pair.journeys);
    if large.step_s(batch) < small_s && k < 1.5 {
        batch = visits_per_s * small_s;
    }
    let batch = batch.max(1.0).min(pair.journeys);
    let large_s = large.step_s(batch);
    let busy = (visits_per_s * k * large_s / batch).min(1.0);
    let ratio = (pair.lambda() * large_s / small_s).max(1e-9);
    let wait_share = if ratio < 1e-3 { 0.5 } else { 1.0 / (1.0 - (-ratio).exp()) - 1.0 / ratio };
    let alone = pair.journeys <= 1.0;
    let (wait, rejoin) = if large_s * k <= small_s {
        (0.0, if alone { 0.0 } else { small_s - large_s * k })
    } else {
        let share = if large_s <= small_s { 0.5 * busy } else { wait_share };
        (large_s * share, 0.5 * small_s)
    };
    let rejoin = rejoin * ((at_small - 0.5) / (at_small + 0.5)).max(0.0);
    let wait = if alone { 0.0 } else { wait };
    (at_small + visits_per_s * (wait + k * large_s + rejoin), batch)
}

/// Journeys left at the small model after it has worked for `seconds` from `from`, when nobody returns.
pub(super) fn left_after(pair: &Pair, from: f64, seconds: f64) -> f64 {
    if from <= 1e-9 {
        return 0.0;
    }
    let (per_log, per_row) = (pair.small.fixed_s / pair.lambda(), pair.small.row_s / pair.share);
    let start = from.ln();
    let mut z = start;
    for _ in 0..8 {
        let left = z.exp();
        let change = (per_log * (start - z) + per_row * (from - left) - seconds) / (per_log + per_row * left);
        z += change;
        if change.abs() < 1e-6 {
            break;
        }
    }
    z.exp().min(from)
}

/// Tokens per second of the fluid cycle with corrections; batches of `batch` rows, a `k`-th of them newcomers.
fn cycle(pair: &Pair, batch: f64, wall: f64) -> f64 {
    let (n, k, p) = (pair.journeys, pair.visit_tokens, pair.share);
    let wanted = (batch / k).max(1.0 / k).min(n);
    let wanted = if k > 1.0 { wanted } else { wanted.max(1.0) };
    let mut newcomers = wanted;
    let (mut large_s, mut waiting, mut short_chance, mut left) = (0.0, 0.0, 0.0, 0.0);
    for turn in 0..FIXED_POINT_TURNS {
        large_s = pair.large.step_s(k * newcomers);
        let from = (n - k * newcomers).max(0.0);
        left = left_after(pair, from, large_s);
        let routed_share = if from > 0.0 { (from - left) / from } else { 0.0 };
        // Those that return during a small-model step lose half of one.
        let lost = (1.0 - short_chance) * newcomers.min(from) * (1.0 - routed_share) * 0.5 * p;
        let routed = from - left - lost;
        let deviation = (from * routed_share * (1.0 - routed_share)).sqrt();
        let short = shortfall(wanted, routed, deviation).min(wanted);
        short_chance = if deviation > 1e-9 {
            normal_below((wanted - routed) / deviation)
        } else {
            f64::from(u8::from(wanted > routed))
        };
        let running = (n - (k - 1.0) * newcomers - wanted).max(0.0);
        let overshoot = (0.5 * (p * running - 1.0)).max(0.0).min(running);
        let next = (wanted + (routed - wanted) + short + short_chance * overshoot).max(wanted).min(n / k);
        waiting = wanted - short;
        newcomers += if turn < 3 { 1.0 } else { 0.5 } * (next - newcomers);
    }
    let base = (n - (k - 1.0) * newcomers).max(1.0);
    let (from, to) = ((base - waiting).max(0.0), (base - wanted).max(0.0));
    let step_s = pair.small.step_s(0.5 * (from + to));
    let in_flight_s = if left >= 0.5 { pair.small.step_s(left) } else { 0.0 };
    let gather_s = pair.small.fixed_s / pair.lambda() * (harmonic(from) - harmonic(to)).max(0.0)
        + pair.small.row_s / p * (from - to).max(0.0)
        + 0.5 * short_chance * (step_s + in_flight_s);
    newcomers / (large_s * wall + gather_s) * pair.tokens_per_visit()
}

/// How much better than immediate admission delay must be predicted to be.
const CYCLE_MARGIN: f64 = 1.015;
const CHAIN_MARGIN: f64 = 1.005;
const FIXED_SHARE_MIN: f64 = 0.05;
const CHAIN_JOURNEYS: f64 = 24.5;
/// Thresholds are tried on a grid of 6 %, coarser where that would be too many.
const SCAN_STRIDE: f64 = 1.06;
const SCAN_POINTS: f64 = 50.0;
const BISECTIONS: usize = 40;
const FIXED_POINT_TURNS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::Affine;

    /// Without costs per row, `(a_S / lambda) ln(n0 / n1) = t`: half are left after `ln 2 / lambda` steps.
    #[test]
    fn a_population_halves_in_the_time_it_should() {
        let mut pair = Pair::of_tests(64.0, 0.05, 1.0, 10.0);
        pair.small.row_s = 0.0;
        let half = left_after(&pair, 40.0, std::f64::consts::LN_2 / pair.lambda());
        assert!((half - 20.0).abs() < 1e-6, "{half}");
        pair.small = Affine { fixed_s: 0.0, row_s: 0.1 };
        // Only costs per row: (c / p) (n0 - n1) = t, so 3 s route 3 * 0.05 / 0.1 = 1.5 of them.
        assert!((left_after(&pair, 40.0, 3.0) - 38.5).abs() < 1e-6);
    }

    #[test]
    fn one_journey_is_served_at_once() {
        // 1 / p = 4 small steps, of which the last is dropped, and one large one: 4 tokens in 4 * 1.005 + 10.05 seconds.
        let forecast = best(&Pair::of_tests(1.0, 0.25, 1.0, 10.0), 1.0);
        assert_eq!(forecast.batch, 1);
        assert!((forecast.tokens_per_s - 4.0 / 14.07).abs() < 0.01, "{forecast:?}");
    }

    #[test]
    fn delay_is_switched_on_by_long_large_steps_only() {
        for (share, large, on) in
            [(0.05, 10.0, false), (0.4, 20.0, true), (0.2, 20.0, true), (0.02, 20.0, false)]
        {
            assert_eq!(
                best(&Pair::of_tests(64.0, share, 1.0, large), 1.0).batch > 1,
                on,
                "p {share}, R {large}"
            );
        }
    }
}
