//! Guests that grow what they have, or what they answer, beyond all measure.

use journey::Decision;
use policy::{Call, PolicyError};

use crate::guest::{Guest, TRAP, answer, words};
use crate::support::{arming, host, session, sure};

/// Grows the table until it is refused.
const TABLE_BOMB: &str =
    "(loop $more (br_if $more (i32.ne (table.grow (ref.null func) (i32.const 1000)) (i32.const -1))))";

fn with_table(code: &str) -> Vec<u8> {
    let guest = Guest::good().put("(global $free", "(table 10 funcref) (global $free");
    guest.armed(Call::Route, code).component()
}

/// What a guest does when it is armed.
fn provoked(component: &[u8]) -> Result<Decision, PolicyError> {
    let revision = host().load(component).expect("it misbehaves only when armed");
    let mut other = session(&revision);
    let said = session(&revision).route(10, &arming());
    assert_eq!(other.route(10, &sure()).expect("another session goes on"), Decision::Stay);
    said
}

/// The cause and the message of what it does wrong.
fn fault(code: &str) -> (&'static str, String) {
    let error = provoked(&Guest::good().armed(Call::Route, code).component()).expect_err("it is armed");
    (error.cause(), error.to_string())
}

#[test]
fn a_table_grows_to_its_bound_and_the_guest_is_told() {
    let bound = host().limits().table_elements;
    // Whoever is refused and goes on has done nothing wrong.
    assert!(provoked(&with_table(TABLE_BOMB)).is_ok());
    let size = format!("{TABLE_BOMB} (if (i32.gt_u (table.size) (i32.const {bound})) (then {TRAP}))");
    assert!(provoked(&with_table(&size)).is_ok(), "the table is larger than {bound} elements");
}

#[test]
fn a_list_that_is_not_in_memory_is_refused() {
    // A handoff with 2^30 conditions, from the last byte of the memory on.
    let (cause, message) = fault(&answer(&[1, 1, 1, 262_143, 1 << 30]));
    assert_eq!(cause, "bad_answer", "{message}");
}

#[test]
fn lists_in_answers_have_bounds() {
    // 2000 conditions of 20 bytes each are there, all zeros: `above` entropy 0.
    let (cause, message) = fault(&answer(&[1, 1, 1, 8192, 2000]));
    assert_eq!(cause, "bad_answer", "{message}");
    assert!(message.contains("2000 conditions, at most"), "{message}");
    // A question to 10,000 models.
    let (cause, message) = fault(&answer(&[3, 8192, 10_000, 0, 0, 0, 0, 5]));
    assert_eq!(cause, "bad_answer", "{message}");
    assert!(message.contains("10000 models in a question, at most"), "{message}");
    // A rewriting that adds 200,000 tokens.
    let grown = format!("(drop (memory.grow (i32.const 16))) {}", answer(&[5, 1, 0, 8192, 200_000, 0, 0, 0]));
    let (cause, message) = fault(&grown);
    assert_eq!(cause, "bad_answer", "{message}");
}

#[test]
fn what_is_larger_than_an_answer_may_be_is_never_copied() {
    // A question with 60 MB of side text.
    let grown =
        format!("(drop (memory.grow (i32.const 900))) {}", answer(&[3, 8192, 1, 8192, 58_000_000, 0, 0, 5]));
    let (cause, message) = fault(&grown);
    assert_eq!(cause, "bad_answer", "{message}");
    assert!(message.contains("larger than 1048576 bytes"), "{message}");
}

#[test]
fn a_number_that_is_none_is_refused() {
    // A visit until the entropy is above what is not a number.
    let code = format!("{} {}", words(8192, &[0, 0, 0x7FC0_0000, 0, 0]), answer(&[1, 1, 1, 8192, 1]));
    let (cause, message) = fault(&code);
    assert_eq!(cause, "bad_answer", "{message}");
    assert!(message.contains("no number"), "{message}");
}
