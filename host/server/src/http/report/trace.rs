//! Who made each token: the extension that a client asks for with `route_trace: true`.
//!
//! The texts of the traced tokens are the visible ones, so that, joined, they are the answer.

use journey::{Made, Proposal, Vocabulary};
use serde_json::{Value, json};

use crate::runtime::Route;

/// What is the same for all tokens.
#[derive(Debug)]
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
}

/// One committed token.
pub(super) fn token(made: &Made, route: &Route, vocabulary: &Vocabulary) -> Value {
    let signals = made.sampled.signals;
    let proposal = |proposal: &Proposal| {
        json!({
            "model": route.model_names[proposal.by.index()],
            "token": proposal.token,
            "text": String::from_utf8_lossy(vocabulary.bytes(proposal.token)),
            "entropy": proposal.entropy,
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
