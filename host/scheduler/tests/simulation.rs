//! The simulator against what a hand or a formula can say.

use scheduler::conductor::{Mode, Thresholds};
use scheduler::law::Affine;
use scheduler::plan::{Order, Pair, shared};
use scheduler::simulate::{Demand, Scenario, run};

fn pair(journeys: f64, share: f64, visit_tokens: f64) -> Pair {
    let law = |fixed_s: f64| Affine { fixed_s, row_s: fixed_s / 50.0 };
    Pair { journeys, share, visit_tokens, small: law(1.0), large: law(8.0) }
}

#[test]
fn a_run_can_be_repeated_exactly_and_another_seed_gives_another_run() {
    let scenario = Scenario { tokens: 5_000, jitter: 0.2, ..Scenario::pair(&pair(6.0, 0.1, 2.0), true) };
    assert_eq!(run(&scenario, Mode::Ours), run(&scenario, Mode::Ours));
    let other = Scenario { seed: 2, ..scenario.clone() };
    assert_ne!(run(&scenario, Mode::Ours).seconds, run(&other, Mode::Ours).seconds);
}

/// 1 / p small steps, of which the last gives no token, and k large ones.
#[test]
fn one_journey_takes_as_long_as_its_steps() {
    let pair = pair(1.0, 0.2, 3.0);
    let seconds = 5.0 * pair.small.step_s(1.0) + 3.0 * pair.large.step_s(1.0);
    for mode in [Mode::Ours, Mode::EagerAsync, Mode::StepSync, Mode::ModelSync, Mode::PaperDtmc] {
        let rate =
            run(&Scenario { tokens: 60_000, ..Scenario::pair(&pair, false) }, mode.clone()).tokens_per_s;
        assert!((rate * seconds / 7.0 - 1.0).abs() < 0.02, "{mode:?}: {rate} for {}", 7.0 / seconds);
    }
}

/// The recursion over waiting journeys and the simulation know nothing of each other.
#[test]
fn thresholds_on_a_shared_device_do_what_the_exact_recursion_says() {
    for (journeys, share, visit) in [(3.0, 0.3, 1.0), (8.0, 0.1, 1.0), (12.0, 0.2, 3.0), (16.0, 0.05, 2.0)] {
        let pair = pair(journeys, share, visit);
        for part in [0.3, 0.6, 1.0] {
            let batch = (journeys * part).ceil() as usize;
            let mode = Mode::FixedB(Thresholds::without_timers(vec![1, batch], Order::Exclusive));
            let rate = run(&Scenario { tokens: 150_000, ..Scenario::pair(&pair, true) }, mode).tokens_per_s;
            let exact = shared::tokens_per_s(&pair, batch);
            assert!((rate / exact - 1.0).abs() < 0.015, "{rate} for {exact}: {pair:?}, threshold {batch}");
        }
    }
}

#[test]
fn in_an_open_system_journeys_come_and_go_at_the_same_rate() {
    let pair = pair(1.0, 0.1, 1.0);
    let demand = Demand::Open { per_s: 0.01, journeys_max: 64 };
    let scenario = Scenario { demand, tokens: 120_000, ..Scenario::pair(&pair, true) };
    let outcome = run(&scenario, Mode::Ours);
    assert!(!outcome.is_stuck && !outcome.is_overrun);
    assert!(
        (outcome.tokens_per_s / 2.56 - 1.0).abs() < 0.15,
        "{} tokens/s of 2.56 offered",
        outcome.tokens_per_s
    );
    // Little's law over answers: journeys = rate * time in the system.
    let within_s = outcome.tpot_mean_s * 256.0;
    let rate = outcome.tokens_per_s / 256.0;
    assert!((outcome.journeys / (rate * within_s) - 1.0).abs() < 0.05, "{outcome:?}");
    assert!(outcome.ttft_p50_s > 0.5 && outcome.ttft_p50_s < 12.0, "{}", outcome.ttft_p50_s);
    let flooded = Scenario { demand: Demand::Open { per_s: 1.0, journeys_max: 8 }, ..scenario };
    assert!(run(&flooded, Mode::Ours).is_overrun);
}

#[test]
fn handoffs_under_way_are_waited_for_and_cost_their_time() {
    let at_once = Scenario { tokens: 20_000, ..Scenario::pair(&pair(8.0, 0.2, 1.0), true) };
    let slow = Scenario { handoff_s: 2.0, ..at_once.clone() };
    let (at_once, slow) = (run(&at_once, Mode::Ours), run(&slow, Mode::Ours));
    assert!(!slow.is_stuck);
    assert!(slow.tokens_per_s < at_once.tokens_per_s && slow.tokens_per_s > 0.5 * at_once.tokens_per_s);
}

/// A step has room for so many rows; the threshold keeps to it and everybody gets their turn.
#[test]
fn a_step_with_room_for_few_rows_is_filled_and_not_waited_beyond() {
    let mut scenario = Scenario { tokens: 20_000, ..Scenario::pair(&pair(24.0, 0.2, 1.0), true) };
    scenario.models[1].rows_max = 4;
    let outcome = run(&scenario, Mode::Ours);
    assert_eq!(outcome.batch, [1, 4]);
    assert!(outcome.rows[1] <= 4.0 && outcome.rows[1] > 3.5, "{:?}", outcome.rows);
    assert!(!outcome.is_stuck);
}
