//! The committed components decide as the same policies do natively, call for call.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use journey::random::{Purpose, uniform};
use journey::{Accept, Decision, Handoff, Parcel, Role, Sampled, Signals, Step};
use policy::{Revision, Start};
use policy_sdk::Session as _;

use crate::support::{host, offer, start};

const SEED: u64 = 7;
const STEPS: u64 = 400;

fn prebuilt(name: &str) -> Arc<Revision> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/prebuilt");
    let component = fs::read(folder.join(name).with_extension("wasm")).expect("the component is committed");
    host().load(&component).expect("the committed component serves")
}

/// Drives both through one journey and compares every answer.
fn compare<P: policy_sdk::Policy>(name: &str, given: &[(&str, f64)]) -> usize {
    let revision = prebuilt(name);
    assert_eq!(revision.descriptor().name, name);
    let given_map = given.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect::<BTreeMap<_, _>>();
    let settings = revision.settings(&given_map).expect("the settings are allowed");
    let mut wasm = revision.session(Start { settings, seed: SEED, ..start(&revision) }).expect("it starts");
    let mut native = P::start(policy_sdk::testing::start::<P>(given));
    let position = draw_natively();
    let mut here = Role::ENTRY;
    let mut handoffs = 0;
    for index in 0..STEPS {
        position.set((index, 0));
        let step = scripted(index, here);
        let decision = wasm.route(index, &step).expect("it decides");
        let twin = native.route(&shown(&step));
        assert_eq!(decision, converted(twin), "{name} {given:?} at step {index}");
        let Decision::Handoff(handoff) = decision else { continue };
        handoffs += 1;
        let to = u32::from(handoff.to.0);
        let told = policy_sdk::Handoff::new(to, handoff.run.map_or(0, std::num::NonZeroU32::get));
        // A policy that does not want to be asked drops the held token.
        let sends = revision.descriptor().sends;
        let keep_held = sends && native.send(told).keep_held;
        assert_eq!(wasm.send(index, &handoff).expect("it sends"), Parcel { keep_held });
        let offer = offer(handoff.to, &[3, 4, 5]);
        let taken = wasm.receive(index, &offer).expect("it receives");
        let twin = native.receive(&policy_sdk::testing::offer(to, &[3, 4, 5]));
        let policy_sdk::Accept::Take(take) = twin else { panic!("{name} answers {twin:?}") };
        assert_eq!(taken, Accept::Take(take as usize));
        if handoff.run.is_none() {
            here = handoff.to;
        }
    }
    handoffs
}

/// Answers `host::uniform` natively with the numbers that the host gives; the position is set through the cell.
fn draw_natively() -> Rc<Cell<(u64, u32)>> {
    let position = Rc::new(Cell::new((0, 0)));
    let shared = Rc::clone(&position);
    policy_sdk::testing::set_uniform(move || {
        let (at, count) = shared.get();
        shared.set((at, count + 1));
        uniform(SEED, at, Purpose::Policy, count)
    });
    position
}

/// A step whose signals swing over their whole ranges.
fn scripted(index: u64, role: Role) -> Step {
    let number = |which| uniform(1, index, Purpose::Sample, which) as f32;
    let signals = Signals { entropy: 2.0 * number(0) * number(1), top1: number(2), margin: number(3) };
    Step {
        index: index as u32,
        run: index as u32 % 9,
        role,
        at_eos: index % 50 == 49,
        fired: None,
        sampled: Sampled { token: index as u32, logprob: -number(4), signals, ..Sampled::default() },
        tail: String::new(),
        answers: Vec::new(),
    }
}

fn shown(step: &Step) -> policy_sdk::Step {
    let Step { index, run, role, at_eos, sampled, .. } = step;
    policy_sdk::Step {
        index: *index,
        run: *run,
        role: u32::from(role.0),
        token: sampled.token,
        at_eos: *at_eos,
        logprob: sampled.logprob,
        entropy: sampled.signals.entropy,
        top1: sampled.signals.top1,
        margin: sampled.signals.margin,
        ..policy_sdk::testing::step(*index)
    }
}

fn converted(decision: policy_sdk::Decision) -> Decision {
    match decision {
        policy_sdk::Decision::Stay => Decision::Stay,
        policy_sdk::Decision::Finish => Decision::Finish,
        policy_sdk::Decision::HandOff(policy_sdk::Handoff { to, tokens, until }) => {
            assert!(until.is_empty(), "{until:?}");
            let to = Role(u16::try_from(to).expect("a native twin answers roles"));
            Decision::Handoff(Handoff::new(to, std::num::NonZeroU32::new(tokens)))
        }
        other => panic!("no twin here answers {other:?}"),
    }
}

#[test]
fn entropy_decides_as_its_twin() {
    assert!(compare::<entropy::Entropy>("entropy", &[]) > 20);
    assert!(compare::<entropy::Entropy>("entropy", &[("threshold", 1.2), ("tokens", 4.0)]) > 5);
    assert!(compare::<entropy::Entropy>("entropy", &[("tokens", 0.0)]) > 20);
}

#[test]
fn margin_decides_as_its_twin() {
    assert!(compare::<margin::Margin>("margin", &[]) > 200);
    assert!(compare::<margin::Margin>("margin", &[("threshold", 0.1), ("tokens", 3.0)]) > 10);
}

#[test]
fn pinned_decides_as_its_twin() {
    assert_eq!(compare::<pinned::Pinned>("pinned", &[]), 0);
    assert_eq!(compare::<pinned::Pinned>("pinned", &[("role", 1.0)]), 1);
}

#[test]
fn random_share_decides_as_its_twin_and_keeps_its_share() {
    let handoffs = compare::<random_share::RandomShare>("random-share", &[("share", 0.25)]);
    // 400 draws at 0.25: 100 on average, standard deviation 8.7. The seed is fixed.
    assert!((70..130).contains(&handoffs), "{handoffs}");
    assert_eq!(compare::<random_share::RandomShare>("random-share", &[("share", 0.0)]), 0);
    assert_eq!(compare::<random_share::RandomShare>("random-share", &[("share", 1.0)]), STEPS as usize);
}
