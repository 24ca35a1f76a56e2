//! The longest wait, where nothing but the cap on it ends the wait.
//!
//! Over random graphs (`liveness.rs`) answers end soon, and with them every wait. Here the others never leave the feeder,
//! so that it always looks as if more were about to come.

use journey::JourneyId;
use scheduler::Member;
use scheduler::conductor::{Conductor, Decision, Fate, MemberSettings, Settings, Source, Step};
use scheduler::law::{Load, StepLaw};

const FEEDER: Member = Member(0);
const LARGE: Member = Member(1);

/// Two models of which the larger one is believed to be visited after every third token.
fn conductor(devices: [usize; 2]) -> Conductor {
    let member = |device, fixed_s| MemberSettings {
        device,
        rows_max: usize::MAX,
        law: StepLaw::affine(fixed_s, fixed_s / 200.0),
    };
    let mut settings = Settings::learning(vec![member(devices[0], 1.0), member(devices[1], 20.0)]);
    settings.beliefs = Source::Told(vec![vec![0.0, 0.35], vec![1.0, 0.0]]);
    settings.overlap = Some(1.0);
    Conductor::new(settings)
}

/// Seconds until the large model goes with one journey, while the seven others decode at the feeder and stay.
fn waited_s(conductor: &mut Conductor, give_up_s: f64) -> Option<f64> {
    let others: Vec<JourneyId> = (1..8).map(JourneyId).collect();
    let load = Load::decoding(others.len());
    let stay: Vec<(JourneyId, Fate)> = others.iter().map(|id| (*id, Fate::Stays { token: true })).collect();
    for id in &others {
        conductor.arrived(*id, FEEDER, 0.0, None);
    }
    conductor.arrived(JourneyId(0), LARGE, 0.0, Some(1));
    conductor.recompute();
    let mut now_s = 0.0;
    while now_s < give_up_s {
        // Asked between two steps of the feeder, as it happens where every model has a thread of its own.
        if conductor.decide(LARGE, now_s) == Decision::Go {
            return Some(now_s);
        }
        assert_eq!(conductor.decide(FEEDER, now_s), Decision::Go, "there is nobody to wait for");
        conductor.began(FEEDER, now_s, Step { rows: &others, load });
        now_s += 1.0 + 7.0 / 200.0;
        conductor.ended(FEEDER, now_s, &stay);
        conductor.recompute();
    }
    None
}

#[test]
fn a_journey_that_nobody_joins_is_served_after_the_longest_wait() {
    for devices in [[0, 1], [0, 0]] {
        let mut conductor = conductor(devices);
        let waited_s = waited_s(&mut conductor, 10_000.0).expect("it is served at last");
        let plan = conductor.plan().expect("what was told is enough for a plan");
        assert!(plan.batch[LARGE.0] > 1, "nothing was delayed: {plan:?}");
        // A step of the feeder may be under way when the wait is over.
        assert!(waited_s <= plan.wait_max_s + 1.1, "{waited_s} s of {} s", plan.wait_max_s);
        assert!(waited_s > 20.0, "the threshold was not kept: {waited_s} s");
    }
}

/// Whoever is left goes at once when those who were waited for are gone, also before a plan for the rest is made.
#[test]
fn who_remains_does_not_wait_for_those_who_left() {
    for devices in [[0, 1], [0, 0]] {
        let mut conductor = conductor(devices);
        for id in 0..8 {
            conductor.arrived(JourneyId(id), FEEDER, 0.0, None);
        }
        conductor.recompute();
        conductor.arrived(JourneyId(0), LARGE, 1.0, Some(1));
        assert_ne!(conductor.decide(LARGE, 1.0), Decision::Go, "it waits for the others");
        (1..8).for_each(|id| conductor.gone(JourneyId(id)));
        assert_eq!(conductor.decide(LARGE, 1.0), Decision::Go, "nobody can come");
    }
}
