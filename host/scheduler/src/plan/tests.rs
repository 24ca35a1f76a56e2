//! What plans choose.

use proptest::prelude::*;

use super::*;

fn one_device(overlap: f64) -> Devices {
    Devices::Shared { overlap, switch_s: 0.0 }
}

fn pair(journeys: f64, fixed_over_row: f64) -> Pair {
    let one = |fixed_s: f64| Affine { fixed_s, row_s: fixed_s / fixed_over_row };
    Pair { journeys, share: 0.1, visit_tokens: 1.0, small: one(1.0), large: one(10.0) }
}

#[test]
fn one_journey_and_compute_bound_models_are_not_delayed() {
    for devices in [Devices::Separate, one_device(1.0), one_device(1.6)] {
        let plan = Plan::make(pair(1.0, 200.0), devices, Aims::default());
        assert_eq!(plan.batch, 1, "{devices:?}");
        assert!(plan.reasons.contains(&Reason::OneJourney));
        let plan = Plan::make(pair(16.0, 0.001), devices, Aims::default());
        assert_eq!(plan.batch, 1, "{devices:?}");
        assert!(plan.reasons.contains(&Reason::DelayDoesNotPay));
    }
}

#[test]
fn the_order_follows_the_overlap() {
    let order = |overlap| Plan::make(pair(32.0, 200.0), one_device(overlap), Aims::default()).order;
    assert_eq!(order(1.0), Order::Exclusive);
    assert_eq!(order(1.2), Order::Exclusive);
    assert_eq!(order(1.95), Order::Parallel);
}

#[test]
fn a_gap_shorter_than_two_large_steps_aligns_the_models() {
    let aims = Aims { gap_s: Some(20.0), ..Aims::default() };
    let plan = Plan::make(pair(8.0, 200.0), Devices::Separate, aims);
    assert_eq!(plan.order, Order::Exclusive);
    assert_eq!(plan.reasons[0], Reason::TightGap);
    let loose = Aims { gap_s: Some(40.0), ..Aims::default() };
    assert_eq!(Plan::make(pair(8.0, 200.0), Devices::Separate, loose).order, Order::Parallel);
}

#[test]
fn a_plan_keeps_to_the_rows_of_a_step() {
    let aims = Aims { rows_max: Some(4), ..Aims::default() };
    let plan = Plan::make(pair(64.0, 200.0), one_device(1.0), aims);
    assert_eq!(plan.batch, 4);
    assert_eq!(plan.reasons.last(), Some(&Reason::RowsMax));
}

#[test]
fn nonsense_in_gives_a_plan_without_delay_or_with_a_bounded_one() {
    let mut odd = pair(8.0, 200.0);
    odd.share = 0.0;
    odd.visit_tokens = f64::INFINITY;
    odd.small = Affine::default();
    for devices in [Devices::Separate, one_device(0.0)] {
        let plan = Plan::make(odd, devices, Aims::default());
        assert!((1..=8).contains(&plan.batch), "{plan:?}");
        assert!(plan.tokens_per_s.is_finite(), "{plan:?}");
    }
}

proptest! {
    /// Beliefs are measured, and may have any of their terms at nothing.
    #[test]
    fn what_is_predicted_is_a_number(
        costs in proptest::array::uniform4(prop_oneof![Just(0.0), (-9.0f64..1.0).prop_map(|power| 10f64.powf(power))]),
        (journeys, share, visit_tokens) in (1.0f64..200.0, (-6.0f64..0.0).prop_map(|power| 10f64.powf(power)), prop_oneof![Just(1.0), 1.0f64..8.0, 1.0f64..9000.0]),
        (overlap, switch_s) in (0.5f64..2.0, 0.0f64..0.1),
    ) {
        let [a, b, c, d] = costs;
        let (small, large) = (Affine { fixed_s: a, row_s: b }, Affine { fixed_s: c, row_s: d });
        let pair = Pair { journeys: journeys.round(), share, visit_tokens, small, large };
        for devices in [Devices::Separate, Devices::Shared { overlap, switch_s }] {
            let plan = Plan::make(pair, devices, Aims::default());
            let told = [Some(plan.tokens_per_s), plan.exclusive_tokens_per_s, plan.parallel_tokens_per_s];
            let is_number = |told: f64| told.is_finite() && told >= 0.0;
            prop_assert!(told.into_iter().flatten().all(is_number), "{:?}", plan);
            prop_assert!(plan.cycle_s.is_finite(), "{:?}", plan);
        }
    }
}

#[test]
fn a_change_of_model_that_costs_as_much_as_a_step_is_made_less_often_or_not_at_all() {
    let with = |overlap, switch_s| {
        Plan::make(pair(32.0, 200.0), Devices::Shared { overlap, switch_s }, Aims::default())
    };
    let (free, dear) = (with(1.0, 0.0), with(1.0, 2.0));
    assert_eq!((free.order, dear.order), (Order::Exclusive, Order::Exclusive));
    assert!(dear.batch > free.batch, "{} {}", free.batch, dear.batch);
    assert!(dear.tokens_per_s < free.tokens_per_s);
    // With models that gain something by running at once, taking turns is worth it only while it is cheap.
    assert_eq!((with(1.2, 0.0).order, with(1.2, 20.0).order), (Order::Exclusive, Order::Parallel));
}
