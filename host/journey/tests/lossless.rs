//! Drafts verified by rejection: the answer is distributed as the judge's own, with penalties and truncation on.
//!
//! Two models without weights that differ; the expected distribution is computed, not sampled. Everything is seeded, so a
//! statistic is the same number at every run.

mod toy;

use std::num::NonZeroU32;
use std::sync::Arc;

use journey::{
    Accept, Adjust, Adjustments, Consult, Distribution, Draw, Effect, Handoff, Journey, JourneyId, Parcel,
    Request, Role, Routing, Rule, Rules, Sampling, Tally,
};

use toy::{Kv, VOCABULARY, ids, logits, request};

const SAMPLES: u64 = 50_000;
const JUDGE: u64 = 0;
const DRAFTER: u64 = 1;

fn speculative(sampling: Sampling, seed: u64, rule: Rule) -> Vec<u32> {
    let rules = Rules { holds_visits: true, distributions: true, ..Rules::default() };
    let routing = Routing::Policy(Arc::new(rules));
    let mut journey =
        Journey::new(JourneyId(1), Request { sampling, seed, max_tokens: 3, ..request(routing, 1.0, &[]) });
    let mut kv = [Kv(Vec::new(), JUDGE), Kv(Vec::new(), DRAFTER)];
    let mut made = Vec::new();
    loop {
        let drawn = kv[journey.here().index()].step(&mut journey, usize::MAX);
        let mut consult = Consult::More;
        for sampled in drawn {
            consult = journey.hold(sampled);
        }
        loop {
            consult = match consult {
                Consult::Route(_) => {
                    let visit = Handoff::new(Role(1), NonZeroU32::new(2));
                    let followed = journey.hand_off(visit, Parcel { keep_held: true });
                    Consult::Settled(followed.expect("another model"))
                }
                Consult::Receive(_) => journey.accept(Accept::Verify(rule.into())).expect("there is a draft"),
                Consult::Settled(Effect::Leave { .. }) => journey.arrive(),
                Consult::Settled(Effect::Finish(_)) => {
                    made.extend(journey.take_output());
                    return ids(&made);
                }
                Consult::Settled(Effect::Decode) | Consult::More => break,
            }
        }
        made.extend(journey.take_output());
    }
}

/// The judge's distribution after a prompt and part of an answer, as the request leaves it.
fn expected(sampling: Sampling, wishes: &Adjustments, barred: &[u32], answer: &[u32]) -> Distribution {
    let prompt = [5, 6, 7];
    let mut tally = Tally::of_prompt(&prompt);
    answer.iter().for_each(|&token| tally.add(token));
    let adjust = Adjust { tally: Some(&tally), barred, ..Adjust::new(wishes) };
    let draw = Draw { adjust: Some(adjust), ..Draw::new(sampling, 0.0) };
    let tokens: Vec<u32> = prompt.iter().chain(answer).copied().collect();
    let own = Distribution::new(logits(&tokens, JUDGE)).expect("finite logits");
    own.drawn_from(&draw).expect("something is allowed")
}

/// Of the second and third token of an answer; the first is the judge's own in any case.
fn expected_pairs(sampling: Sampling) -> Vec<f64> {
    let wishes = Adjustments { frequency: 0.5, ..Adjustments::default() };
    // No end token before the fourth.
    let barred = [0];
    let next = |answer: &[u32]| expected(sampling, &wishes, &barred, answer);
    let mut pairs = vec![0.0; (VOCABULARY * VOCABULARY) as usize];
    let first = next(&[]);
    for a in 0..VOCABULARY {
        let p_a = first.prob(a);
        if p_a == 0.0 {
            continue;
        }
        let second = next(&[a]);
        for b in 0..VOCABULARY {
            let p_b = second.prob(b);
            if p_b == 0.0 {
                continue;
            }
            let third = next(&[a, b]);
            for c in 0..VOCABULARY {
                pairs[(b * VOCABULARY + c) as usize] += p_a * p_b * third.prob(c);
            }
        }
    }
    pairs
}

/// Pearson's statistic, and the bound that it exceeds with a chance of 0.01 (Wilson and Hilferty). Rare cells count as one.
fn chi_square(counts: &[u64], expected: &[f64]) -> (f64, f64) {
    let mut rare = (0, 0.0);
    let mut cells = Vec::new();
    for (&count, &p) in counts.iter().zip(expected) {
        let expected = p * SAMPLES as f64;
        assert!(count == 0 || p > 0.0, "something impossible was drawn");
        if expected < 5.0 {
            rare = (rare.0 + count, rare.1 + expected);
        } else {
            cells.push((count, expected));
        }
    }
    if rare.1 > 0.0 {
        cells.push(rare);
    }
    let statistic = cells.iter().map(|(count, expected)| (*count as f64 - expected).powi(2) / expected).sum();
    let freedom = cells.len() as f64 - 1.0;
    let bound = freedom * (1.0 - 2.0 / (9.0 * freedom) + 2.326 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
    (statistic, bound)
}

fn statistic(sampling: Sampling, rule: Rule) -> (f64, f64) {
    let mut counts = vec![0; (VOCABULARY * VOCABULARY) as usize];
    for seed in 0..SAMPLES {
        let answer = speculative(sampling, seed, rule);
        counts[(answer[1] * VOCABULARY + answer[2]) as usize] += 1;
    }
    chi_square(&counts, &expected_pairs(sampling))
}

#[test]
fn verified_drafts_are_distributed_as_the_judge_alone() {
    for sampling in [
        Sampling { temperature: 1.0, ..Sampling::GREEDY },
        Sampling { temperature: 1.2, top_p: 0.8, ..Sampling::GREEDY },
        Sampling { temperature: 0.8, top_p: 0.95, top_k: 8, min_p: 0.02 },
    ] {
        let (statistic, bound) = statistic(sampling, Rule::Rejection);
        assert!(statistic < bound, "{sampling:?}: {statistic} is not below {bound}");
    }
}

#[test]
fn a_rule_that_loses_something_is_found_out() {
    let sampling = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    let (statistic, bound) = statistic(sampling, Rule::Typical { epsilon: 0.1, delta: 0.3 });
    assert!(statistic > 2.0 * bound, "typical acceptance is not lossless: {statistic}, bound {bound}");
}
