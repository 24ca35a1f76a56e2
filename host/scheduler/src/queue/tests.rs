//! Tests of the order of service: a naive twin of the whole, the round robin that one tenant sees, and the bound between
//! tenants.

mod twin;

use proptest::prelude::*;

use super::*;
use twin::{RoundRobin, Twin};

fn limits(rows_max: usize, tokens_max: usize) -> Limits {
    let some = |n| NonZeroUsize::new(n).expect("not zero");
    Limits { rows_max: some(rows_max), tokens_max: some(tokens_max) }
}

fn scheduler(rows_max: usize, tokens_max: usize) -> Scheduler {
    Scheduler::new(limits(rows_max, tokens_max))
}

fn shares(turn: Turn) -> Vec<(u64, usize)> {
    match turn {
        Turn::Run(shares) => shares.iter().map(|s| (s.journey.0, s.tokens)).collect(),
        Turn::Wait => Vec::new(),
    }
}

const ONE: Tenant = Tenant(1);
const TWO: Tenant = Tenant(2);

#[test]
fn a_long_prompt_is_cut_so_that_others_decode_beside_it() {
    let mut queue = scheduler(8, 10);
    queue.set_pending(JourneyId(1), ONE, 100);
    queue.set_pending(JourneyId(2), ONE, 1);
    queue.set_pending(JourneyId(3), ONE, 4);
    assert_eq!(shares(queue.next_turn()), [(1, 8), (2, 1), (3, 1)]);
    queue.set_pending(JourneyId(1), ONE, 92);
    queue.remove(JourneyId(2));
    assert_eq!(shares(queue.next_turn()), [(1, 9), (3, 1)]);
}

#[test]
fn with_more_residents_than_rows_each_is_served_once_a_round() {
    let mut queue = scheduler(2, 8);
    for id in 1..=5 {
        queue.set_pending(JourneyId(id), ONE, 1);
    }
    let served: Vec<u64> = (0..5).flat_map(|_| shares(queue.next_turn())).map(|(id, _)| id).collect();
    assert_eq!(served, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
}

#[test]
fn nobody_to_serve_means_wait() {
    let mut queue = scheduler(2, 8);
    assert_eq!(queue.next_turn(), Turn::Wait);
    queue.set_pending(JourneyId(1), ONE, 1);
    queue.remove(JourneyId(1));
    queue.remove(JourneyId(1));
    assert_eq!(queue.next_turn(), Turn::Wait);
}

/// A hundred journeys of one tenant leave half of the places to the two of another.
#[test]
fn many_journeys_do_not_take_the_places_of_few() {
    let mut queue = scheduler(4, 64);
    for id in 0..100 {
        queue.set_pending(JourneyId(id), ONE, 1);
    }
    queue.set_pending(JourneyId(100), TWO, 1);
    queue.set_pending(JourneyId(101), TWO, 1);
    for step in 0..50 {
        let served = shares(queue.next_turn());
        assert_eq!(served.len(), 4);
        assert_eq!(served.iter().filter(|(id, _)| *id >= 100).count(), 2, "step {step}: {served:?}");
    }
}

/// Both have prompts: the budget of 64 beyond the four first tokens is halved, however many prompts one of them has.
#[test]
fn spare_tokens_are_shared_between_tenants_not_between_journeys() {
    let mut queue = scheduler(4, 68);
    for id in 0..3 {
        queue.set_pending(JourneyId(id), ONE, 1000);
    }
    queue.set_pending(JourneyId(9), TWO, 1000);
    let mut of_two = 0;
    for _ in 0..10 {
        of_two += shares(queue.next_turn()).iter().filter(|(id, _)| *id == 9).map(|s| s.1).sum::<usize>();
    }
    // Half of 680, but that first tokens count more than one: its three places a step cost the other some spare tokens.
    assert!((300..=500).contains(&of_two), "{of_two}");
}

/// Who was idle, or wanted less than a share, is level with the others when it wants more: nothing was saved up.
#[test]
fn service_not_asked_for_is_not_saved_up() {
    let mut queue = scheduler(4, 4);
    for id in 0..20 {
        queue.set_pending(JourneyId(id), ONE, 1);
    }
    queue.set_pending(JourneyId(50), TWO, 1);
    (0..1000).for_each(|_| drop(queue.next_turn()));
    for id in 51..70 {
        queue.set_pending(JourneyId(id), TWO, 1);
    }
    let of_two = (0..10).flat_map(|_| shares(queue.next_turn())).filter(|(id, _)| *id >= 50).count();
    assert!((18..=22).contains(&of_two), "{of_two} of 40");
}

/// A debt is not shaken off by leaving and coming back, which journeys do at every handoff.
#[test]
fn leaving_for_a_moment_does_not_pay_a_debt() {
    let mut queue = scheduler(2, 200);
    queue.set_pending(JourneyId(1), ONE, 10_000);
    queue.set_pending(JourneyId(2), TWO, 1);
    queue.set_pending(JourneyId(3), TWO, 1);
    let (mut of_one, mut of_two) = (0, 0);
    let place = limits(2, 200).place_cost();
    for _ in 0..400 {
        for (id, tokens) in shares(queue.next_turn()) {
            if id == 1 {
                of_one += place + tokens as u64 - 1;
                queue.remove(JourneyId(1));
                queue.set_pending(JourneyId(1), ONE, 10_000);
            } else {
                of_two += place;
            }
        }
    }
    assert!(of_one.abs_diff(of_two) <= limits(2, 200).counter_gap_max(), "{of_one} against {of_two}");
}

fn remembered(queue: &Scheduler) -> usize {
    queue.ledgers.values().map(Ledger::remembered).sum()
}

fn behalf(tenant: u64, share: u32, priority: u8) -> Behalf {
    Behalf { tenant: Tenant(tenant), share: NonZeroU32::new(share).expect("not zero"), priority }
}

/// Places of a full step go to tenants in the proportion of their shares, however many journeys each has.
#[test]
fn places_are_given_by_share() {
    let mut queue = scheduler(4, 64);
    for id in 0..100 {
        let of = if id < 90 { behalf(1, 1, 0) } else { behalf(2, 3, 0) };
        queue.set_pending(JourneyId(id), of, 1);
    }
    let of_two = (0..100).flat_map(|_| shares(queue.next_turn())).filter(|(id, _)| *id >= 90).count();
    assert!((295..=305).contains(&of_two), "{of_two} of 400");
}

#[test]
fn a_higher_priority_goes_first_and_leaves_what_it_does_not_need() {
    let mut queue = scheduler(4, 16);
    for id in 0..10 {
        queue.set_pending(JourneyId(id), behalf(1, 1000, 0), 1);
    }
    for id in 10..13 {
        queue.set_pending(JourneyId(id), behalf(2, 1, 1), 1);
    }
    for _ in 0..10 {
        let served = shares(queue.next_turn());
        assert_eq!(served.iter().filter(|(id, _)| *id >= 10).count(), 3, "{served:?}");
        assert_eq!(served.len(), 4);
    }
}

#[test]
fn tenants_that_are_gone_are_forgotten() {
    let mut queue = scheduler(2, 8);
    queue.set_pending(JourneyId(0), Tenant(0), 1);
    for id in 1..1000 {
        queue.set_pending(JourneyId(id), Tenant(id), 3);
        queue.next_turn();
        queue.next_turn();
        queue.remove(JourneyId(id));
    }
    assert!(remembered(&queue) <= 3, "{} tenants", remembered(&queue));
    queue.remove(JourneyId(0));
    assert_eq!(remembered(&queue), 0);
}

/// What happens between two steps: a journey comes or has this much to feed now, or leaves.
fn events(ids: u64) -> impl Strategy<Value = Vec<(u64, usize, bool)>> {
    let pending = prop_oneof![3 => Just(1usize), 2 => 1usize..30, 1 => 1usize..500];
    proptest::collection::vec((0..ids, pending, prop::bool::weighted(0.3)), 1..300)
}

proptest! {
    /// One tenant sees what was there before there were tenants: places in turn, spare tokens to who waited longest.
    #[test]
    fn one_tenant_is_served_round_robin(
        rows_max in 1usize..6, tokens_max in 1usize..40, events in events(12),
    ) {
        let (mut queue, mut twin) =
            (scheduler(rows_max, tokens_max), RoundRobin::new(rows_max, tokens_max));
        for (id, pending, leaves) in events {
            if leaves {
                queue.remove(JourneyId(id));
                twin.remove(id);
            } else {
                queue.set_pending(JourneyId(id), ONE, pending);
                twin.set_pending(id, pending);
            }
            prop_assert_eq!(shares(queue.next_turn()), twin.next_turn());
        }
    }

    /// Several tenants, against a twin that scans everything, hands out tokens one by one and never forgets anybody.
    #[test]
    fn tenants_are_served_as_by_the_naive_twin(
        rows_max in 1usize..6,
        tokens_max in 1usize..40,
        standings in proptest::collection::vec((prop_oneof![Just(1u32), 1u32..5], 0u8..2), 1..6),
        events in events(20),
    ) {
        let tenants = standings.len() as u64;
        let (mut queue, mut twin) = (scheduler(rows_max, tokens_max), Twin::new(limits(rows_max, tokens_max)));
        for (at, (id, pending, leaves)) in events.into_iter().enumerate() {
            let (share, priority) = standings[(id % tenants) as usize];
            let of = behalf(id % tenants, share, priority);
            if leaves {
                queue.remove(JourneyId(id));
                twin.remove(id);
            } else {
                queue.set_pending(JourneyId(id), of, pending);
                twin.set_pending(id, of, pending);
            }
            // Now and then more than one thing happens between two steps.
            if at % 3 > 0 {
                prop_assert_eq!(shares(queue.next_turn()), twin.next_turn());
            }
        }
    }

    /// No token is fed that is not pending, bounds hold, the step is full, and nobody waits for long.
    #[test]
    fn bounds_hold_and_nobody_starves(
        rows_max in 1usize..5, tokens_max in 1usize..20, tenants in 1u64..4, events in events(8),
    ) {
        let mut queue = scheduler(rows_max, tokens_max);
        let mut pending: BTreeMap<u64, usize> = BTreeMap::new();
        let mut waited: BTreeMap<u64, usize> = BTreeMap::new();
        for (id, tokens, leaves) in events {
            if leaves {
                queue.remove(JourneyId(id));
                pending.remove(&id);
                waited.remove(&id);
            } else {
                queue.set_pending(JourneyId(id), Tenant(id % tenants), tokens);
                pending.insert(id, tokens);
            }
            let served = shares(queue.next_turn());
            let total: usize = served.iter().map(|s| s.1).sum();
            let wanted: usize = pending.values().sum();
            prop_assert!(served.len() <= rows_max && total <= tokens_max.max(served.len()));
            let is_full = served.len() == pending.len().min(rows_max) || total == tokens_max;
            prop_assert!(is_full && total >= served.len() && (wanted == 0 || total > 0), "{:?}", served);
            for (&id, &has) in &pending {
                let share = served.iter().find(|s| s.0 == id);
                prop_assert!(share.is_none_or(|s| s.1 >= 1 && s.1 <= has));
                let steps = waited.entry(id).or_default();
                *steps = if share.is_some() { 0 } else { *steps + 1 };
                // Eight places of at most 19 tokens, with a lead of at most that and the budget on top of a round.
                prop_assert!(*steps <= 60, "journey {} waited {} steps", id, steps);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The bound: tenants that all have something left after every step are never further apart than it says, whoever
    /// has how many journeys, prompts or single tokens, and however the journeys come and go.
    #[test]
    fn backlogged_tenants_stay_within_a_constant_of_each_other(
        rows_max in 1usize..9, spare in prop_oneof![0usize..6, 0usize..60], seed in any::<u64>(),
        kinds in proptest::collection::vec((prop_oneof![1u64..3, 1u64..40], any::<bool>()), 2..5),
    ) {
        let limits = limits(rows_max, rows_max + spare);
        let mut queue = Scheduler::new(limits);
        let mut served = vec![0u64; kinds.len()];
        let mut draws = 0;
        let mut below = |most: u64| {
            draws += 1;
            (journey::random::uniform(seed, draws, journey::random::Purpose::Policy, 0) * most as f64) as u64
        };
        for step in 0..200 {
            for (tenant, (journeys, has_prompts)) in kinds.iter().enumerate() {
                // Enough journeys that places do not suffice, or prompts that no budget holds; some leave and come back.
                let journeys = if *has_prompts { *journeys } else { journeys + rows_max as u64 };
                for at in 0..journeys {
                    let id = JourneyId(tenant as u64 * 100 + at);
                    if step > 0 && at > 0 && below(10) == 0 {
                        queue.remove(id);
                    }
                    queue.set_pending(id, Tenant(tenant as u64), if *has_prompts { 100_000 } else { 1 });
                }
            }
            for (id, tokens) in shares(queue.next_turn()) {
                served[(id / 100) as usize] += limits.place_cost() + tokens as u64 - 1;
            }
            let (least, most) = (served.iter().min(), served.iter().max());
            let apart = most.unwrap_or(&0) - least.unwrap_or(&0);
            prop_assert!(apart <= limits.counter_gap_max(), "{:?} after step {}", served, step);
        }
    }
}
