//! Who made each token: the extension that a client asks for with `route_trace: true`.
//!
//! The texts of the traced tokens are the visible ones, so that, joined, they are the answer.

use journey::{Fired, Guard, Made, Proposal, Signal, Trigger, Vocabulary};
use serde_json::{Value, json};

use crate::runtime::Route;

/// What is the same for all tokens.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    /// Name of the route.
    pub(super) route: String,
    /// Name of its policy; none for a single model.
    pub(super) policy: Option<String>,
    /// Digest of the policy's revision, which the answer keeps to its end.
    pub(super) revision: Option<String>,
    /// The experiment on the route, and the arm of it that serves the answer.
    pub(super) arm: Option<(String, String)>,
    /// The values of the policy's parameters; a share that was asked for is a threshold here.
    pub(super) settings: Option<Value>,
    /// When its policy is asked, with the limits that hold for this answer.
    pub(super) guards: Vec<Guard>,
    /// Key of the answer's randomness.
    pub(super) seed: u64,
    /// Why the answer goes on without its policy.
    pub(super) fell_back: Option<String>,
}

impl Trace {
    /// The object beside the choices, with the tokens that it is about.
    pub(super) fn object(&self, tokens: Vec<Value>) -> Value {
        let mut object = json!({
            "route": self.route,
            "policy": self.policy,
            "revision": self.revision,
            "experiment": self.arm.as_ref().map(|(experiment, _)| experiment),
            "arm": self.arm.as_ref().map(|(_, arm)| arm),
            "settings": self.settings,
            "seed": self.seed,
            "fell_back": self.fell_back,
        });
        object["tokens"] = tokens.into();
        object
    }

    /// One committed token.
    pub(super) fn token(&self, made: &Made, route: &Route, vocabulary: &Vocabulary) -> Value {
        let signals = made.sampled.signals;
        let proposal = |proposal: &Proposal| {
            json!({
                "model": route.model_names[proposal.by.index()],
                "token": proposal.token,
                "text": String::from_utf8_lossy(vocabulary.bytes(proposal.token)),
                "entropy": proposal.signals.entropy,
                "top1": proposal.signals.top1,
                "margin": proposal.signals.margin,
                "why": proposal.fired.and_then(|fired| self.why(fired)),
            })
        };
        json!({
            "token": made.sampled.token,
            "text": made.text,
            "model": route.model_names[made.by.index()],
            "entropy": signals.entropy,
            "top1": signals.top1,
            "margin": signals.margin,
            "logprob": made.sampled.logprob,
            "proposal": made.proposal.as_ref().map(proposal),
        })
    }

    /// The guard that fired: a signal's value and its limit, or what the token was.
    fn why(&self, Fired { guard, value }: Fired) -> Option<Value> {
        Some(match &self.guards.get(guard as usize)?.fires {
            Trigger::Above(signal, limit) => {
                json!({"signal": name(*signal), "value": value, "above": limit})
            }
            Trigger::Below(signal, limit) => {
                json!({"signal": name(*signal), "value": value, "below": limit})
            }
            Trigger::Text(text) => json!({ "text": text }),
            Trigger::AfterText(text) => json!({ "after_text": text }),
            Trigger::Start => json!({"at": "start"}),
            Trigger::End => json!({"at": "end"}),
        })
    }
}

/// A signal as the trace calls it.
fn name(signal: Signal) -> String {
    match signal {
        Signal::Entropy => "entropy".to_owned(),
        Signal::EntropyNorm => "entropy_norm".to_owned(),
        Signal::Top1 => "top1".to_owned(),
        Signal::Margin => "margin".to_owned(),
        Signal::Logprob => "logprob".to_owned(),
        Signal::Score(index) => format!("score_{index}"),
    }
}
