//! Guests that fail in the middle of a journey: that journey's session ends, and nothing else does.

use std::num::NonZeroU32;
use std::sync::Arc;

use journey::{Accept, Decision, Handoff, Offer, Parcel, Role};
use policy::{Call, Fault, Limits, PolicyError, Revision, Session};

use crate::guest::{Guest, HOARD, LOOP, RECURSE, SHOUT, TRAP};
use crate::support::{arming, host, host_with, session, start, sure, unmetered, unsure};

const VISIT: Handoff = Handoff::new(Role(1), NonZeroU32::new(1));

fn offer() -> Offer {
    crate::support::offer(Role(1), &[5, 6])
}

/// Arms the guest and makes the call; the error is the call's.
fn provoke(session: &mut Session, call: Call) -> PolicyError {
    if call == Call::Route {
        return session.route(10, &arming()).expect_err("the guest is armed");
    }
    assert_eq!(
        session.route(10, &arming()).expect("only the later call misbehaves"),
        Decision::Handoff(VISIT)
    );
    if call == Call::Send {
        return session.send(10, &VISIT).expect_err("the guest is armed");
    }
    assert_eq!(
        session.send(10, &VISIT).expect("only the later call misbehaves"),
        Parcel { keep_held: false }
    );
    session.receive(10, &offer()).expect_err("the guest is armed")
}

/// A session of the same revision that must not notice anything.
fn works(session: &mut Session) {
    assert_eq!(session.route(10, &sure()).expect("another session goes on"), Decision::Stay);
    assert_eq!(session.route(11, &unsure()).expect("another session goes on"), Decision::Handoff(VISIT));
    assert_eq!(session.send(11, &VISIT).expect("another session goes on"), Parcel { keep_held: false });
    assert_eq!(session.receive(11, &offer()).expect("another session goes on"), Accept::Take(2));
}

fn loaded(call: Call, code: &str) -> Arc<Revision> {
    host().load(&Guest::good().armed(call, code).component()).expect("it misbehaves only when armed")
}

#[test]
fn each_failure_has_its_class_and_ends_one_session_only() {
    for call in [Call::Route, Call::Send, Call::Receive] {
        let cases = [
            (TRAP, "trap"),
            (LOOP, "out_of_fuel"),
            (HOARD, "out_of_memory"),
            (RECURSE, "trap"),
            (SHOUT, "bad_answer"),
        ];
        for (code, cause) in cases {
            let revision = loaded(call, code);
            let mut other = session(&revision);
            works(&mut other);
            let mut failing = session(&revision);
            let error = provoke(&mut failing, call);
            assert_eq!(error.cause(), cause, "{error}");
            assert_eq!(error.fault(), Fault::Policy);
            assert!(error.to_string().contains(&format!("calling `{call}`")), "{error}");
            works(&mut other);
        }
    }
}

#[test]
fn a_failed_session_is_never_entered_again() {
    let revision = loaded(Call::Route, TRAP);
    let mut session = session(&revision);
    provoke(&mut session, Call::Route);
    let ended = |error: PolicyError, asked: Call| {
        let named =
            matches!(error, PolicyError::SessionEnded { call, ended_by: Call::Route } if call == asked);
        assert!(named, "{error}");
    };
    ended(session.route(11, &sure()).expect_err("it ended"), Call::Route);
    ended(session.send(11, &VISIT).expect_err("it ended"), Call::Send);
    ended(session.receive(11, &offer()).expect_err("it ended"), Call::Receive);
}

#[test]
fn a_bad_answer_ends_the_session() {
    let revision = loaded(Call::Route, "(return (i32.const 192))");
    let mut session = session(&revision);
    let error = provoke(&mut session, Call::Route);
    assert!(matches!(error, PolicyError::BadAnswer { call: Call::Route, .. }), "{error}");
    assert_eq!(session.route(11, &sure()).expect_err("it ended").cause(), "session_ended");
}

#[test]
fn a_failing_constructor_fails_its_own_journey() {
    for (code, cause) in [(TRAP, "trap"), (LOOP, "out_of_fuel"), (HOARD, "out_of_memory")] {
        let revision = loaded(Call::Start, code);
        let mut begin = start(&revision);
        begin.max_tokens = 666;
        let error = revision.session(begin).expect_err("the constructor is armed");
        assert_eq!(error.cause(), cause, "{error}");
        works(&mut session(&revision));
    }
}

#[test]
fn the_clock_stops_what_fuel_would_let_run() {
    let component = Guest::good().armed(Call::Route, LOOP).component();
    let revision = unmetered().load(&component).expect("it misbehaves only when armed");
    let mut other = session(&revision);
    let error = provoke(&mut session(&revision), Call::Route);
    assert!(matches!(error, PolicyError::Deadline { call: Call::Route, .. }), "{error}");
    works(&mut other);
}

#[test]
fn a_budget_is_per_call_and_not_per_session() {
    // About 6,000 units of fuel a call: far below the limit, far above it in a thousand calls.
    let spin = "(loop $again (br_if $again (i32.gt_s (local.tee $run (i32.sub (local.get $run) (i32.const 1))) (i32.const 0))))";
    let revision =
        host().load(&Guest::good().always(Call::Route, spin).component()).expect("it is within the budget");
    let mut session = session(&revision);
    let mut step = sure();
    step.run = 1000;
    for position in 0..1000 {
        assert_eq!(session.route(position, &step).expect("every call has its own budget"), Decision::Stay);
    }
}

#[test]
fn a_used_up_host_says_its_number_and_recovers() {
    let host = host_with(Limits { sessions: 3, ..Limits::default() });
    let revision = host.load(&Guest::good().armed(Call::Route, TRAP).component()).expect("it is good");
    let mut taken: Vec<Session> = (0..3).map(|_| session(&revision)).collect();
    let error = revision.session(start(&revision)).expect_err("three is all");
    assert!(matches!(error, PolicyError::SessionsExhausted { sessions: 3 }), "{error}");
    assert_eq!(error.fault(), Fault::Ours);
    host.load(&Guest::good().component()).expect("loading never waits for a journey");
    provoke(&mut taken[0], Call::Route);
    drop(revision.session(start(&revision)).expect("a failed session gives its place back"));
    taken.pop();
    drop(revision.session(start(&revision)).expect("an ended session gives its place back"));
}

#[test]
fn a_flood_of_log_lines_is_harmless() {
    let flood = "(loop $again (call $log (i32.const 2048) (i32.const 5)) \
        (br_if $again (i32.gt_s (local.tee $run (i32.sub (local.get $run) (i32.const 1))) (i32.const 0))))";
    let revision = host().load(&Guest::good().armed(Call::Route, flood).component()).expect("it is good");
    let mut step = arming();
    step.run = 10_000;
    assert_eq!(session(&revision).route(10, &step).expect("lines are dropped"), Decision::Handoff(VISIT));
}

#[test]
fn log_lines_of_a_call_have_a_bound_together() {
    let flood = "(loop $again (call $log (i32.const 131072) (i32.const 100000)) (br $again))";
    let revision = host().load(&Guest::good().armed(Call::Route, flood).component()).expect("it is good");
    let error = session(&revision).route(10, &arming()).expect_err("a line of 100 kB goes ten times");
    assert!(matches!(error, PolicyError::BadAnswer { call: Call::Route, .. }), "{error}");
    assert!(error.to_string().contains("logs too much"), "{error}");
}
