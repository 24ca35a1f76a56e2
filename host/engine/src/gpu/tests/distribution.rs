//! What is sampled on the device is what the processor samples from the same logits.

use candle_core::Tensor;
use journey::Sampled;
use proptest::prelude::*;

use super::*;
use crate::cpu::{Level, Survey, dispatch};
use crate::gpu::distribution::observe;
use crate::signals;

fn processor(logits: &[f32], draw: &Draw<'_>) -> Option<Sampled> {
    let mut logits = logits.to_vec();
    let count = draw.candidates.max(2);
    let (sums, best) = dispatch(Level::detect(), Survey { logits: &mut logits, cap: None, count })?;
    Some(signals::observe(Level::detect(), &logits, (&sums, &best), draw))
}

fn device(rows: &[Vec<f32>], draws: &[Draw<'_>]) -> Vec<Option<Sampled>> {
    let width = rows[0].len();
    let logits = Tensor::from_vec(rows.concat(), (rows.len(), width), &Device::Cpu).unwrap();
    observe(&logits, &draws.iter().collect::<Vec<_>>()).unwrap()
}

fn close(ours: &Sampled, theirs: &Sampled) -> bool {
    let near = |a: f32, b: f32| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
    let candidates = |sampled: &Sampled| -> Vec<(u32, f32)> {
        sampled.candidates.iter().map(|candidate| (candidate.token, candidate.logit)).collect()
    };
    near(ours.logprob, theirs.logprob)
        && near(ours.signals.entropy, theirs.signals.entropy)
        && near(ours.signals.top1, theirs.signals.top1)
        && near(ours.signals.margin, theirs.signals.margin)
        && candidates(ours) == candidates(theirs)
        && ours.logprobs.len() == theirs.logprobs.len()
        && ours.kept.is_some() == theirs.kept.is_some()
}

fn draws() -> impl Strategy<Value = Draw<'static>> {
    let temperature = prop_oneof![Just(0.0f32), 0.2f32..2.0];
    let top_p = prop_oneof![Just(1.0f32), 0.3f32..1.0];
    let top_k = prop_oneof![3 => Just(0u32), 1 => 1u32..200, 1 => Just(5000u32)];
    let min_p = prop_oneof![2 => Just(0.0f32), 1 => 0.001f32..1.0];
    let sampling = (temperature, top_p, top_k, min_p)
        .prop_map(|(temperature, top_p, top_k, min_p)| Sampling { temperature, top_p, top_k, min_p });
    let about =
        (prop_oneof![Just(&[][..]), Just(&[0u32][..])], prop_oneof![3 => Just(false), 1 => Just(true)]);
    (sampling, 0.0f64..1.0, 0usize..9, about).prop_map(
        |(sampling, uniform, candidates, (logprobs_of, keep))| Draw {
            candidates,
            logprobs_of,
            keep,
            ..Draw::new(sampling, uniform)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_batch_samples_what_the_processor_samples(
        rows in (1usize..3000).prop_flat_map(|width| {
            let row = (0.1f32..8.0, proptest::collection::vec(-1.0f32..1.0, width));
            proptest::collection::vec((row, draws()), 1..5)
        })
    ) {
        let logits: Vec<Vec<f32>> =
            rows.iter().map(|((scale, row), _)| row.iter().map(|x| x * scale).collect()).collect();
        let draws: Vec<Draw<'_>> = rows.iter().map(|(_, draw)| *draw).collect();
        for ((ours, logits), draw) in device(&logits, &draws).into_iter().zip(&logits).zip(&draws) {
            let (ours, theirs) = (ours.unwrap(), processor(logits, draw).unwrap());
            // Sums differ in their last bits, so a number at the very edge of a token may fall to its neighbour.
            let shifted = |by: f64| {
                let uniform = (draw.uniform + by).clamp(0.0, 1.0 - f64::EPSILON);
                let top_p = |up: f32| Draw::<'_> {
                    uniform,
                    sampling: Sampling { top_p: (draw.sampling.top_p + up).min(1.0), ..draw.sampling },
                    ..*draw
                };
                [-1e-5, 0.0, 1e-5].map(|up| processor(logits, &top_p(up)).unwrap().token)
            };
            let edge = [-1e-5, 1e-5].iter().any(|by| shifted(*by).contains(&ours.token));
            prop_assert!(ours.token == theirs.token || edge, "{} against {}", ours.token, theirs.token);
            prop_assert!(ours.token != theirs.token || close(&ours, &theirs), "{ours:?} against {theirs:?}");
        }
    }
}

#[test]
fn of_equal_logits_the_lower_id_is_taken_wherever_it_is() {
    let mut logits = vec![0.0f32; 5000];
    for token in [4999, 17, 2500] {
        logits[token] = 3.0;
    }
    let ours = device(std::slice::from_ref(&logits), &[GREEDY]).remove(0).unwrap();
    assert_eq!(ours.token, 17);
    assert!(close(&ours, &processor(&logits, &GREEDY).unwrap()));
    // All equal: no stretch is above another, so the row is looked at whole.
    let flat = vec![1.0f32; 5000];
    let ours = device(std::slice::from_ref(&flat), &[GREEDY]).remove(0).unwrap();
    assert_eq!(ours, processor(&flat, &GREEDY).unwrap());
}

#[test]
fn logits_that_are_no_numbers_are_found_in_their_row_alone() {
    for damage in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let good = vec![0.5f32; 3000];
        let mut bad = good.clone();
        bad[2999] = damage;
        let seen = device(&[good.clone(), bad, good], &[GREEDY; 3]);
        assert_eq!(seen.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true], "{damage}");
    }
    let far = device(&[vec![3e38, -3e38, 0.0]], &[GREEDY]).remove(0).unwrap();
    assert_eq!((far.token, far.signals.top1), (0, 1.0));
}
