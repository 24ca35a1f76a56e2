//! Claim C7: what is learnt as it goes is nearly as good as what is known, also while it changes.

use scheduler::conductor::Mode;
use scheduler::law::{Affine, StepLaw};
use scheduler::plan::Pair;
use scheduler::simulate::{Burst, Knowledge, Scenario, run};

/// (a/c, R, p, N), with `T(1) = 1` and `R`.
const SETTINGS: [(f64, f64, f64, f64); 6] = [
    (200.0, 10.0, 0.05, 8.0),
    (200.0, 10.0, 0.05, 64.0),
    (200.0, 20.0, 0.2, 32.0),
    (32.0, 5.0, 0.2, 64.0),
    (4.0, 10.0, 0.1, 32.0),
    (200.0, 2.0, 0.4, 16.0),
];

fn scenario((ac, ratio, share, journeys): (f64, f64, f64, f64), is_shared: bool, tokens: u64) -> Scenario {
    let law = |step_s: f64| Affine { fixed_s: step_s * ac / (1.0 + ac), row_s: step_s / (1.0 + ac) };
    let pair = Pair { journeys, share, visit_tokens: 1.0, small: law(1.0), large: law(ratio) };
    Scenario { tokens, answers_differ: true, seed: 9, ..Scenario::pair(&pair, is_shared) }
}

/// A guess that is wrong in everything: equal models, no cost per row, and nothing known of routing.
fn learning(scenario: &Scenario) -> Scenario {
    let knowledge = Knowledge::Guess { law: StepLaw::affine(1.0, 0.0), overlap: Some(scenario.overlap) };
    Scenario { knowledge, ..scenario.clone() }
}

fn ratio_to_known(scenario: &Scenario) -> f64 {
    let learnt = run(&learning(scenario), Mode::Ours);
    assert!(!learnt.is_stuck);
    learnt.tokens_per_s / run(scenario, Mode::Ours).tokens_per_s
}

#[test]
fn c7_what_is_learnt_from_wrong_values_is_nearly_as_good_as_what_is_known() {
    for is_shared in [true, false] {
        for setting in SETTINGS {
            let ratio = ratio_to_known(&scenario(setting, is_shared, 60_000));
            assert!(ratio >= 0.97, "{ratio} with {setting:?}, shared {is_shared}");
        }
    }
}

/// Against what is known of the plain averages; bursts, spread, jitter, tiles and suffixes are not part of a plan.
#[test]
fn c7_learning_survives_bursts_spread_jitter_tiles_prefill_and_context() {
    for is_shared in [true, false] {
        for setting in [SETTINGS[1], SETTINGS[2], SETTINGS[3]] {
            let plain = scenario(setting, is_shared, 60_000);
            let (mut costly, mut both) = (plain.models.clone(), plain.models.clone());
            for (model, all) in costly.iter_mut().zip(&mut both) {
                model.law.token_s = 0.3 * model.law.row_s;
                all.law.token_s = 0.3 * model.law.row_s;
                all.law.context_s = model.law.row_s / 500.0;
            }
            let burst = Some(Burst { strength: 0.8, tokens: 50.0 });
            let variants = [
                ("bursts", Scenario { burst, ..plain.clone() }),
                ("spread", Scenario { spread: 0.9, ..plain.clone() }),
                ("jitter", Scenario { jitter: 0.3, ..plain.clone() }),
                ("tiles", Scenario { tile_rows: 8, ..plain.clone() }),
                ("suffixes", Scenario { models: costly, ..plain.clone() }),
                (
                    "all",
                    Scenario {
                        models: both,
                        burst,
                        jitter: 0.3,
                        tile_rows: 8,
                        prompt_tokens: 100,
                        ..plain.clone()
                    },
                ),
            ];
            for (name, variant) in variants {
                let ratio = ratio_to_known(&variant);
                assert!(ratio >= 0.97, "{name}: {ratio} with {setting:?}, shared {is_shared}");
            }
        }
    }
}

#[test]
fn c7_drift_of_routing_is_followed() {
    for is_shared in [true, false] {
        for setting in [(200.0, 20.0, 0.1, 32.0), (32.0, 10.0, 0.05, 32.0)] {
            let factors = [1.0, 4.0, 0.3, 3.0, 0.5];
            let drift = (0..60).map(|at| (f64::from(at) * 1000.0, factors[at as usize % 5])).collect();
            let told = Scenario { drift, tells_drift: true, ..scenario(setting, is_shared, 150_000) };
            let learnt = Scenario { tells_drift: false, ..learning(&told) };
            let ratio = run(&learnt, Mode::Ours).tokens_per_s / run(&told, Mode::Ours).tokens_per_s;
            assert!(ratio >= 0.95, "{ratio} with {setting:?}, shared {is_shared}");
        }
    }
}

/// Whether a shared device is one on which overlap is nearly free is found out, at little cost, also from noisy steps.
#[test]
fn overlap_is_measured_and_decides_the_order() {
    for jitter in [0.0, 0.3] {
        for overlap in [1.0, 1.9] {
            let known = Scenario { overlap, jitter, ..scenario(SETTINGS[1], true, 400_000) };
            let knowledge = Knowledge::Guess { law: StepLaw::affine(1.0, 0.0), overlap: None };
            let learnt = run(&Scenario { knowledge, ..known.clone() }, Mode::Ours).tokens_per_s;
            let told = run(&known, Mode::Ours).tokens_per_s;
            assert!(learnt >= 0.95 * told, "{learnt} against {told}: overlap {overlap}, jitter {jitter}");
        }
    }
}
