//! Unit tests of policies, without Wasm: scripted steps in, decisions out.
//!
//! [`Journey`] plays the host: it fills in the defaults, keeps the order of calls, and fails a test where the real host
//! would refuse an answer.
//!
//! ```
//! use policy_sdk::testing::{Journey, step};
//! # use policy_sdk::{Decision, Descriptor, Policy, Session, Start, Step};
//! # struct Doubt;
//! # impl Policy for Doubt {
//! #     type Session = Self;
//! #     fn describe() -> Descriptor { Descriptor::new("doubt", "") }
//! #     fn start(_: Start) -> Self { Self }
//! # }
//! # impl Session for Doubt {
//! #     fn route(&mut self, step: &Step) -> Decision {
//! #         if step.top1 < 0.5 { Decision::hand_off(1, 1) } else { Decision::Stay }
//! #     }
//! # }
//! let mut journey = Journey::<Doubt>::begin(&[]);
//! assert_eq!(journey.route(&step(0)), Decision::Stay);
//! assert_eq!(journey.route(&Step { top1: 0.3, ..step(1) }), Decision::hand_off(1, 1));
//! ```

use std::cell::RefCell;

use crate::{
    Accept, Adoption, Answer, Candidate, Decision, Draft, Ended, Found, Guard, Handoff, Limit, ModelInfo,
    Next, Offer, Parcel, Policy, Rewrite, Role, Session, Settings, Signal, Start, Step, Trigger,
};

/// A journey under a policy, for tests: of two models, or of as near to two as the policy allows.
pub struct Journey<P: Policy> {
    session: P::Session,
    models: u32,
    guards: Vec<Guard>,
    settings: Settings,
}

impl<P: Policy> Journey<P> {
    /// Begins with these settings and the declared defaults for the rest.
    ///
    /// # Panics
    /// When a setting is not declared or is out of its range.
    #[must_use]
    pub fn begin(settings: &[(&str, f64)]) -> Self {
        Self::of(start::<P>(settings))
    }

    /// Begins with what [`start`] made, changed.
    #[must_use]
    pub fn of(start: Start) -> Self {
        let models = start.models;
        let (guards, settings) = (P::describe().guards, start.settings.clone());
        Self { session: P::start(start), models, guards, settings }
    }

    /// Asks where the journey begins, as the host does if the policy wants to be asked.
    ///
    /// # Panics
    /// When the route does not have that model.
    pub fn enter(&mut self) -> Role {
        let role = self.session.enter();
        self.check(&[role]);
        role
    }

    /// Asks `route` where a guard of the role fires, or where it has none; elsewhere the host commits the token. The
    /// answer's text is the step's `tail`; the held token has none, so a guard for a text that it completes fires where
    /// the step's `fired` says so.
    ///
    /// # Panics
    /// When the answer cannot be followed.
    pub fn route(&mut self, step: &Step) -> Decision {
        let mut step = step.clone();
        if step.fired.is_none() && step.answers.is_empty() {
            let fired =
                self.guards.iter().position(|guard| guard.role == step.role && self.fires(guard, &step));
            step.fired = fired.map(|index| index as u32);
            if fired.is_none() && self.guards.iter().any(|guard| guard.role == step.role) {
                return Decision::Stay;
            }
        }
        let step = &step;
        let decision = self.session.route(step);
        match &decision {
            Decision::HandOff(handoff)
            | Decision::Rewrite(Rewrite { then: Next::HandOff(handoff), .. })
            | Decision::Adopt(Adoption { then: Next::HandOff(handoff), .. }) => {
                self.check(&[handoff.to]);
                assert_ne!(handoff.to, step.role, "handoff to where the journey already is");
            }
            Decision::Mix(mixture) => {
                let roles: Vec<Role> = mixture.parts.iter().map(|part| part.role).collect();
                assert!(P::describe().distributions, "a mixture needs distributions");
                self.check(&roles);
            }
            Decision::Consult(question) => self.check(&question.models),
            Decision::Rewrite(rewrite) => {
                assert!(rewrite.drop <= P::describe().holdback, "what the client has seen is dropped");
            }
            Decision::Stay | Decision::Finish | Decision::Adopt(_) => {}
        }
        decision
    }

    fn check(&self, roles: &[Role]) {
        let unknown = roles.iter().find(|role| **role >= self.models);
        assert_eq!(unknown, None, "of a route of {} models", self.models);
    }

    fn fires(&self, guard: &Guard, step: &Step) -> bool {
        let value = |limit: &Limit| {
            let value = self.settings.value(&limit.parameter);
            value.expect("a guard compares with a declared parameter") as f32
        };
        match &guard.fires {
            Trigger::Above(limit) => signal(step, limit.signal) > value(limit),
            Trigger::Below(limit) => signal(step, limit.signal) < value(limit),
            Trigger::AfterText(text) => step.index == 0 || step.tail.ends_with(text.as_str()),
            Trigger::Text(_) => false,
            Trigger::Start => step.index == 0,
            Trigger::End => step.at_eos,
        }
    }

    /// Asks `send`, as the host does right after a `route` that hands off.
    pub fn send(&mut self, handoff: Handoff) -> Parcel {
        self.session.send(handoff)
    }

    /// Asks `receive`, as the host does when a bounded visit has ended.
    ///
    /// # Panics
    /// When more is taken than was offered, or a model is asked that is not there.
    pub fn receive(&mut self, offer: &Offer) -> Accept {
        let accept = self.session.receive(offer);
        match &accept {
            Accept::Take(take) => {
                assert!(*take as usize <= offer.tokens.len(), "{take} taken of {}", offer.tokens.len());
            }
            Accept::Consult(question) => self.check(&question.models),
            Accept::Verify(_) => {}
        }
        accept
    }

    /// Asks `route` about each step.
    pub fn decisions(&mut self, steps: &[Step]) -> Vec<Decision> {
        steps.iter().map(|step| self.route(step)).collect()
    }
}

/// What the host would start a journey with: these settings, defaults for the rest, and two models, or as near to two as
/// the policy allows.
///
/// # Panics
/// When a setting is not declared or is out of its range.
#[must_use]
pub fn start<P: Policy>(settings: &[(&str, f64)]) -> Start {
    let descriptor = P::describe();
    let models = 2.clamp(descriptor.models_least, descriptor.models_most);
    let declared = descriptor.parameters;
    for (key, value) in settings {
        let parameter = declared.iter().find(|parameter| parameter.key == *key);
        let parameter = parameter.unwrap_or_else(|| panic!("parameter {key} is not declared"));
        assert!((parameter.least..=parameter.most).contains(value), "{key} = {value} is out of range");
    }
    let given = |key: &str| settings.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let values = declared.iter().map(|parameter| given(&parameter.key).unwrap_or(parameter.default));
    Start {
        models,
        context: CONTEXT,
        settings: Settings { keys: keys::<P>(), values: values.collect() },
        prompt_tokens: 16,
        max_tokens: 256,
        prompt: String::new(),
    }
}

/// A step of the entry model that is sure of its token: entropy 0.01 nats, top probability 0.99. Change what matters
/// by struct update.
#[must_use]
pub fn step(index: u32) -> Step {
    Step {
        index,
        run: index,
        role: 0,
        token: 100 + index,
        at_eos: false,
        fired: None,
        logprob: -0.01,
        entropy: 0.01,
        top1: 0.99,
        margin: 0.98,
        scores: Vec::new(),
        candidates: Vec::new(),
        tail: String::new(),
        answers: Vec::new(),
    }
}

fn signal(step: &Step, signal: Signal) -> f32 {
    let score = |head: usize| step.scores.get(head).copied().unwrap_or(f32::NAN);
    match signal {
        Signal::Entropy => step.entropy,
        Signal::EntropyNorm => step.entropy / (VOCABULARY as f32).ln(),
        Signal::Top1 => step.top1,
        Signal::Margin => step.margin,
        Signal::Logprob => step.logprob,
        Signal::Score0 => score(0),
        Signal::Score1 => score(1),
        Signal::Score2 => score(2),
        Signal::Score3 => score(3),
    }
}

/// A visit of `source` that brought these tokens.
#[must_use]
pub fn offer(source: u32, tokens: &[u32]) -> Offer {
    Offer {
        source,
        tokens: tokens.to_vec(),
        logprobs: vec![-0.1; tokens.len()],
        text: String::new(),
        why: Ended::Length,
        answers: Vec::new(),
    }
}

/// One model's answer, as a step or an offer shows it.
#[must_use]
pub fn answers(role: Role, found: Found) -> Vec<Answer> {
    vec![Answer { role, found }]
}

/// A continuation with this text; every token has this log-probability.
#[must_use]
pub fn draft(text: &str, logprob: f32) -> Draft {
    let tokens: Vec<u32> = (0..text.len().max(1) as u32).collect();
    Draft { logprobs: vec![logprob; tokens.len()], tokens, text: text.to_string(), why: Ended::Answer }
}

/// Candidates with these probabilities, tokens 0, 1, 2 and so on.
#[must_use]
pub fn candidates(probs: &[f32]) -> Vec<Candidate> {
    let candidate = |(token, prob): (usize, &f32)| Candidate {
        token: token as u32,
        logit: libm::logf(*prob),
        prob: *prob,
    };
    probs.iter().enumerate().map(candidate).collect()
}

/// Answers [`host::uniform`](crate::host::uniform) on this thread from now on.
pub fn set_uniform(next: impl FnMut() -> f64 + 'static) {
    UNIFORM.with(|double| *double.borrow_mut() = Some(Box::new(next)));
}

/// What [`host::log`](crate::host::log) was given on this thread since the last call.
#[must_use]
pub fn take_logs() -> Vec<String> {
    LOGS.take()
}

pub(crate) fn next_uniform() -> f64 {
    UNIFORM.with(|double| {
        let mut double = double.borrow_mut();
        let next = double.as_mut().expect("a test of a policy that draws calls testing::set_uniform first");
        next()
    })
}

pub(crate) fn keep_log(message: &str) {
    LOGS.with(|logs| logs.borrow_mut().push(message.to_string()));
}

/// The keys of a policy's parameters. They live as long as the tests do.
pub(crate) fn keys<P: Policy>() -> &'static [String] {
    P::describe().parameters.into_iter().map(|parameter| parameter.key).collect::<Vec<_>>().leak()
}

pub(crate) fn models() -> Vec<ModelInfo> {
    let model = |role| ModelInfo { name: format!("test-{role}"), vocabulary: VOCABULARY, context: CONTEXT };
    (0..2).map(model).collect()
}

const VOCABULARY: u32 = 1000;
const CONTEXT: u32 = 4096;

type Uniform = Box<dyn FnMut() -> f64>;

thread_local! {
    static UNIFORM: RefCell<Option<Uniform>> = const { RefCell::new(None) };
    static LOGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What `view` shows on this thread when the border itself is tested; see [`session`](crate::Session).
pub(crate) mod view {
    use std::cell::RefCell;

    use crate::{Answer, Candidates, Offer};

    thread_local! {
        static OFFER: RefCell<Option<Offer>> = const { RefCell::new(None) };
    }

    #[cfg(test)]
    pub(crate) fn offer(offer: &Offer) {
        OFFER.with(|shown| *shown.borrow_mut() = Some(offer.clone()));
    }

    fn of<T: Default>(look: impl FnOnce(&Offer) -> T) -> T {
        OFFER.with(|shown| shown.borrow().as_ref().map_or_else(T::default, look))
    }

    pub(crate) fn prompt() -> String {
        String::new()
    }

    pub(crate) fn candidates() -> Candidates {
        Candidates { tokens: Vec::new(), logits: Vec::new(), probs: Vec::new() }
    }

    pub(crate) fn scores() -> Vec<f32> {
        Vec::new()
    }

    pub(crate) fn tail() -> String {
        String::new()
    }

    pub(crate) fn answers() -> Vec<Answer> {
        Vec::new()
    }

    pub(crate) fn tokens() -> Vec<u32> {
        of(|offer| offer.tokens.clone())
    }

    pub(crate) fn logprobs() -> Vec<f32> {
        of(|offer| offer.logprobs.clone())
    }

    pub(crate) fn text() -> String {
        of(|offer| offer.text.clone())
    }
}
