//! Models come and go while the group runs: what stays is undisturbed.

use journey::JourneyId;
use scheduler::Member;
use scheduler::conductor::{Conductor, Decision, Fate, MemberSettings, Mode, Seated, Settings, Step};
use scheduler::law::{Load, StepLaw};

const SMALL: Member = Member(0);
const LARGE: Member = Member(1);

fn member(fixed_s: f64) -> MemberSettings {
    MemberSettings { device: 0, rows_max: 8, law: StepLaw::affine(fixed_s, 0.01) }
}

fn seated(before: Option<usize>, fixed_s: f64) -> Seated {
    Seated { before: before.map(Member), settings: member(fixed_s) }
}

fn load(rows: usize) -> Load {
    Load { rows, tokens: rows, context: 100 * rows }
}

/// One journey that decodes at the small model and goes to the large one at every fourth token, and back after one.
fn travelled(steps: usize) -> (Conductor, f64) {
    let mut conductor = Conductor::new(Settings::learning(vec![member(1.0), member(5.0)]));
    let (journey, mut now_s) = (JourneyId(1), 0.0);
    conductor.arrived(journey, SMALL, now_s, None);
    for step in 0..steps {
        let at = if step % 5 == 4 { LARGE } else { SMALL };
        assert_eq!(conductor.decide(at, now_s), Decision::Go);
        conductor.began(at, now_s, Step { rows: &[journey], load: load(1) });
        now_s += if at == SMALL { 1.0 } else { 5.0 };
        let fate = match step % 5 {
            3 => Fate::Leaves { to: LARGE, token: true },
            4 => Fate::Leaves { to: SMALL, token: true },
            _ => Fate::Stays { token: true },
        };
        conductor.ended(at, now_s, &[(journey, fate)]);
        if let Fate::Leaves { to, .. } = fate {
            conductor.arrived(journey, to, now_s, None);
        }
    }
    (conductor, now_s)
}

fn beliefs(conductor: &Conductor, at: [usize; 2]) -> String {
    let beliefs = conductor.beliefs();
    let of = |from: usize, to: usize| {
        let (from, to) = (Member(from), Member(to));
        format!("{:?} {} {}", beliefs.law(from), beliefs.share(from, to), beliefs.is_timed(from))
    };
    format!("{} | {}", of(at[0], at[1]), of(at[1], at[0]))
}

#[test]
fn a_model_that_comes_and_goes_leaves_no_trace() {
    let (mut conductor, now_s) = travelled(100);
    let before = beliefs(&conductor, [0, 1]);
    conductor.recompute();
    assert!(conductor.plan().is_some());
    conductor.reseat(vec![seated(None, 9.0), seated(Some(0), 1.0), seated(Some(1), 5.0)], Mode::Ours);
    assert_eq!(beliefs(&conductor, [1, 2]), before);
    assert_eq!([0, 1, 2].map(|at| conductor.ready(Member(at))), [0, 1, 0]);
    assert_eq!(conductor.decide(Member(1), now_s), Decision::Go);
    conductor.reseat(vec![seated(Some(1), 1.0), seated(Some(2), 5.0)], Mode::Ours);
    assert_eq!(beliefs(&conductor, [0, 1]), before);
    assert_eq!((conductor.ready(SMALL), conductor.journeys()), (1, 1));
}

#[test]
fn a_step_that_runs_ends_under_its_new_number() {
    let (mut conductor, now_s) = travelled(100);
    conductor.began(SMALL, now_s, Step { rows: &[JourneyId(1)], load: load(1) });
    conductor.reseat(vec![seated(Some(1), 5.0), seated(Some(0), 1.0)], Mode::Ours);
    assert!(matches!(conductor.decide(Member(1), now_s), Decision::Wait { .. }));
    conductor.ended(Member(1), now_s + 1.0, &[(JourneyId(1), Fate::Stays { token: true })]);
    assert_eq!((conductor.ready(Member(1)), conductor.ready(Member(0))), (1, 0));
    assert_eq!(conductor.decide(Member(1), now_s + 1.0), Decision::Go);
}

#[test]
fn journeys_of_a_model_that_goes_are_gone_and_others_stay() {
    let (mut conductor, now_s) = travelled(100);
    conductor.arrived(JourneyId(2), LARGE, now_s, None);
    conductor.reseat(vec![seated(Some(0), 1.0)], Mode::Ours);
    assert_eq!((conductor.journeys(), conductor.ready(SMALL)), (1, 1));
    assert_eq!(conductor.decide(SMALL, now_s), Decision::Go);
}

#[test]
fn a_plan_for_other_models_is_not_taken_in() {
    let (mut conductor, _) = travelled(100);
    let planner = conductor.planner();
    conductor.reseat(vec![seated(Some(1), 5.0), seated(Some(0), 1.0)], Mode::Ours);
    conductor.adopt(planner.make());
    assert!(conductor.plan().is_none());
    conductor.adopt(conductor.planner().make());
    assert!(conductor.plan().is_some());
}
