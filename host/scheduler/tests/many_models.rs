//! More than two models on one device, against the exact optimum of the Markov decision process on small instances.

mod exact;

use exact::{Instance, of_rule, optimum};
use journey::random::{Purpose, uniform};
use scheduler::conductor::{Mode, Thresholds};
use scheduler::law::{Affine, StepLaw};
use scheduler::plan::turns::Turns;
use scheduler::plan::{Order, Pair};
use scheduler::simulate::{Demand, Knowledge, Scenario, SimModel, Visit, run};

/// A random group: costs a factor of up to thirty apart, every model left for every other with some probability.
fn instance(seed: u64, models: usize, journeys: usize) -> Instance {
    let draw = |at: usize, index: u32| uniform(seed, at as u64, Purpose::Sample, index);
    let fixed_s =
        (0..models).map(|model| if model == 0 { 1.0 } else { 30f64.powf(draw(model, 0)) }).collect();
    let routes = (0..models)
        .map(|from| {
            let leaving = if from == 0 { 0.02 + 0.4 * draw(from, 1) } else { 0.1 + 0.9 * draw(from, 1) };
            let weights: Vec<f64> = (0..models)
                .map(|to| match to {
                    _ if to == from => 0.0,
                    0 => 2.0,
                    _ => draw(from, 2 + to as u32),
                })
                .collect();
            let total: f64 = weights.iter().sum();
            weights.iter().map(|weight| leaving * weight / total).collect()
        })
        .collect();
    Instance { fixed_s, routes, journeys }
}

fn scenario(instance: &Instance, tokens: u64) -> Scenario {
    let pair = Pair {
        journeys: instance.journeys as f64,
        share: 0.1,
        visit_tokens: 1.0,
        small: Affine::default(),
        large: Affine::default(),
    };
    let models = instance.fixed_s.iter().map(|fixed_s| SimModel {
        law: StepLaw::affine(*fixed_s, 0.0),
        device: 0,
        rows_max: usize::MAX,
        visit: Visit::ByChance,
        keeps_routed: true,
    });
    Scenario {
        models: models.collect(),
        routes: instance.routes.clone(),
        demand: Demand::Closed(instance.journeys),
        tokens,
        knowledge: Knowledge::True,
        ..Scenario::pair(&pair, true)
    }
}

/// Row rates of a chain by iterating it (slow and plain).
fn rates(instance: &Instance) -> Vec<f64> {
    let models = instance.fixed_s.len();
    let mut rates = vec![1.0 / models as f64; models];
    for _ in 0..20_000 {
        let mut next = vec![0.0; models];
        for from in 0..models {
            let leaving: f64 = instance.routes[from].iter().sum();
            next[from] += rates[from] * (1.0 - leaving);
            for (next, share) in next.iter_mut().zip(&instance.routes[from]) {
                *next += rates[from] * share;
            }
        }
        rates = next;
    }
    rates
}

/// The rule for turns, on its own and as the conductor applies it, against the best that is possible.
#[test]
fn the_rule_for_turns_is_near_the_exact_optimum_on_random_groups() {
    let mut ratios = Vec::new();
    for (seed, models, journeys) in instances() {
        let instance = instance(seed, models, journeys);
        let leaving = instance.routes.iter().map(|line| line.iter().sum()).collect();
        let law = |fixed_s: &f64| Affine { fixed_s: *fixed_s, row_s: 0.0 };
        let laws: Vec<Affine> = instance.fixed_s.iter().map(law).collect();
        let turns = Turns::new(&laws, rates(&instance), leaving);
        let ratio = of_rule(&instance, |state| turns.next(state).unwrap()) / optimum(&instance);
        assert!(ratio <= 1.0 + 1e-5, "better than the best: {ratio} on {instance:?}");
        assert!(ratio > 0.94, "{ratio} on {instance:?}");
        ratios.push(ratio);
    }
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    assert!(mean.exp() > 0.985, "geometric mean {}", mean.exp());
}

#[test]
fn the_conductor_takes_turns_by_the_rule_and_predicts_what_comes_of_it() {
    let mut errors = Vec::new();
    for (seed, models, journeys) in instances().filter(|(seed, _, _)| seed % 4 == 0) {
        let instance = instance(seed, models, journeys);
        let best = optimum(&instance);
        let scenario = scenario(&instance, 40_000);
        let ours = run(&scenario, Mode::Ours);
        assert!(!ours.is_stuck);
        assert!(ours.tokens_per_s > 0.92 * best, "{} of {best} on {instance:?}", ours.tokens_per_s);
        let lockstep = run(&scenario, Mode::StepSync).tokens_per_s;
        assert!(
            ours.tokens_per_s > 0.98 * lockstep,
            "{} against {lockstep} on {instance:?}",
            ours.tokens_per_s
        );
        errors.push((ours.predicted_tokens_per_s.unwrap() / ours.tokens_per_s - 1.0).abs());
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors[errors.len() * 9 / 10] < 0.10, "{errors:?}");
}

fn instances() -> impl Iterator<Item = (u64, usize, usize)> {
    let all = [2usize, 3, 4].into_iter().flat_map(|models| (0..20u64).map(move |seed| (seed, models)));
    let sized = all.map(|(seed, models)| (seed, models, [4, 8, 12][seed as usize % 3]));
    sized.filter(|(_, models, journeys)| models * journeys < 40)
}

/// Three models in every placement on devices, as a star, as a mixture that picks the next model by weight, and as a
/// chain: never below immediate admission, and well above it wherever a device is shared.
#[test]
fn three_models_in_any_placement_are_never_below_immediate_admission() {
    let star = vec![vec![0.0, 0.1, 0.05], vec![1.0, 0.0, 0.0], vec![1.0, 0.0, 0.0]];
    let mixture = vec![vec![0.0, 0.3, 0.2], vec![0.5, 0.0, 0.2], vec![0.5, 0.3, 0.0]];
    let chain = vec![vec![0.0, 0.1, 0.0], vec![0.5, 0.0, 0.3], vec![0.5, 0.0, 0.0]];
    for routes in [star, mixture, chain] {
        for (devices, at_least) in [([0, 0, 0], 1.3), ([0, 1, 2], 1.0), ([0, 1, 1], 1.1), ([0, 0, 1], 1.1)] {
            for journeys in [4, 24] {
                let instance = Instance { fixed_s: vec![1.0, 4.0, 12.0], routes: routes.clone(), journeys };
                let mut scenario = scenario(&instance, 20_000);
                for (model, device) in scenario.models.iter_mut().zip(devices) {
                    model.device = device;
                    model.law.row_s = model.law.fixed_s / 100.0;
                }
                let ours = run(&scenario, Mode::Ours);
                let eager = run(&scenario, Mode::EagerAsync);
                assert!(!ours.is_stuck);
                let gain = ours.tokens_per_s / eager.tokens_per_s;
                assert!(gain >= at_least, "{gain} on {devices:?} with {routes:?} and {journeys} journeys");
            }
        }
    }
}

/// Two models whose visits end by chance, as when the large one hands back once it is sure again.
#[test]
fn visits_that_end_by_chance_are_served_as_well_as_any_fixed_threshold() {
    for is_shared in [true, false] {
        for (journeys, share, visit_tokens, ratio) in
            [(16.0, 0.1, 4.0, 10.0), (16.0, 0.3, 2.0, 5.0), (32.0, 0.3, 8.0, 3.0)]
        {
            let law = |fixed_s: f64| Affine { fixed_s, row_s: fixed_s / 100.0 };
            let pair = Pair { journeys, share, visit_tokens, small: law(1.0), large: law(ratio) };
            let mut scenario = Scenario { tokens: 30_000, ..Scenario::pair(&pair, is_shared) };
            scenario.models[1].visit = Visit::ByChance;
            scenario.routes[1][0] = 1.0 / visit_tokens;
            let ours = run(&scenario, Mode::Ours).tokens_per_s;
            for order in [Order::Exclusive, Order::Parallel] {
                for batch in [1, 4, 8, 12, 16] {
                    let fixed = Mode::FixedB(Thresholds::without_timers(vec![1, batch], order));
                    let rate = run(&scenario, fixed).tokens_per_s;
                    assert!(ours >= 0.98 * rate, "{ours} against {rate} with {batch} {order:?} on {pair:?}");
                }
            }
        }
    }
}
