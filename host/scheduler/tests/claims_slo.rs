//! Claim C8, and what bounds on latency do to goodput.

use scheduler::conductor::{Mode, Strictness};
use scheduler::law::Affine;
use scheduler::plan::Pair;
use scheduler::simulate::{Outcome, Scenario, run};

const JOURNEYS: [f64; 6] = [1.0, 4.0, 12.0, 24.0, 48.0, 96.0];

fn pair(ac: f64, ratio: f64, share: f64, journeys: f64) -> Pair {
    let law = |step_s: f64| Affine { fixed_s: step_s * ac / (1.0 + ac), row_s: step_s / (1.0 + ac) };
    Pair { journeys, share, visit_tokens: 1.0, small: law(1.0), large: law(ratio) }
}

fn scenario(pair: &Pair, is_shared: bool) -> Scenario {
    let tokens = ((pair.journeys / pair.share * 40.0) as u64).clamp(25_000, 60_000);
    Scenario { tokens, seed: 5, ..Scenario::pair(pair, is_shared) }
}

/// Most tokens per second over the numbers of journeys for which the bound holds.
fn goodput(of: impl Fn(f64) -> Outcome, holds: impl Fn(&Outcome) -> bool) -> f64 {
    let within = JOURNEYS.iter().map(|n| of(*n)).filter(holds).map(|outcome| outcome.tokens_per_s);
    within.fold(0.0, f64::max)
}

#[test]
fn c8_with_the_strict_rule_no_gap_is_longer_than_the_bound() {
    for (ac, ratio, share) in [(200.0, 10.0, 0.05), (32.0, 5.0, 0.1), (4.0, 10.0, 0.2), (200.0, 20.0, 0.2)] {
        for journeys in [4.0, 16.0, 64.0] {
            for slack in [1.0, 1.5, 3.0] {
                let pair = pair(ac, ratio, share, journeys);
                let bound_s = slack * (pair.small.step_s(journeys) + 2.0 * pair.large.step_s(journeys));
                let strict = Scenario {
                    slo_itl_s: Some(bound_s),
                    slo_itl_from: Strictness::Hard,
                    ..scenario(&pair, true)
                };
                let outcome = run(&strict, Mode::Ours);
                let longest = outcome.itl_max_s / bound_s;
                assert!(longest <= 1.15, "{longest} of the bound on {pair:?}, slack {slack}");
            }
        }
    }
}

#[test]
fn c8_with_the_strict_rule_goodput_is_at_least_nine_tenths_of_lockstep() {
    for (ac, ratio, share) in [(200.0, 10.0, 0.05), (32.0, 5.0, 0.1), (4.0, 10.0, 0.2), (200.0, 20.0, 0.2)] {
        for multiple in [1.5, 2.0, 3.0] {
            let bound_s = multiple * (1.0 + ratio);
            let with = |n: f64, bound| {
                let pair = pair(ac, ratio, share, n);
                Scenario { slo_itl_s: bound, slo_itl_from: Strictness::Hard, ..scenario(&pair, true) }
            };
            let holds = |outcome: &Outcome| outcome.itl_p99_s <= bound_s * 1.012;
            let ours = goodput(|n| run(&with(n, Some(bound_s)), Mode::Ours), holds);
            let lockstep = goodput(|n| run(&with(n, None), Mode::StepSync), holds);
            assert!(
                ours >= 0.9 * lockstep,
                "{ours} against {lockstep}: {ac} {ratio} {share}, bound x{multiple}"
            );
        }
    }
}

/// Without a rule a bound on gaps is broken by delay; the guarded rule keeps it and is never below immediate admission.
#[test]
fn the_guarded_rule_keeps_the_99th_percentile_of_gaps() {
    for (ac, ratio, share) in [(200.0, 10.0, 0.05), (32.0, 10.0, 0.2)] {
        let bound_s = 3.0 * (1.0 + ratio);
        let holds = |outcome: &Outcome| outcome.itl_p99_s <= bound_s * 1.012;
        let at = |n: f64, bound, mode| {
            let scenario = Scenario { slo_itl_s: bound, ..scenario(&pair(ac, ratio, share, n), true) };
            run(&scenario, mode)
        };
        let guarded = goodput(|n| at(n, Some(bound_s), Mode::Ours), holds);
        let eager = goodput(|n| at(n, None, Mode::EagerAsync), holds);
        assert!(guarded >= eager, "{guarded} against {eager}");
        assert!(guarded > 0.0);
    }
}

/// On one device, waiting lowers the time per token of slow answers as well, so a bound on it lets more journeys in.
#[test]
fn a_bound_on_time_per_token_gives_several_times_the_goodput_of_lockstep() {
    for (ac, ratio, share) in [(200.0, 10.0, 0.05), (200.0, 5.0, 0.1)] {
        let bound_s = 3.0 * (1.0 + share * ratio);
        let holds = |outcome: &Outcome| outcome.tpot_p99_s <= bound_s;
        let at = |n: f64, bound, mode| {
            run(&Scenario { slo_tpot_s: bound, ..scenario(&pair(ac, ratio, share, n), true) }, mode)
        };
        let ours = goodput(|n| at(n, Some(bound_s), Mode::Ours), holds);
        let lockstep = goodput(|n| at(n, None, Mode::StepSync), holds);
        assert!(ours >= 2.0 * lockstep, "{ours} against {lockstep}: {ac} {ratio} {share}");
    }
}
