//! Kept distributions: what they say, and that speculative sampling with them gives exactly the large model's tokens.
//!
//! Everything is seeded, so a statistic is the same number at every run.

use journey::random::{Purpose, uniform};
use journey::{Adjust, Adjustments, Distribution, Draw, Sampling, TokenMask};
use proptest::prelude::*;

fn distribution(logits: &[f32]) -> Distribution {
    Distribution::new(logits.to_vec()).expect("finite logits")
}

fn probs(distribution: &Distribution) -> Vec<f64> {
    (0..distribution.vocabulary() as u32).map(|token| distribution.prob(token)).collect()
}

/// Pearson's statistic of counts against a distribution, over the tokens that are possible.
fn chi_square(counts: &[u32], expected: &Distribution) -> f64 {
    let trials: u32 = counts.iter().sum();
    let term = |(token, &count): (usize, &u32)| {
        let expected = expected.prob(token as u32) * f64::from(trials);
        if expected == 0.0 {
            assert_eq!(count, 0, "token {token} is impossible");
            return 0.0;
        }
        (f64::from(count) - expected).powi(2) / expected
    };
    counts.iter().enumerate().map(term).sum()
}

/// Drafts a token from `small` and verifies it with `large`, many times.
fn speculate(small: &Distribution, large: &Distribution, seed: u64) -> (Vec<u32>, f64) {
    let mut counts = vec![0; large.vocabulary()];
    let mut kept = 0;
    for position in 0..TRIALS {
        let drafted = small.sample(uniform(seed, position, Purpose::Sample, 0));
        let (token, was_kept) = large.verify(small, drafted, (seed, position));
        counts[token as usize] += 1;
        kept += u64::from(was_kept);
    }
    (counts, kept as f64 / TRIALS as f64)
}

#[test]
fn speculative_sampling_gives_the_tokens_of_the_large_model() {
    let small = distribution(&[1.0, 0.5, -1.0, 2.0, 0.0, -0.5, 0.3, 1.5]);
    let large = distribution(&[0.0, 1.5, 1.0, 0.5, -2.0, 0.1, 0.2, -1.0]);
    for (seed, sampling) in [
        Sampling { temperature: 1.0, ..Sampling::GREEDY },
        Sampling { temperature: 0.6, ..Sampling::GREEDY },
        Sampling { temperature: 1.3, top_p: 0.9, top_k: 5, min_p: 0.1 },
    ]
    .into_iter()
    .enumerate()
    {
        let wishes = Adjustments { bias: vec![(3, 1.0)], ..Adjustments::default() };
        let draw = Draw { adjust: Some(Adjust::new(&wishes)), ..Draw::new(sampling, 0.0) };
        let [q, p] = [&small, &large].map(|model| model.drawn_from(&draw).expect("all is allowed"));
        let (counts, kept) = speculate(&q, &p, seed as u64);
        let statistic = chi_square(&counts, &p);
        assert!(statistic < CHI_SQUARE_7_AT_1_PERCENT, "{sampling:?}: chi-square {statistic}, {counts:?}");
        // The drafts are kept as often as the overlap of both says, so they are of use at all.
        assert!((kept - (1.0 - p.total_variation(&q))).abs() < 0.01, "{sampling:?}: kept {kept}");
        // The test would notice a sampler that takes every draft.
        let drafts: Vec<u32> = counts_of(&q, seed as u64);
        assert!(
            drafts.iter().zip(probs(&p)).any(|(count, p)| p == 0.0 && *count > 0)
                || chi_square(&drafts, &p) > 1000.0
        );
    }
}

fn counts_of(from: &Distribution, seed: u64) -> Vec<u32> {
    let mut counts = vec![0; from.vocabulary()];
    (0..TRIALS)
        .for_each(|position| counts[from.sample(uniform(seed, position, Purpose::Sample, 0)) as usize] += 1);
    counts
}

#[test]
fn a_greedy_draft_is_kept_if_it_is_the_best_token_and_replaced_by_it_if_not() {
    let (small, large) = (distribution(&[3.0, 1.0, 2.0]), distribution(&[1.0, 1.0, 2.0]));
    let [q, p] = [&small, &large].map(|model| model.drawn_from(&Draw::GREEDY).expect("something is best"));
    assert_eq!((probs(&q), probs(&p)), (vec![1.0, 0.0, 0.0], vec![0.0, 0.0, 1.0]));
    assert_eq!(p.verify(&q, 0, (1, 1)), (2, false));
    assert_eq!(p.verify(&p, 2, (1, 1)), (2, true));
}

#[test]
fn a_distribution_says_what_it_is() {
    let half = distribution(&[0.5f32.ln() + 7.0, 0.25f32.ln() + 7.0, 0.25f32.ln() + 7.0]);
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} against {b}");
    close(half.prob(0), 0.5);
    close(half.logprob(2), 0.25f64.ln());
    close(half.entropy(), 1.5 * std::f64::consts::LN_2);
    assert_eq!((half.prob(3), half.vocabulary(), half.bytes() >= 12), (0.0, 3, true));
    assert_eq!(half.top(2).iter().map(|candidate| candidate.token).collect::<Vec<_>>(), [0, 1]);
    let even = distribution(&[0.0, 0.0, 0.0, 0.0]);
    close(half.total_variation(&even), 0.25);
    close(half.divergence(&even), 4f64.ln() - half.entropy());
    assert_eq!(even.divergence(&half), f64::INFINITY);
    assert_eq!(Distribution::new(vec![]), None);
    assert_eq!(Distribution::new(vec![0.0, f32::NAN]), None);
    assert_eq!(Distribution::new(vec![f32::NEG_INFINITY]), None);
    let (wishes, mask) = (Adjustments::default(), TokenMask::of(&[9]));
    let adjust = Some(Adjust { mask: Some(&mask), ..Adjust::new(&wishes) });
    assert_eq!(half.drawn_from(&Draw { adjust, ..Draw::GREEDY }), None);
}

fn logits() -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(-6i8..6, 12)
        .prop_map(|logits| logits.into_iter().map(|l| f32::from(l) / 2.0).collect())
}

proptest! {
    #[test]
    fn keeping_and_replacing_add_up_to_the_large_distribution(small in logits(), large in logits()) {
        let (q, p) = (distribution(&small), distribution(&large));
        let (each_q, each_p) = (probs(&q), probs(&p));
        prop_assert!((each_p.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let apart = p.total_variation(&q);
        prop_assert!((0.0..=1.0).contains(&apart) && p.divergence(&q) >= 2.0 * apart * apart - 1e-9, "Pinsker");
        for (token, (q_of, p_of)) in each_q.iter().zip(&each_p).enumerate() {
            let residual = if apart > 0.0 { (p_of - q_of).max(0.0) / apart } else { 0.0 };
            prop_assert!((q_of.min(*p_of) + apart * residual - p_of).abs() < 1e-9, "token {token}");
        }
    }

    #[test]
    fn a_residual_is_never_a_token_that_the_draft_has_enough_of(
        small in logits(), large in logits(), at in 0.0f64..1.0
    ) {
        let (q, p) = (distribution(&small), distribution(&large));
        let token = p.residual(&q, at);
        prop_assert!(p.prob(token) > q.prob(token) || p == q || p.total_variation(&q) < 1e-12);
    }

    #[test]
    fn what_is_drawn_from_is_the_definition(
        logits in logits(),
        (temperature, top_p, top_k, min_p) in (0.1f32..2.0, 0.05f32..1.0, 0u32..14, 0.0f32..1.0),
    ) {
        let sampling = Sampling { temperature, top_p, top_k, min_p };
        let drawn = distribution(&logits).drawn_from(&Draw::new(sampling, 0.0)).unwrap();
        let tempered = distribution(&logits.iter().map(|logit| logit / temperature).collect::<Vec<_>>());
        let mut order: Vec<u32> = (0..12).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        let best = tempered.prob(order[0]);
        order.retain(|&token| tempered.prob(token) >= f64::from(min_p) * best * (1.0 - 1e-5));
        if top_k > 0 {
            order.truncate(top_k as usize);
        }
        let left: f64 = order.iter().map(|&token| tempered.prob(token)).sum();
        let mut sum = 0.0;
        for &token in &order {
            let needed = sum < f64::from(top_p) * left;
            sum += tempered.prob(token);
            prop_assert_eq!(drawn.prob(token) > 0.0, needed, "token {}", token);
        }
        prop_assert!((probs(&drawn).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

const TRIALS: u64 = 50_000;
/// What chance exceeds once in a hundred, with seven degrees of freedom.
const CHI_SQUARE_7_AT_1_PERCENT: f64 = 18.48;
