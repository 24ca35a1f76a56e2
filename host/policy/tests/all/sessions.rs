//! What a well-behaved policy gets: its settings, its models, its random numbers, its candidates.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use journey::random::{Purpose, uniform};
use journey::{Candidate, Decision, Handoff, Role};
use policy::{Call, Digest, PolicyError, Revision, Session};

use crate::guest::Guest;
use crate::support::{host, model, session, start, sure};

fn is_send<T: Send>() {}

#[test]
fn sessions_can_move_between_threads() {
    is_send::<Session>();
    is_send::<Arc<Revision>>();
}

#[test]
fn a_revision_is_named_by_its_bytes() {
    let component = Guest::good().component();
    let revision = host().load(&component).unwrap();
    assert_eq!(revision.digest(), Digest::of(&component));
    assert_eq!(session(&revision).revision().digest(), revision.digest());
}

#[test]
fn numbers_depend_on_seed_position_and_count_only() {
    // Hands off to role 1 for as many tokens as the number drawn, in millionths; a second number is drawn and dropped.
    let draw = "(i32.store (i32.const 136) (i32.trunc_f64_u (f64.mul (call $uniform) (f64.const 1000000)))) \
        (drop (call $uniform)) (return (i32.const 128))";
    let revision = host().load(&Guest::good().always(Call::Route, draw).component()).unwrap();
    let drawn = |session: &mut Session, position| match session.route(position, &sure()).unwrap() {
        Decision::Handoff(handoff) => handoff.run.map_or(0, NonZeroU32::get),
        other => panic!("{other:?}"),
    };
    let expected = |position, index| (uniform(42, position, Purpose::Policy, index) * 1e6) as u32;
    let mut first = session(&revision);
    assert_eq!(drawn(&mut first, 10), expected(10, 0));
    assert_eq!(drawn(&mut first, 10), expected(10, 2), "numbers at one position are counted on");
    assert_eq!(drawn(&mut first, 11), expected(11, 0));
    let mut second = session(&revision);
    assert_eq!(drawn(&mut second, 11), expected(11, 0), "another session of the same seed draws the same");
}

#[test]
fn candidates_arrive_in_order() {
    // Hands off for as many tokens as the id of the third candidate says.
    // Lists are put where the guest says, each as the address of its elements and their number: the tokens first.
    let third = "(call $candidates (i32.const 264)) (if (i32.ge_u (i32.load (i32.const 268)) (i32.const 3)) (then \
        (i32.store (i32.const 136) (i32.load offset=8 (i32.load (i32.const 264)))) (return (i32.const 128))))";
    let revision = host().load(&Guest::good().always(Call::Route, third).component()).unwrap();
    let mut session = session(&revision);
    for count in [20, 3, 0, 5] {
        let mut step = sure();
        let candidate = |rank: u32| Candidate { token: 100 + rank, logit: -1.0, prob: 0.1 };
        step.sampled.candidates = (0..count).map(candidate).collect();
        let expected = match count {
            0 => Decision::Stay,
            _ => Decision::Handoff(Handoff::new(Role(1), NonZeroU32::new(102))),
        };
        assert_eq!(session.route(10, &step).unwrap(), expected);
    }
}

#[test]
fn a_step_of_another_role_may_come_home() {
    let home = "(if (i32.eq (local.get $role) (i32.const 1)) (then (return (i32.const 160))))";
    let revision = host().load(&Guest::good().always(Call::Route, home).component()).unwrap();
    let mut step = sure();
    step.role = Role(1);
    let home = Decision::Handoff(Handoff::new(Role(0), NonZeroU32::new(1)));
    assert_eq!(session(&revision).route(10, &step).unwrap(), home);
}

#[test]
fn a_route_must_fit_the_descriptor() {
    let revision = host().load(&Guest::good().component()).unwrap();
    let mut begin = start(&revision);
    begin.models = ["a", "b", "c"].map(model).into();
    let error = revision.session(begin).expect_err("the guest serves two models");
    assert_eq!(
        error.to_string(),
        "starting a session of policy guest: the route has 3 models, the policy needs 2 to 2"
    );
}

#[test]
fn settings_belong_to_the_revision_that_checked_them() {
    let one = host().load(&Guest::good().component()).unwrap();
    let other = host().load(&Guest::good().always(Call::Route, "(nop)").component()).unwrap();
    let mut begin = start(&one);
    begin.settings = other.settings(&BTreeMap::new()).unwrap();
    let error = one.session(begin).expect_err("the settings are of another revision");
    assert!(matches!(error, PolicyError::ForeignSettings { .. }), "{error}");
}
