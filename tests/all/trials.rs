//! What authors try their policies with: it passes ours, and finds what is wrong with others.

use policy::{Call, Limits, PolicyHost};
use tokenrouter::runtime::builtin_policies;
use tokenrouter::trial::compare::compare;
use tokenrouter::trial::conformance::{CASES, Verdict, run};

use super::guest::{Guest, answer, words};

fn verdicts(component: &[u8]) -> Vec<Verdict> {
    run(component, &Limits::default(), |_| {}).expect("it can be loaded")
}

/// The cases that a guest fails, and why.
fn failed(guest: &Guest) -> Vec<(&'static str, String)> {
    let verdicts = verdicts(&guest.component());
    assert_eq!(verdicts.len(), CASES.len());
    verdicts.into_iter().filter_map(|Verdict { case, outcome }| Some((case, outcome.err()?))).collect()
}

#[track_caller]
fn assert_fails(call: Call, code: &str, case: &str) {
    let failed = failed(&roomy().always(call, code));
    assert!(failed.iter().any(|(name, _)| *name == case), "{case} finds nothing: {failed:?}");
}

/// The guest of the tests, which frees nothing, with memory for all that is tried.
fn roomy() -> Guest {
    Guest::good().put("(export \"memory\") 4", "(export \"memory\") 256")
}

#[test]
fn our_policies_stand_everything() {
    for (name, component) in builtin_policies() {
        for Verdict { case, outcome } in verdicts(component) {
            assert!(outcome.is_ok(), "{name}, {case}: {outcome:?}");
        }
    }
}

#[test]
fn a_good_guest_stands_everything() {
    let stays = "(if (local.get $role) (then (return (i32.const 16))))";
    assert_eq!(failed(&roomy().always(Call::Route, stays)), []);
}

#[test]
fn each_case_finds_what_it_looks_for() {
    // Stays at every other step of the instance, whoever's it is.
    let counting =
        "(return (select (i32.const 16) (i32.const 128) (i32.and (global.get $steps) (i32.const 1))))";
    assert_fails(Call::Route, counting, "interleaved sessions do not meet");
    // Hands off at every token, wherever it is, and drops it.
    let both = words(8192, &[1, 1, 0, 0, 0]) + &words(8256, &[1, 0, 0, 0, 0]);
    let there = "(return (select (i32.const 8192) (i32.const 8256) (i32.eqz (local.get $role))))";
    assert_fails(Call::Route, &(both + there), "no handoff without progress");
    let at_the_edge = "(if (i32.eq (local.get $token) (i32.const -1)) (then (unreachable)))";
    assert_fails(Call::Route, at_the_edge, "extreme inputs are survived");
    // Hands off to role 1 wherever it is asked.
    assert_fails(Call::Route, "", "extreme inputs are survived");
    let leak = "(if (i32.eqz (i32.and (global.get $steps) (i32.const 63))) (then (drop (memory.grow (i32.const 1)))))";
    assert_fails(Call::Start, leak, "memory over 10,000 sessions");
    // About 1.2 million units a call.
    let spin = "(local.set $run (i32.const 200000)) (loop $again (br_if $again \
        (local.tee $run (i32.sub (local.get $run) (i32.const 1)))))";
    assert_fails(Call::Route, spin, "fuel of a call");
}

#[test]
fn two_components_are_told_apart_by_what_they_decide() {
    let host = PolicyHost::new(Limits::default()).expect("a runtime");
    let load = |guest: &Guest| host.load(&guest.component()).expect("it is good");
    let (good, same) = (load(&roomy()), load(&roomy().put("i32.const 65536", "i32.const 66000")));
    let found = compare(&good, &same).expect("it reaches the end");
    assert!(found.differences.is_empty() && found.tokens > 200 && found.handoffs > 50, "{found:?}");
    // A visit for every token of the entry model.
    let visit = format!("(if (i32.eqz (local.get $role)) (then {}))", answer(&[1, 1, 1, 0, 0]));
    let found = compare(&good, &load(&roomy().always(Call::Route, &visit))).expect("the first is good");
    assert_eq!(found.differences.len(), 3, "{found:?}");
    assert!(found.differences[0].contains("Stay against Handoff"), "{found:?}");
}
