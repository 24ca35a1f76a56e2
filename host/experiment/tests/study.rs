//! A small, seeded form of `examples/false_positives.rs`: looking after every answer finds nothing where there is nothing,
//! and something where there is.

use experiment::guardrail::{Guardrail, Limit, Statistic};
use experiment::metric::Metric;
use experiment::study::{Keys, Look, Outcome, Plan, World, simulate};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

fn run(world: World, look: Look, runs: u32) -> Outcome {
    let mut rng = StdRng::seed_from_u64(6);
    simulate(&Plan { world, treatment_bp: 5000, look, answers: 800 }, runs, &mut || rng.random())
}

#[test]
fn arms_that_are_alike_are_told_apart_in_at_most_one_of_twenty_experiments() {
    for keys in [Keys::Fresh, Keys::Users(500)] {
        for metric in [Metric::Errors, Metric::Quality, Metric::TtftS] {
            let outcome = run(World::alike(keys), Look::Sequence(metric), 100);
            assert!(outcome.rate() <= 0.05, "{metric} of {keys:?}: {outcome:?}");
        }
    }
    for look in [Look::Ratio, Look::Readout] {
        let outcome = run(World::alike(Keys::Fresh), look, 20);
        assert!(outcome.rate() <= 0.05, "{look:?}: {outcome:?}");
    }
}

/// The oracle for the simulation itself: it must find the error that everybody knows.
#[test]
fn a_fixed_test_at_every_look_is_wrong_far_more_often() {
    let outcome = run(World::alike(Keys::Fresh), Look::FixedTest(Metric::TtftS), 100);
    assert!(outcome.rate() > 0.15, "{outcome:?}");
}

#[test]
fn a_guardrail_stops_an_arm_that_fails_within_a_few_hundred_answers() {
    let limit = Limit::WorseBy(0.0);
    let guardrail = Guardrail { metric: Metric::Errors, of: Statistic::Mean, limit };
    let world = World { errors: [0.03, 0.3], ..World::alike(Keys::Fresh) };
    let outcome = run(world, Look::Guardrail(guardrail), 40);
    assert!(outcome.rate() == 1.0 && outcome.median_answers().unwrap() < 300, "{outcome:?}");
}
