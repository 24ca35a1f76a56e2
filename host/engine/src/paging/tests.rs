//! What the ledger promises, a sentence each.

use super::PAGE;
use super::*;

const TENANT: u64 = 1;
const A: JourneyId = JourneyId(1);
const B: JourneyId = JourneyId(2);
const C: JourneyId = JourneyId(3);

/// Tokens of a text that goes on without repeating itself.
fn text(positions: std::ops::Range<u32>) -> Vec<u32> {
    positions.map(|position| 1000 + position).collect()
}

fn feed(journey: JourneyId, from: usize, tokens: &[u32]) -> Feed<'_> {
    Feed { journey, salt: TENANT, from, tokens, adopt_max: tokens.len() - 1 }
}

/// Feeds tokens behind what is held; returns how many were taken over, and the copy.
fn fed(ledger: &mut KvLedger, journey: JourneyId, tokens: &[u32]) -> Reservation {
    let held = ledger.held(journey);
    let reserved = ledger.reserve(&feed(journey, held, tokens)).expect("room");
    ledger.commit(journey);
    reserved
}

/// A ledger in which a journey has left a text.
fn with_kept(blocks_max: usize, tokens: &[u32]) -> KvLedger {
    let mut ledger = KvLedger::new(blocks_max);
    fed(&mut ledger, A, tokens);
    ledger.release(A, Keep::Prefix);
    ledger
}

#[test]
fn a_journey_that_begins_like_an_earlier_one_computes_the_rest_only() {
    let mut ledger = with_kept(9, &text(0..40));
    assert_eq!(
        ledger.usage(),
        Usage { blocks_max: 9, blocks_touched: 3, blocks_cached: 3, queried_tokens: 39, ..Usage::default() }
    );
    let tokens: Vec<u32> = text(0..35).into_iter().chain([7, 8]).collect();
    let reserved = fed(&mut ledger, B, &tokens);
    assert_eq!(reserved.adopted, 35);
    let copy = reserved.copy.expect("the hit ends inside of a block");
    assert_eq!((copy.positions, copy.to), (3, ledger.table(B)[2]));
    assert_ne!(copy.from, copy.to);
    let usage = ledger.usage();
    assert_eq!((usage.blocks_used, usage.blocks_cached, usage.hit_tokens, usage.tokens), (3, 1, 35, 37));
    assert_eq!(usage.queried_tokens, 39 + 36, "all but the last token of each");
    assert_eq!(ledger.tokens(B), tokens);
}

#[test]
fn the_last_token_of_a_row_that_samples_is_computed_even_if_it_is_kept() {
    let mut ledger = with_kept(9, &text(0..32));
    let reserved = fed(&mut ledger, B, &text(0..32));
    assert_eq!((reserved.adopted, reserved.copy.map(|copy| copy.positions)), (31, Some(15)));
    let tokens = text(0..32);
    let whole = ledger.reserve(&Feed { adopt_max: 32, ..feed(C, 0, &tokens) });
    assert_eq!(whole, Ok(Reservation { adopted: 32, copy: None }));
}

#[test]
fn a_prefix_is_shared_within_a_tenant_only() {
    let mut ledger = with_kept(9, &text(0..32));
    let tokens = text(0..32);
    let reserved = ledger.reserve(&Feed { salt: TENANT + 1, ..feed(B, 0, &tokens) });
    assert_eq!(reserved, Ok(Reservation { adopted: 0, copy: None }));
}

#[test]
fn a_long_prompt_is_taken_over_chunk_by_chunk() {
    let mut ledger = with_kept(20, &text(0..100));
    for chunk in [0..37, 37..64, 64..90] {
        let tokens = text(chunk);
        let from = ledger.held(B);
        let reserved = ledger.reserve(&Feed { adopt_max: tokens.len(), ..feed(B, from, &tokens) });
        assert_eq!(reserved, Ok(Reservation { adopted: tokens.len(), copy: None }));
        ledger.commit(B);
    }
    assert_eq!(fed(&mut ledger, B, &text(90..120)).adopted, 10);
    assert_eq!(fed(&mut ledger, B, &text(120..130)).adopted, 0);
    assert_eq!(ledger.tokens(B), text(0..130));
}

#[test]
fn what_a_journey_publishes_while_it_lives_costs_it_no_copy() {
    let mut ledger = KvLedger::new(20);
    fed(&mut ledger, A, &text(0..40));
    ledger.publish(A);
    assert_eq!(fed(&mut ledger, A, &[1]).copy, None);
    assert_eq!(fed(&mut ledger, B, &text(0..40)).adopted, 32);
    assert_eq!(ledger.usage().blocks_shared, 2);
}

#[test]
fn two_who_computed_the_same_text_share_it_once_both_have_published() {
    let mut ledger = KvLedger::new(20);
    for journey in [A, B] {
        fed(&mut ledger, journey, &text(0..40));
    }
    assert_eq!(ledger.usage().blocks_used, 6);
    ledger.publish(A);
    ledger.publish(B);
    assert_eq!(ledger.table(A)[..2], ledger.table(B)[..2]);
    let usage = ledger.usage();
    assert_eq!((usage.blocks_used, usage.blocks_shared, usage.tokens), (4, 2, 80));
}

#[test]
fn a_fork_copies_the_last_block_for_who_goes_on_first() {
    let mut ledger = KvLedger::new(9);
    fed(&mut ledger, A, &text(0..20));
    ledger.fork(A, B);
    assert_eq!((ledger.table(A), ledger.tokens(A)), (ledger.table(B), ledger.tokens(B)));
    assert_eq!(ledger.usage().blocks_used, 2);
    let before = ledger.table(A)[1];
    let copy = fed(&mut ledger, B, &[5]).copy.expect("the block is shared");
    assert_eq!((copy.from, copy.positions), (before, 4));
    assert_eq!(fed(&mut ledger, A, &[6]).copy, None, "it is nobody else's now");
    assert_eq!(ledger.table(A)[1], before);
}

#[test]
fn a_block_kept_by_one_who_was_cut_is_kept_again_for_more_of_it() {
    let mut ledger = KvLedger::new(9);
    fed(&mut ledger, A, &text(0..20));
    ledger.fork(A, B);
    ledger.cut(A, 18);
    ledger.release(A, Keep::Prefix);
    ledger.release(B, Keep::Prefix);
    assert_eq!(ledger.usage().blocks_cached, 2);
    assert_eq!(fed(&mut ledger, C, &text(0..30)).adopted, 20);
}

#[test]
fn one_token_takes_a_block_every_page_and_nothing_else() {
    let mut ledger = KvLedger::new(1000);
    fed(&mut ledger, A, &text(0..5000));
    ledger.publish(A);
    for token in 5000..5100 {
        assert_eq!(fed(&mut ledger, A, &[token]), Reservation { adopted: 0, copy: None });
        assert_eq!(ledger.table(A).len(), ledger.held(A).div_ceil(PAGE));
    }
    assert_eq!(ledger.usage().blocks_touched, 5100usize.div_ceil(PAGE));
}

#[test]
fn a_failed_step_is_rolled_back_to_where_it_began() {
    let mut ledger = KvLedger::new(9);
    fed(&mut ledger, A, &text(0..20));
    let tokens = text(10..60);
    ledger.reserve(&feed(A, 18, &tokens)).expect("room");
    assert_eq!((ledger.held(A), ledger.table(A).len()), (18, 5), "reserved is not held");
    ledger.cut(A, 18);
    assert_eq!((ledger.tokens(A), ledger.table(A).len()), (&text(0..18)[..], 2));
    ledger.cut(A, 0);
    // What was looked up stays counted.
    let (blocks_touched, queried_tokens) = (5, 68);
    assert_eq!(ledger.usage(), Usage { blocks_max: 9, blocks_touched, queried_tokens, ..Usage::default() });
}

#[test]
fn a_feed_that_finds_no_room_or_a_gap_changes_nothing_but_the_cut() {
    let mut ledger = KvLedger::new(3);
    fed(&mut ledger, A, &text(0..30));
    let tokens = text(0..40);
    assert_eq!(ledger.reserve(&feed(B, 0, &tokens)), Err(Refused::NoRoom { needed: 3, obtainable: 1 }));
    assert_eq!(ledger.reserve(&feed(A, 20, &tokens)), Err(Refused::NoRoom { needed: 2, obtainable: 1 }));
    assert_eq!((ledger.held(A), ledger.held(B)), (20, 0));
    assert_eq!(ledger.reserve(&feed(A, 21, &tokens)), Err(Refused::Gap { from: 21, held: 20 }));
    assert_eq!(ledger.usage().sequences, 1);
}

#[test]
fn kept_prefixes_make_way_before_parked_journeys_and_those_before_nobody() {
    let mut ledger = with_kept(6, &text(0..32));
    for (journey, token) in [(B, 50), (C, 60)] {
        fed(&mut ledger, journey, &[token; 20]);
        ledger.park(journey);
    }
    fed(&mut ledger, A, &[70; 30]);
    let usage = ledger.usage();
    assert_eq!((usage.blocks_cached, usage.parked), (0, 2));
    ledger.park(B);
    fed(&mut ledger, A, &[70; 10]);
    assert_eq!((ledger.held(C), ledger.resume(B)), (0, 20), "who left first goes first");
    let tokens = [80; 40];
    let refused = ledger.reserve(&feed(C, 0, &tokens));
    assert_eq!(refused, Err(Refused::NoRoom { needed: 3, obtainable: 1 }));
}

#[test]
fn an_evicted_journey_finds_again_what_was_not_needed() {
    let mut ledger = KvLedger::new(6);
    fed(&mut ledger, A, &text(0..64));
    ledger.park(A);
    fed(&mut ledger, B, &[1; 33]);
    assert_eq!(ledger.resume(A), 0);
    ledger.release(B, Keep::Nothing);
    assert_eq!(fed(&mut ledger, A, &text(0..64)).adopted, 48);
}

#[test]
fn a_feed_that_can_never_fit_evicts_nobody() {
    let mut ledger = KvLedger::new(4);
    fed(&mut ledger, A, &text(0..30));
    ledger.park(A);
    assert!(ledger.reserve(&feed(B, 0, &[1; 65])).is_err());
    assert_eq!(ledger.resume(A), 30);
}

#[test]
fn without_memory_for_a_copy_what_is_only_kept_is_written_over() {
    let mut ledger = with_kept(2, &text(0..32));
    let tokens: Vec<u32> = text(0..20).into_iter().chain([9]).collect();
    let reserved = ledger.reserve(&feed(B, 0, &tokens));
    assert_eq!(reserved, Ok(Reservation { adopted: 20, copy: None }));
    ledger.commit(B);
    let usage = ledger.usage();
    assert_eq!((usage.blocks_used, usage.blocks_cached), (2, 0));
}

#[test]
fn what_others_continue_is_copied_even_if_a_parked_journey_must_go() {
    let mut ledger = KvLedger::new(4);
    let (whole, alike) = (text(0..32), text(0..16));
    ledger.reserve(&Feed { adopt_max: 0, ..feed(A, 0, &whole) }).expect("room");
    ledger.commit(A);
    ledger.fork(A, B);
    ledger.reserve(&feed(C, 0, &alike)).expect("room");
    ledger.commit(C);
    // A has C's first block now, and its second one, which is B's too, continues it.
    ledger.publish(C);
    ledger.publish(A);
    ledger.release(C, Keep::Nothing);
    ledger.cut(A, 5);
    fed(&mut ledger, C, &[1]);
    ledger.park(C);
    assert_eq!(fed(&mut ledger, A, &[2]).copy.map(|copy| copy.positions), Some(5));
    assert_eq!(ledger.resume(C), 0);
}

#[test]
fn a_parked_twin_does_not_keep_a_journey_from_going_on() {
    let mut ledger = KvLedger::new(1);
    fed(&mut ledger, A, &text(0..5));
    ledger.fork(A, B);
    ledger.park(B);
    assert_eq!(fed(&mut ledger, A, &[1]), Reservation { adopted: 0, copy: None });
    assert_eq!((ledger.resume(B), ledger.held(A)), (0, 6));
}

#[test]
fn a_ledger_without_any_block_refuses_and_does_nothing_else() {
    let mut ledger = KvLedger::new(0);
    assert_eq!(ledger.reserve(&feed(A, 0, &[1])), Err(Refused::NoRoom { needed: 1, obtainable: 0 }));
    ledger.commit(A);
    ledger.publish(A);
    ledger.fork(A, B);
    ledger.park(A);
    ledger.release(A, Keep::Prefix);
    ledger.clear_prefixes();
    assert_eq!((ledger.resume(A), ledger.usage()), (0, Usage::default()));
}
