//! Sessions that share an instance: nobody notices, whatever one of them does.

use std::sync::Arc;
use std::thread;

use journey::{Decision, Handoff, Role};
use policy::{Call, Fault, Isolation, Limits, PolicyError, PolicyHost, Revision, Session, Start};

use crate::guest::{Guest, LOOP, TRAP};
use crate::support::{arming, host_with, start, sure};

/// A guest whose sessions number their steps: the handle of a session is an address, where its steps are counted, and
/// every step hands off for as many tokens as there were steps. One page of memory is enough for every test.
fn counting() -> Guest {
    let count = "(i32.store (local.get $self) (i32.add (i32.load (local.get $self)) (i32.const 1))) \
        (i32.store (i32.const 136) (i32.load (local.get $self)))";
    let begin = "(global.set $free (i32.add (global.get $free) (i32.const 8)))";
    Guest::good()
        .put("(call $new (i32.const 1))", "(call $new (i32.sub (global.get $free) (i32.const 8)))")
        .always(Call::Start, begin)
        .put("@ROUTE@", &format!("{count} @ROUTE@ (return (i32.const 128))"))
}

fn one_shard() -> Limits {
    Limits { sessions: 64, shards: 1, ..Limits::default() }
}

fn begin(revision: &Arc<Revision>, tenant: u64) -> Session {
    revision.session(Start { tenant, ..start(revision) }).expect("a session starts")
}

/// The number of the step, as the guest counts it.
fn counted(session: &mut Session) -> u32 {
    match session.route(10, &sure()).expect("it decides") {
        Decision::Handoff(Handoff { to: Role(1), run: Some(run), .. }) => run.get(),
        other => panic!("{other:?}"),
    }
}

fn traps(session: &mut Session) {
    let error = session.route(10, &arming()).expect_err("it is armed");
    assert_eq!(error.fault(), Fault::Policy, "{error}");
}

fn armed(host: &PolicyHost, code: &str) -> Arc<Revision> {
    host.load(&counting().armed(Call::Route, code).component()).expect("it misbehaves only when armed")
}

#[test]
fn sessions_of_a_tenant_share_and_tenants_do_not() {
    let host = host_with(one_shard());
    let revision = host.load(&counting().component()).unwrap();
    let mut sessions: Vec<Session> = (0..10).map(|index| begin(&revision, index % 2)).collect();
    assert_eq!(revision.health().instances, 2);
    for step in 1..5 {
        assert!(sessions.iter_mut().all(|session| counted(session) == step), "each counts its own");
    }
}

#[test]
fn strict_isolation_shares_nothing() {
    let host = host_with(Limits { isolation: Isolation::Journey, ..one_shard() });
    let revision = armed(&host, TRAP);
    let mut sessions: Vec<Session> = (0..3).map(|_| begin(&revision, 7)).collect();
    assert_eq!(revision.health().instances, 0);
    traps(&mut sessions[0]);
    assert_eq!((counted(&mut sessions[1]), counted(&mut sessions[2])), (1, 1));
    assert_eq!(revision.health().sessions_restored, 0);
}

#[test]
fn a_trap_of_one_session_leaves_the_state_of_the_others_exact() {
    for code in [TRAP, LOOP] {
        let host = host_with(one_shard());
        let revision = armed(&host, code);
        let mut sessions: Vec<Session> = (0..4).map(|_| begin(&revision, 1)).collect();
        for _ in 0..100 {
            sessions.iter_mut().for_each(|session| assert!(counted(session) > 0));
        }
        let mut failing = sessions.remove(1);
        traps(&mut failing);
        assert!(sessions.iter_mut().all(|session| counted(session) == 101));
        assert!(sessions.iter_mut().all(|session| counted(session) == 102));
        let health = revision.health();
        assert_eq!((health.sessions_restored, health.sessions_restarted, health.failures), (3, 0, 1));
        assert_eq!(health.instances, 1, "the lost instance is gone with its last session");
        let error = failing.route(11, &sure()).expect_err("it ended");
        assert!(matches!(error, PolicyError::SessionEnded { .. }), "{error}");
    }
}

#[test]
fn restored_sessions_draw_the_same_numbers() {
    // The handoff is for as many tokens as a running sum of drawn numbers, in thousandths.
    let draw = "(i32.store (local.get $self) (i32.add (i32.load (local.get $self)) \
        (i32.trunc_f64_u (f64.mul (call $uniform) (f64.const 1000))))) ";
    let host = host_with(one_shard());
    let guest = counting().put("@ROUTE@", &format!("{draw} @ROUTE@")).armed(Call::Route, TRAP);
    let revision = host.load(&guest.component()).unwrap();
    let (mut lost, mut oracle) = (begin(&revision, 1), begin(&revision, 2));
    for _ in 0..50 {
        assert_eq!(counted(&mut lost), counted(&mut oracle));
    }
    traps(&mut begin(&revision, 1));
    assert_eq!(counted(&mut lost), counted(&mut oracle));
    assert_eq!(revision.health().sessions_restored, 1);
}

#[test]
fn what_cannot_be_restored_begins_anew_and_is_counted() {
    let host = host_with(Limits { record_bytes: 1000, ..one_shard() });
    let revision = armed(&host, TRAP);
    let mut session = begin(&revision, 1);
    for _ in 0..100 {
        counted(&mut session);
    }
    traps(&mut begin(&revision, 1));
    assert_eq!(counted(&mut session), 1, "its state is lost");
    let health = revision.health();
    assert_eq!((health.sessions_restored, health.sessions_restarted), (0, 1));
    traps(&mut begin(&revision, 1));
    assert_eq!(counted(&mut session), 2, "what it did since then is restored");
}

#[test]
fn a_costly_restoration_is_given_up() {
    // About 12,000 units of fuel a step of 2,000 runs; a restoration may take 10 times 100,000.
    let spin = "(loop $again (br_if $again (i32.gt_s (local.tee $run (i32.sub (local.get $run) (i32.const 1))) (i32.const 0))))";
    let host = host_with(Limits { fuel_per_call: 100_000, ..one_shard() });
    let revision = host
        .load(&counting().put("@ROUTE@", &format!("{spin} @ROUTE@")).armed(Call::Route, TRAP).component())
        .unwrap();
    let mut session = begin(&revision, 1);
    let mut step = sure();
    step.run = 2000;
    for position in 0..200 {
        session.route(position, &step).expect("within its budget");
    }
    traps(&mut begin(&revision, 1));
    assert_eq!(counted(&mut session), 1);
    assert_eq!(revision.health().sessions_restarted, 1);
}

#[test]
fn a_tenant_that_fails_again_is_set_apart_and_others_are_not() {
    let host = host_with(one_shard());
    let revision = armed(&host, TRAP);
    let mut other = begin(&revision, 2);
    let mut session = begin(&revision, 1);
    for _ in 0..2 {
        counted(&mut session);
        traps(&mut begin(&revision, 1));
    }
    assert_eq!(counted(&mut session), 3);
    assert_eq!(revision.health().tenants_apart, 1);
    let restored = revision.health().sessions_restored;
    traps(&mut begin(&revision, 1));
    assert_eq!(counted(&mut session), 4);
    assert_eq!(revision.health().sessions_restored, restored, "in its own instance nobody disturbs it");
    assert_eq!(counted(&mut other), 1);
}

#[test]
fn a_destructor_that_traps_is_a_failure_like_any() {
    let host = host_with(one_shard());
    let guest = counting()
        .always(Call::End, "(if (i32.eq (i32.load (local.get $self)) (i32.const 2)) (then (unreachable)))");
    let revision = host.load(&guest.component()).unwrap();
    let (mut other, mut failing) = (begin(&revision, 1), begin(&revision, 1));
    assert_eq!((counted(&mut other), counted(&mut failing), counted(&mut failing)), (1, 1, 2));
    drop(failing);
    let health = revision.health();
    assert_eq!(health.failures, 1);
    assert!(health.last_error.is_some_and(|error| error.contains("session destructor")));
    assert_eq!(counted(&mut other), 2);
}

#[test]
fn an_instance_that_grew_takes_no_new_sessions() {
    let host = host_with(Limits { memory_bytes: 1 << 20, ..one_shard() });
    let guest =
        counting().armed(Call::Route, "(drop (memory.grow (i32.const 9))) (global.set $armed (i32.const 0))");
    let revision = host.load(&guest.component()).unwrap();
    let mut large = begin(&revision, 1);
    large.route(10, &arming()).expect("13 pages of 64 KiB of a MiB");
    let _next = begin(&revision, 1);
    assert_eq!(revision.health().instances, 2);
    drop(large);
    assert_eq!(revision.health().instances, 1);
}

#[test]
fn an_instance_is_replaced_before_it_leaks_too_much() {
    // This guest never frees anything, and 256 KiB are too few for this many sessions.
    let host = host_with(Limits { sessions_served_most: 100, ..one_shard() });
    let revision = host.load(&counting().component()).unwrap();
    for _ in 0..5000 {
        assert_eq!(counted(&mut begin(&revision, 1)), 1);
    }
    let health = revision.health();
    assert_eq!((health.failures, health.calls), (0, 5000));
    assert!(health.instances <= 1);
}

#[test]
fn any_number_of_tenants_may_come() {
    let host = host_with(one_shard());
    let revision = host.load(&counting().component()).unwrap();
    for tenant in 0..500 {
        assert_eq!(counted(&mut begin(&revision, tenant)), 1);
    }
    let waiting = revision.health().instances;
    assert!((1..=32).contains(&waiting), "{waiting} instances wait");
    let mut last = begin(&revision, 499);
    assert_eq!((counted(&mut last), revision.health().instances), (1, waiting), "the latest one's is there");
    let all: Vec<Session> = (1000..1063).map(|tenant| begin(&revision, tenant)).collect();
    assert_eq!(all.len() + 1, 64, "instances that wait take no place from sessions");
}

#[test]
fn sessions_are_used_from_many_threads_at_once() {
    let host = host_with(Limits { shards: 2, ..one_shard() });
    let revision = armed(&host, TRAP);
    thread::scope(|scope| {
        for thread in 0..4 {
            let revision = &revision;
            scope.spawn(move || {
                for _ in 0..5 {
                    let mut sessions: Vec<Session> = (0..4).map(|_| begin(revision, 1)).collect();
                    for step in 1..50 {
                        assert!(sessions.iter_mut().all(|session| counted(session) == step));
                    }
                    if thread == 0 && revision.health().failures < 3 {
                        traps(&mut sessions[0]);
                    }
                }
            });
        }
    });
    let health = revision.health();
    assert_eq!((health.failures, health.sessions_restarted), (3, 0));
    assert!(health.instances <= 8, "no more wait than were in use at the same time");
}

#[test]
fn a_revision_that_keeps_failing_gets_no_new_sessions() {
    let host = host_with(one_shard());
    let revision = armed(&host, TRAP);
    let mut survivor = begin(&revision, 1);
    (0..5).for_each(|tenant| traps(&mut begin(&revision, tenant)));
    let error = revision.session(start(&revision)).expect_err("five failures are too many");
    let named =
        matches!(&error, PolicyError::BreakerOpen { failures: 5, last, .. } if last.contains("trapped"));
    assert!(named, "{error}");
    assert_eq!((error.cause(), error.fault()), ("breaker_open", Fault::Policy));
    assert!(matches!(revision.health().state, policy::HealthState::Open { .. }));
    assert_eq!(counted(&mut survivor), 1, "journeys that began before go on");
}

#[test]
fn a_probing_session_closes_the_breaker_or_opens_it_again() {
    use policy::{BreakerRule, HealthState};
    let rest = std::time::Duration::ZERO;
    let breaker = BreakerRule { rest_least: rest, rest_most: rest, ..BreakerRule::default() };
    let host = host_with(Limits { breaker, ..one_shard() });
    let revision = armed(&host, TRAP);
    (0..5).for_each(|tenant| traps(&mut begin(&revision, tenant)));
    let mut probe = begin(&revision, 1);
    assert_eq!(revision.health().state, HealthState::Probing);
    assert!(revision.session(start(&revision)).is_err(), "one probes at a time");
    traps(&mut probe);
    assert!(matches!(revision.health().state, HealthState::Open { .. }));
    drop(begin(&revision, 1));
    assert!(matches!(revision.health().state, HealthState::Open { .. }), "it never called");
    let mut probe = begin(&revision, 1);
    (1..=16).for_each(|step| assert_eq!(counted(&mut probe), step));
    assert_eq!(revision.health().state, HealthState::Closed);
}
