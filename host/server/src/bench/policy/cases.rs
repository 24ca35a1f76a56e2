//! The cases.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;

use journey::{
    Adjustments, Candidate, Consult, Decision, Effect, Ends, Handoff, Journey, JourneyId, Request, Role,
    Routing, Sampled, Sampling, Signals, Step, Vocabulary,
};
use policy::{PolicyError, Revision, Session};

use super::{Goals, Row, measure, start};

/// The entropy rule as a closure behind a pointer: the floor.
pub(super) fn native(begins: &mut impl FnMut(&str)) -> Row {
    begins(NATIVE);
    let visit = Handoff::new(Role(1), NonZeroU32::new(1));
    let rule = move |step: &Step| {
        if step.sampled.signals.entropy > 0.4 { Decision::Handoff(visit.clone()) } else { Decision::Stay }
    };
    let mut decide: Box<dyn FnMut(&Step) -> Decision> = Box::new(rule);
    let step = step(0);
    measure(NATIVE.to_owned(), None, || {
        black_box(decide(black_box(&step)));
    })
}

/// A token through the journey: without a policy, and with a guard that does not fire.
pub(super) fn guarded(
    revision: &Arc<Revision>,
    begins: &mut impl FnMut(&str),
) -> Result<[Row; 2], PolicyError> {
    let rules = revision.descriptor().rules(&revision.settings(&BTreeMap::new())?);
    let mut row = |case: &str, routing: Routing| {
        begins(case);
        let mut journey = journey(&routing);
        let sampled =
            Sampled { signals: Signals { entropy: 0.1, ..step(0).sampled.signals }, ..step(0).sampled };
        measure(case.to_owned(), None, || {
            let count = journey.pending().1.len();
            journey.fed(count);
            let settled = journey.hold(black_box(sampled.clone()));
            black_box(journey.take_output());
            if settled != Consult::Settled(Effect::Decode) {
                journey = self::journey(&routing);
            }
        })
    };
    Ok([row(UNROUTED, Routing::Single), row(GUARDED, Routing::Policy(Arc::new(rules)))])
}

/// A guest's calls.
pub(super) fn guest(
    name: &str,
    revision: &Arc<Revision>,
    goals: &Goals,
    begins: &mut impl FnMut(&str),
) -> Result<[Row; 4], PolicyError> {
    let mut called = |what: &str| {
        let case = format!("{name}: {what}");
        begins(&case);
        case
    };
    let begin = start(revision)?;
    let mut session = revision.session(begin.clone())?;
    let (scalars, candidates) = (step(0), step(20));
    // What a guest does wrong shows here, not in the middle of a measurement.
    session.route(POSITION, &scalars)?;
    session.route(POSITION, &candidates)?;
    let mut route = |case: String, goal: Option<f64>, step: &Step| {
        measure(case, goal, || {
            black_box(session.route(POSITION, black_box(step)).expect(SERVES));
        })
    };
    let alone = route(called("route"), goals.route, &scalars);
    let seeing = route(called("route, 20 candidates"), goals.candidates, &candidates);
    let mut crowd =
        (0..CROWD).map(|_| revision.session(begin.clone())).collect::<Result<Vec<Session>, _>>()?;
    let mut next = 0;
    let many = measure(called("route, 64 sessions in turn"), goals.crowd, || {
        next = (next + 1) % crowd.len();
        black_box(crowd[next].route(POSITION, black_box(&scalars)).expect(SERVES));
    });
    let sessions = measure(called("session, start and end"), goals.session, || {
        black_box(revision.session(begin.clone()).expect(SERVES));
    });
    Ok([alone, seeing, many, sessions])
}

fn journey(routing: &Routing) -> Journey {
    let vocabulary = Arc::new(Vocabulary::new(vec![Box::from(*b"word"); 64]));
    Journey::new(
        JourneyId(1),
        Request {
            prompt: vec![1, 2, 3],
            sampling: Sampling::GREEDY,
            adjustments: Adjustments::default(),
            seed: 1,
            ends: Ends::default(),
            grammar: None,
            max_tokens: TOKENS,
            context: TOKENS * 2,
            score_prompt: false,
            encoder: Arc::clone(&vocabulary) as _,
            vocabulary,
            candidates: 0,
            roles: 2,
            routing: routing.clone(),
        },
    )
}

/// An unsure step of the entry model: what the entropy rule hands off.
fn step(candidates: u32) -> Step {
    let candidate = |rank| Candidate { token: rank, logit: 10.0 - rank as f32, prob: 0.05 };
    Step {
        index: 3,
        run: 3,
        role: Role::ENTRY,
        at_eos: false,
        fired: Some(0),
        sampled: Sampled {
            token: 17,
            logprob: -0.9,
            signals: Signals { entropy: 1.3, top1: 0.4, margin: 0.1 },
            candidates: (0..candidates).map(candidate).collect(),
            ..Sampled::default()
        },
        tail: String::new(),
        answers: Vec::new(),
    }
}

const NATIVE: &str = "native closure";
const UNROUTED: &str = "journey, a token without a policy";
const GUARDED: &str = "journey, a guard that does not fire";
const CROWD: usize = 64;
const POSITION: u64 = 10;
/// Tokens after which a journey of the guard's case begins anew.
const TOKENS: usize = 4096;
/// A failed call would be measured as a fast one.
const SERVES: &str = "the component answered the same before";
