//! Reloading for ever must not grow the process.

use std::fs;
use std::sync::Arc;

use journey::{JourneyId, Role, Sampled, Step};
use policy::{Limits, ModelInfo, PolicyHost, Revision, Start};

use crate::guest::Guest;

pub(crate) fn five_hundred_reloads_leave_nothing_behind() {
    let host = PolicyHost::new(Limits { sessions: 1, ..Limits::default() }).expect("a host");
    let component = Guest::good().component();
    let reload = |number: u32| {
        let revision = host.load(&marked(&component, number)).expect("it serves");
        let mut session = revision.session(start(&revision)).expect("it starts");
        session.route(10, &step()).expect("it decides");
        revision
    };
    // The allocator takes what it keeps, and each of the pool's 70 slots its two maps.
    let mut serving = reload(0);
    for number in 1..100 {
        serving = reload(number);
    }
    let (memory, maps) = (resident_bytes(), maps());
    for number in 100..600 {
        serving = reload(number);
    }
    let (memory_after, maps_after) = (resident_bytes(), self::maps());
    assert!(memory_after < memory + (20 << 20), "{memory} bytes became {memory_after}");
    assert!(maps_after < maps + 20, "{maps} maps became {maps_after}");
    drop(serving);
}

/// The component with a custom section that makes it another one.
fn marked(component: &[u8], number: u32) -> Vec<u8> {
    let mut marked = component.to_vec();
    // Section 0 of nine bytes: a name of four, and the number.
    marked.extend([0, 9, 4, b'm', b'a', b'r', b'k']);
    marked.extend(number.to_le_bytes());
    marked
}

fn start(revision: &Arc<Revision>) -> Start {
    let model = |name: &str| ModelInfo { name: name.to_owned(), vocabulary: 1000, context: 4096 };
    Start {
        journey: JourneyId(1),
        tenant: 1,
        models: ["small", "large"].map(model).into(),
        settings: revision.settings(&Default::default()).expect("the defaults are allowed"),
        prompt_tokens: 10,
        max_tokens: 100,
        prompt: String::new(),
        seed: 42,
    }
}

fn step() -> Step {
    Step {
        index: 0,
        run: 0,
        role: Role::ENTRY,
        at_eos: false,
        fired: None,
        sampled: Sampled::default(),
        tail: String::new(),
        answers: Vec::new(),
    }
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

fn maps() -> usize {
    fs::read_to_string("/proc/self/maps").expect("Linux tells it").lines().count()
}
