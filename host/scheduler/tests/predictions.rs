//! Predicted against simulated throughput of more than two models with a device each, on random groups.

use journey::random::{Purpose, uniform};
use scheduler::conductor::Mode;
use scheduler::law::{Affine, StepLaw};
use scheduler::plan::Pair;
use scheduler::simulate::{Demand, Scenario, SimModel, Visit, run};

/// Three to five models whose steps differ by a factor of up to thirty, bound by memory or by compute, with visits that
/// end by chance or have a length, and two to 128 journeys.
fn scenario(seed: u64) -> Scenario {
    let draw = |index: u32| uniform(seed, 7, Purpose::Sample, index);
    let between = |index, least: f64, most: f64| least * (most / least).powf(draw(index));
    let models = 3 + (draw(0) * 3.0) as u32;
    let journeys = between(1, 2.0, 128.0).round() as usize;
    let model = |at: u32| {
        let step_s = if at == 0 { 1.0 } else { between(10 + at, 1.0, 30.0) };
        let fixed_over_row = between(20 + at, 0.5, 200.0);
        let row_s = step_s / (1.0 + fixed_over_row);
        let timed = Visit::Tokens(1 + (draw(50 + at) * 4.0) as u32);
        SimModel {
            law: StepLaw::affine(row_s * fixed_over_row, row_s),
            device: at as usize,
            rows_max: usize::MAX,
            visit: if at > 0 && draw(40 + at) < 0.3 { timed } else { Visit::ByChance },
            keeps_routed: at > 0,
        }
    };
    let line = |from: u32| {
        let leaving =
            between(60 + from, if from == 0 { 0.02 } else { 0.1 }, if from == 0 { 0.5 } else { 1.0 });
        let weight = |to: u32| match to {
            _ if to == from => 0.0,
            0 => 2.0,
            _ => draw(100 + from * 10 + to),
        };
        let total: f64 = (0..models).map(weight).sum();
        (0..models).map(|to| weight(to) / total * leaving).collect()
    };
    let law = Affine::default();
    let pair = Pair { journeys: journeys as f64, share: 0.1, visit_tokens: 1.0, small: law, large: law };
    Scenario {
        models: (0..models).map(model).collect(),
        routes: (0..models).map(line).collect(),
        demand: Demand::Closed(journeys),
        tokens: (journeys as u64 * 1500).clamp(20_000, 80_000),
        ..Scenario::pair(&pair, false)
    }
}

/// Over 150 seeds the median is 1.8 %, the ninth decile 5.4 % and the worst 11 % (1.9, 5.6 and 11 % at once).
#[test]
fn models_apart_are_predicted_within_eight_per_cent_on_nine_of_ten_random_groups() {
    for mode in [Mode::Ours, Mode::EagerAsync] {
        let error = |seed| {
            let outcome = run(&scenario(seed), mode.clone());
            assert!(!outcome.is_stuck);
            (outcome.predicted_tokens_per_s.expect("a prediction") / outcome.tokens_per_s - 1.0).abs()
        };
        let mut errors: Vec<f64> = (0..SEEDS).map(error).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: usize| errors[errors.len() * share / 10];
        assert!(at(5) <= 0.03, "{mode:?}: median {} of {errors:?}", at(5));
        assert!(at(9) <= 0.08, "{mode:?}: ninth decile {} of {errors:?}", at(9));
    }
}

const SEEDS: u64 = 60;
