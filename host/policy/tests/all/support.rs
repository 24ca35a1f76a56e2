//! A host, a journey and its steps, for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use journey::{Ended, JourneyId, Offer, Role, Sampled, Signals, Step};
use policy::{Limits, ModelInfo, PolicyHost, Revision, Session, Start};

/// A host with the default limits, shared by the tests.
pub(crate) fn host() -> &'static Arc<PolicyHost> {
    static HOST: OnceLock<Arc<PolicyHost>> = OnceLock::new();
    HOST.get_or_init(|| host_with(Limits { sessions: 64, ..Limits::default() }))
}

/// A host where only the clock can stop a guest.
pub(crate) fn unmetered() -> &'static Arc<PolicyHost> {
    static HOST: OnceLock<Arc<PolicyHost>> = OnceLock::new();
    HOST.get_or_init(|| {
        host_with(Limits {
            sessions: 16,
            fuel_per_call: u64::MAX / 2,
            fuel_at_start: u64::MAX / 2,
            fuel_per_session: u64::MAX / 2,
            deadline: Duration::from_millis(200),
            deadline_at_start: Duration::from_millis(500),
            ..Limits::default()
        })
    })
}

pub(crate) fn host_with(limits: Limits) -> Arc<PolicyHost> {
    Arc::new(PolicyHost::new(limits).expect("the runtime can be set up"))
}

/// A journey of two models with default settings.
pub(crate) fn start(revision: &Revision) -> Start {
    Start {
        journey: JourneyId(1),
        tenant: 0,
        models: ["small", "large"].map(model).into(),
        settings: revision.settings(&BTreeMap::new()).expect("the defaults are allowed"),
        prompt_tokens: 10,
        max_tokens: 100,
        prompt: String::new(),
        seed: 42,
    }
}

pub(crate) fn session(revision: &Arc<Revision>) -> Session {
    revision.session(start(revision)).expect("a session starts")
}

pub(crate) fn model(name: &str) -> ModelInfo {
    ModelInfo { name: name.to_owned(), vocabulary: 1000, context: 4096 }
}

/// A step of the entry model.
pub(crate) fn step(token: u32, entropy: f32) -> Step {
    let signals = Signals { entropy, top1: 0.9, margin: 0.85 };
    Step {
        index: 0,
        run: 0,
        role: Role::ENTRY,
        at_eos: false,
        fired: None,
        sampled: Sampled { token, logprob: -0.1, signals, ..Sampled::default() },
        tail: String::new(),
        answers: Vec::new(),
    }
}

/// What a visit brought.
pub(crate) fn offer(from: Role, tokens: &[u32]) -> Offer {
    Offer {
        from,
        tokens: tokens.to_vec(),
        logprobs: vec![-0.5; tokens.len()],
        text: String::new(),
        why: Ended::Length,
        answers: Vec::new(),
    }
}

/// A sure step: good guests stay.
pub(crate) fn sure() -> Step {
    step(1, 0.1)
}

/// A step on which `guest.wat` hands off.
pub(crate) fn unsure() -> Step {
    step(1, 5.0)
}

/// An unsure step that arms a guest which misbehaves only then.
pub(crate) fn arming() -> Step {
    step(666, 5.0)
}
