//! Two models on devices of their own with few journeys: a Markov chain over the batch of the large model.
//!
//! One transition is one large-model step with what follows until the next begins. Both the number routed during the
//! step and the gathering after it are binomial, so for up to eight journeys the chain is solved outright, where the
//! fluid cycle of [`super::separate`] is too coarse. One-token visits only.

use super::Pair;
use super::numbers::binomial;
use super::separate::left_after;

/// Tokens per second when the large model starts with `batch` waiting journeys; steps of the large model take `wall`
/// times longer while both run.
#[must_use]
pub fn tokens_per_s(pair: &Pair, batch: usize, wall: f64) -> f64 {
    let journeys = pair.journeys.round() as usize;
    let batch = batch.clamp(1, journeys);
    let gathering = Gathering::new(pair, journeys, batch);
    let transitions: Vec<Transition> =
        (0..=journeys).map(|rows| transition(pair, &gathering, rows, wall)).collect();
    let mut share = vec![0.0; journeys + 1];
    share[batch] = 1.0;
    let (mut visits, mut seconds) = (0.0, 1.0);
    for _ in 0..TURNS {
        let mut next = vec![0.0; journeys + 1];
        (visits, seconds) = (0.0, 0.0);
        for (rows, transition) in
            transitions.iter().enumerate().skip(1).filter(|(rows, _)| share[*rows] > 1e-12)
        {
            visits += share[rows] * rows as f64;
            seconds += share[rows] * transition.seconds;
            for (slot, chance) in next.iter_mut().zip(&transition.to) {
                *slot += share[rows] * chance;
            }
        }
        let total: f64 = next.iter().sum();
        for (now, next) in share.iter_mut().zip(&next) {
            // Half way only: the chain may alternate between two batches for ever.
            *now = 0.5 * *now + 0.5 * next / total;
        }
    }
    visits / seconds * pair.tokens_per_visit()
}

/// From a number of waiting journeys, while nobody is at the large model, until the threshold is met.
struct Gathering {
    batch: usize,
    seconds: Vec<f64>,
    /// Distribution of how many then wait.
    met: Vec<Vec<f64>>,
}

impl Gathering {
    fn new(pair: &Pair, journeys: usize, batch: usize) -> Self {
        let mut seconds = vec![0.0; journeys + 1];
        let mut met = vec![vec![0.0; journeys + 1]; journeys + 1];
        for waiting in (0..batch).rev() {
            let running = journeys - waiting;
            let routed = binomial(running, pair.share);
            let mut spent = pair.small.step_s(running as f64);
            let mut then = vec![0.0; journeys + 1];
            for (more, &chance) in routed.iter().enumerate().skip(1) {
                if waiting + more >= batch {
                    then[waiting + more] += chance;
                } else {
                    spent += chance * seconds[waiting + more];
                    add(&mut then, &met[waiting + more], chance);
                }
            }
            let moved = 1.0 - routed[0];
            seconds[waiting] = spent / moved;
            met[waiting] = then.into_iter().map(|chance| chance / moved).collect();
        }
        Self { batch, seconds, met }
    }
}

/// From the start of a large-model step to the start of the next.
struct Transition {
    to: Vec<f64>,
    seconds: f64,
}

fn transition(pair: &Pair, gathering: &Gathering, rows: usize, wall: f64) -> Transition {
    let journeys = gathering.met.len() - 1;
    let others = journeys - rows;
    let large_s = pair.large.step_s(rows as f64);
    let left = left_after(pair, (others as f64).max(1e-9), large_s);
    let routed_share = if others > 0 { (1.0 - left / others as f64).clamp(0.0, 1.0) } else { 0.0 };
    let mut to = vec![0.0; journeys + 1];
    let mut seconds = large_s * wall;
    for (waiting, &chance) in binomial(others, routed_share).iter().enumerate() {
        if waiting >= gathering.batch {
            to[waiting] += chance;
            continue;
        }
        // The step in flight when the large one ends carries those that stayed; those that return join the next one.
        let running = others - waiting;
        let in_flight = running > 0;
        seconds += if in_flight { chance * 0.5 * pair.small.step_s(running as f64) } else { 0.0 };
        let share = if in_flight { 0.5 * pair.share } else { 0.0 };
        for (more, &also) in binomial(running, share).iter().enumerate() {
            let (waiting, chance) = (waiting + more, chance * also);
            if waiting >= gathering.batch {
                to[waiting] += chance;
            } else {
                seconds += chance * gathering.seconds[waiting];
                add(&mut to, &gathering.met[waiting], chance);
            }
        }
    }
    Transition { to, seconds }
}

fn add(sum: &mut [f64], more: &[f64], weight: f64) {
    for (slot, value) in sum.iter_mut().zip(more) {
        *slot += weight * value;
    }
}

const TURNS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::Affine;

    /// Two journeys that are always routed, in lockstep: one small step, one large step, two tokens (from the large one).
    /// Both wait for each other with a threshold of 2, so a cycle is 1 + 7 seconds.
    #[test]
    fn journeys_that_are_always_routed_go_round_in_lockstep() {
        let small = Affine { fixed_s: 1.0, row_s: 0.0 };
        let large = Affine { fixed_s: 7.0, row_s: 0.0 };
        let pair = Pair { journeys: 2.0, share: 1.0 - 1e-12, visit_tokens: 1.0, small, large };
        let rate = tokens_per_s(&pair, 2, 1.0);
        assert!((rate - 2.0 / 8.0).abs() < 1e-6, "{rate}");
    }
}
