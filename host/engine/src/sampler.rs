//! Choosing a token from logits with one given random number.
//!
//! Pure: the same logits and the same [`Draw`] give the same token, everywhere. Probabilities are computed in double
//! precision and summed in an order that depends on the logits alone.

mod adjusted;

use std::cmp::Ordering;

use journey::{Draw, Sampling};

use crate::cpu::{Level, Total, best, between, dispatch};
pub(crate) use adjusted::choose;

/// The token that the draw picks of logits that need no more adjusting.
fn sample(level: Level, logits: &[f32], highest: Ranked, draw: &Draw<'_>) -> u32 {
    let Sampling { temperature, top_p, top_k, min_p } = draw.sampling;
    if temperature <= 0.0 {
        return highest.token;
    }
    let weights = Weights { best: f64::from(highest.logit), temperature: f64::from(temperature) };
    let (top_p, min_p, uniform) = (f64::from(top_p), f64::from(min_p), draw.uniform);
    let of_head = |mut ranked: Vec<Ranked>| {
        ranked.truncate(ranked.partition_point(|&ranked| weights.of(ranked) >= min_p));
        let total = ranked.iter().map(|&ranked| weights.of(ranked)).sum();
        Walk::new(weights, total, top_p, uniform).over(&ranked)
    };
    match top_k as usize {
        k if (1..logits.len()).contains(&k) => of_head(best(level, logits, k)),
        _ if min_p > 0.0 => {
            let mut ranked = between(level, logits, weights.reach(min_p), f32::INFINITY);
            ranked.sort_unstable_by(|a, b| b.cmp(a));
            of_head(ranked)
        }
        _ => {
            let total = dispatch(level, Total { logits, best: highest.logit, temperature });
            let mut walk = Walk::new(weights, total, top_p, uniform);
            // The token is nearly always among the best few, so the others are not sorted unless it must be.
            let mut above = f32::INFINITY;
            for reach in REACHES {
                let from = highest.logit - reach * temperature;
                let mut ranked = between(level, logits, from, above);
                ranked.sort_unstable_by(|a, b| b.cmp(a));
                walk.take(&ranked);
                if walk.picked() {
                    break;
                }
                above = from;
            }
            walk.end()
        }
    }
}

/// The token that [`sample`] picks, from the best logits alone: `ranked` are all above some bound, best first, of
/// `vocabulary`, and `total` is the sum of e^((logit - best) / temperature) over all. `None` if more must be seen.
#[cfg(any(test, feature = "cuda"))]
pub(crate) fn sample_best(
    ranked: &[Ranked],
    (vocabulary, total): (usize, f64),
    draw: &Draw<'_>,
) -> Option<Ranked> {
    let Sampling { temperature, top_p, top_k, min_p } = draw.sampling;
    let &highest = ranked.first()?;
    if temperature <= 0.0 {
        return Some(highest);
    }
    let weights = Weights { best: f64::from(highest.logit), temperature: f64::from(temperature) };
    let mut cut = (1..vocabulary).contains(&(top_k as usize));
    let mut ranked = if cut { ranked.get(..top_k as usize)? } else { ranked };
    if min_p > 0.0 {
        let kept = ranked.partition_point(|&ranked| weights.of(ranked) >= f64::from(min_p));
        if kept == ranked.len() && !cut && kept < vocabulary {
            return None;
        }
        ranked = &ranked[..kept];
        cut = true;
    }
    let total = if cut { ranked.iter().map(|&ranked| weights.of(ranked)).sum() } else { total };
    let mut walk = Walk::new(weights, total, f64::from(top_p), draw.uniform);
    walk.take(ranked);
    if !walk.picked() && !cut && ranked.len() < vocabulary {
        return None;
    }
    let token = walk.end();
    ranked.iter().copied().find(|ranked| ranked.token == token)
}

/// A token in the order of preference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    /// Its logit.
    pub(crate) logit: f32,
    /// Its id.
    pub(crate) token: u32,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        // Zeros of both signs are equal logits; total_cmp would rank them.
        let logits =
            self.logit.partial_cmp(&other.logit).unwrap_or_else(|| self.logit.total_cmp(&other.logit));
        logits.then_with(|| other.token.cmp(&self.token))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

/// Logits to weights.
#[derive(Clone, Copy)]
struct Weights {
    best: f64,
    temperature: f64,
}

impl Weights {
    /// e^((logit - best) / temperature): 1 for the most probable token.
    fn of(self, ranked: Ranked) -> f64 {
        ((f64::from(ranked.logit) - self.best) / self.temperature).exp()
    }

    /// A logit that is below all that have at least this weight, and hardly lower.
    fn reach(self, weight: f64) -> f32 {
        ((self.best + weight.ln() * self.temperature) as f32).next_down()
    }
}

/// The inverse of the cumulative distribution at one number, over the smallest set of tokens that reaches `top_p`.
/// Tokens come best first.
struct Walk {
    weights: Weights,
    /// Without a nucleus: the sum at which the token is found. With one: the sum at which it is complete.
    enough: f64,
    /// Where the token is in a nucleus that is complete; `None` without one.
    uniform: Option<f64>,
    cumulative: Vec<(u32, f64)>,
    sum: f64,
    complete: bool,
}

impl Walk {
    fn new(weights: Weights, total: f64, top_p: f64, uniform: f64) -> Self {
        let nucleus = top_p < 1.0;
        let enough = if nucleus { top_p * total } else { uniform * total };
        let uniform = nucleus.then_some(uniform);
        Self { weights, enough, uniform, cumulative: Vec::new(), sum: 0.0, complete: false }
    }

    /// Goes on over tokens that come after those taken.
    fn take(&mut self, ranked: &[Ranked]) {
        for &ranked in ranked {
            self.sum += self.weights.of(ranked);
            self.cumulative.push((ranked.token, self.sum));
            let complete =
                if self.uniform.is_some() { self.sum >= self.enough } else { self.sum > self.enough };
            if complete {
                self.complete = true;
                return;
            }
        }
    }

    /// Whether no more tokens are needed.
    fn picked(&self) -> bool {
        self.complete
    }

    /// The token.
    fn end(self) -> u32 {
        let target = self.uniform.map_or(self.enough, |uniform| uniform * self.sum);
        let picked = self.cumulative.partition_point(|&(_, sum)| sum <= target);
        // Rounding may leave the target at the very end.
        self.cumulative[picked.min(self.cumulative.len() - 1)].0
    }

    fn over(mut self, ranked: &[Ranked]) -> u32 {
        self.take(ranked);
        self.end()
    }
}

/// How far below the best logit, in temperatures, tokens are looked at in turn; the last reaches all.
const REACHES: [f32; 4] = [4.0, 10.0, 20.0, f32::INFINITY];

#[cfg(test)]
mod tests {
    use super::*;
    use journey::{Adjust, Adjustments, Tally, TokenMask};
    use proptest::prelude::*;

    fn draw(temperature: f32, top_p: f32, top_k: u32, uniform: f64) -> Draw<'static> {
        Draw::new(Sampling { temperature, top_p, top_k, min_p: 0.0 }, uniform)
    }

    fn pick(logits: &[f32], draw: &Draw<'_>) -> u32 {
        choose(Level::detect(), logits, best(Level::detect(), logits, 1)[0], draw)
    }

    /// Sorts everything that is allowed and follows the definition.
    fn naive(logits: &[f32], allowed: impl Fn(usize) -> bool, draw: &Draw<'_>) -> u32 {
        let Sampling { temperature, top_p, top_k, min_p } = draw.sampling;
        let mut order: Vec<usize> = (0..logits.len()).filter(|&i| allowed(i)).collect();
        order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap().then(a.cmp(&b)));
        let first = order[0];
        if temperature == 0.0 {
            return first as u32;
        }
        let distance = |i: usize| f64::from(logits[i]) - f64::from(logits[first]);
        let weight = |&i: &usize| (distance(i) / f64::from(temperature)).exp();
        order.retain(|i| weight(i) >= f64::from(min_p));
        if top_k > 0 {
            order.truncate(top_k as usize);
        }
        let total: f64 = order.iter().map(weight).sum();
        let mut nucleus = 0.0;
        let mut kept = Vec::new();
        for &i in &order {
            kept.push(i);
            nucleus += weight(&i);
            if nucleus >= f64::from(top_p) * total {
                break;
            }
        }
        let mut sum = 0.0;
        for &i in &kept {
            sum += weight(&i);
            if sum > draw.uniform * nucleus {
                return i as u32;
            }
        }
        kept[kept.len() - 1] as u32
    }

    #[test]
    fn greedy_takes_the_highest_and_of_equal_ones_the_lowest_id() {
        assert_eq!(pick(&[0.5, 2.0, 2.0, -1.0], &draw(0.0, 1.0, 0, 0.9)), 1);
        assert_eq!(pick(&[-0.0, 0.0], &draw(0.0, 1.0, 0, 0.9)), 0);
    }

    #[test]
    fn the_random_number_walks_down_the_probabilities() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let at = |uniform| pick(&logits, &draw(1.0, 1.0, 0, uniform));
        assert_eq!([at(0.0), at(0.59), at(0.61), at(0.89), at(0.91), at(0.999_999)], [1, 1, 2, 2, 0, 0]);
    }

    #[test]
    fn top_k_and_top_p_leave_only_the_best() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        assert_eq!(pick(&logits, &draw(1.0, 1.0, 2, 0.999)), 2);
        assert_eq!(pick(&logits, &draw(1.0, 1.0, 1, 0.999)), 1);
        assert_eq!(pick(&logits, &draw(1.0, 0.65, 0, 0.999)), 2);
        assert_eq!(pick(&logits, &draw(1.0, 0.55, 0, 0.999)), 1);
        // The nucleus is taken of what top-k left: 0.6 / 0.9 reaches 0.65.
        assert_eq!(pick(&logits, &draw(1.0, 0.65, 2, 0.999)), 1);
    }

    #[test]
    fn temperature_sharpens_and_flattens() {
        let logits = [0.0, 1.0];
        assert_eq!(pick(&logits, &draw(0.1, 1.0, 0, 0.99)), 1);
        assert_eq!(pick(&logits, &draw(10.0, 1.0, 0, 0.6)), 0);
    }

    #[test]
    fn min_p_is_a_share_of_the_best_after_the_temperature() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let at = |temperature, min_p| {
            pick(&logits, &Draw::new(Sampling { temperature, top_p: 1.0, top_k: 0, min_p }, 0.999))
        };
        assert_eq!([at(1.0, 0.15), at(1.0, 0.17), at(1.0, 0.51), at(1.0, 1.0)], [0, 2, 1, 1]);
        // At temperature 0.5 the shares are squared.
        assert_eq!([at(0.5, 0.17), at(0.5, 0.24), at(0.5, 0.26)], [2, 2, 1]);
    }

    fn sampling() -> impl Strategy<Value = Sampling> {
        let temperature = prop_oneof![1 => Just(0.0f32), 5 => 0.05f32..3.0];
        let top_p = prop_oneof![1 => Just(1.0f32), 3 => 0.05f32..1.0];
        let min_p = prop_oneof![1 => Just(0.0f32), 1 => 0.001f32..1.0, 1 => Just(1.0f32)];
        (temperature, top_p, 0u32..70, min_p).prop_map(|(temperature, top_p, top_k, min_p)| Sampling {
            temperature,
            top_p,
            top_k: top_k.saturating_sub(20),
            min_p,
        })
    }

    fn wishes() -> impl Strategy<Value = Adjustments> {
        let bias = proptest::collection::btree_map(0u32..40, -100.0f32..100.0, 0..4);
        (-2.0f32..2.0, -2.0f32..2.0, 0.1f32..3.0, bias).prop_map(|(presence, frequency, repetition, bias)| {
            Adjustments { presence, frequency, repetition, bias: bias.into_iter().collect() }
        })
    }

    fn tokens() -> impl Strategy<Value = Vec<u32>> {
        proptest::collection::vec(0u32..40, 0..12)
    }

    proptest! {
        #[test]
        fn picks_what_sorting_everything_picks(
            logits in proptest::collection::vec(-8.0f32..8.0, 1..60),
            (sampling, uniform) in (sampling(), 0.0f64..1.0),
        ) {
            // Few distinct values, so that there are ties.
            let logits: Vec<f32> = logits.into_iter().map(|l| (l * 4.0).round() / 4.0).collect();
            let draw = Draw::new(sampling, uniform);
            prop_assert_eq!(pick(&logits, &draw), naive(&logits, |_| true, &draw));
        }

        #[test]
        fn adjusted_logits_give_what_the_definitions_give(
            logits in proptest::collection::vec(-16i8..16, 40),
            (sampling, uniform, wishes) in (sampling(), 0.0f64..1.0, wishes()),
            (prompt, answer, drafted) in (tokens(), tokens(), tokens()),
            (mask, barred) in (proptest::option::of(tokens()), proptest::option::of(0u32..40)),
        ) {
            let logits: Vec<f32> = logits.into_iter().map(|l| f32::from(l) / 4.0).collect();
            let mut tally = Tally::of_prompt(&prompt);
            answer.iter().for_each(|&token| tally.add(token));
            let bars = barred.as_slice();
            let allows = mask.as_deref().map(TokenMask::of);
            let adjust =
                Adjust { wishes: &wishes, tally: Some(&tally), drafted: &drafted, barred: bars, mask: allows.as_ref() };
            prop_assume!(adjust.allowed(logits.len()).next().is_some());
            let draw = Draw { adjust: Some(adjust), ..Draw::new(sampling, uniform) };
            let answer = [&answer[..], &drafted[..]].concat();
            let changed = |(token, &logit): (usize, &f32)| {
                let count = |of: &[u32]| of.iter().filter(|&&t| t as usize == token).count();
                let bias = wishes.bias.iter().find(|(biased, _)| *biased as usize == token).map_or(0.0, |(_, by)| *by);
                let mut logit = logit + bias;
                if count(&prompt) + count(&answer) > 0 {
                    logit = if logit > 0.0 { logit / wishes.repetition } else { logit * wishes.repetition };
                }
                logit -= wishes.frequency * count(&answer) as f32;
                if count(&answer) > 0 { logit - wishes.presence } else { logit }
            };
            let adjusted: Vec<f32> = logits.iter().enumerate().map(changed).collect();
            let allowed = |i: usize| !bars.contains(&(i as u32)) && mask.as_ref().is_none_or(|m| m.contains(&(i as u32)));
            prop_assert_eq!(pick(&logits, &draw), naive(&adjusted, allowed, &draw));
        }

        #[test]
        fn the_best_logits_pick_the_same_or_nothing(
            logits in proptest::collection::vec(-8.0f32..8.0, 1..60), seen in 1usize..60,
            (temperature, top_p, top_k, uniform) in (0.0f32..3.0, 0.05f32..1.1, 0u32..70, 0.0f64..1.0),
        ) {
            let draw = draw(temperature, top_p, top_k, uniform);
            let ranked = best(Level::detect(), &logits, logits.len());
            let highest = ranked[0].logit;
            let total = Total { logits: &logits, best: highest, temperature };
            let total = if temperature > 0.0 { dispatch(Level::detect(), total) } else { 0.0 };
            let seen = seen.min(logits.len());
            let picked = sample_best(&ranked[..seen], (logits.len(), total), &draw);
            let picked = picked.map(|ranked| ranked.token);
            prop_assert!(picked.is_none_or(|token| token == pick(&logits, &draw)));
            prop_assert!(picked.is_some() || seen < logits.len());
        }

        #[test]
        fn the_best_are_the_head_of_the_sorted_list(
            logits in proptest::collection::vec(-4i8..4, 1..60), count in 0usize..70
        ) {
            let logits: Vec<f32> = logits.into_iter().map(f32::from).collect();
            let mut order: Vec<u32> = (0..logits.len() as u32).collect();
            order.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap().then(a.cmp(&b)));
            order.truncate(count);
            let best: Vec<u32> = best(Level::detect(), &logits, count).into_iter().map(|ranked| ranked.token).collect();
            prop_assert_eq!(best, order);
        }
    }
}
