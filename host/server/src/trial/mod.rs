//! Tries a policy out without models: whole journeys over toy models, scripted or recorded steps, and what any policy
//! must be able to stand.
//!
//! For authors of policies, through `tokenrouter policy`; the server itself needs nothing of it. What decides is asked
//! through [`Decider`], so that a session, two sessions that must agree, or a double of the tests can take its place.

#[cfg(unix)]
pub mod child;
pub mod compare;
pub mod conformance;
mod recorded;
mod steps;
mod toy;
mod travel;

use std::collections::BTreeMap;
use std::sync::Arc;

use journey::JourneyId;
use policy::{ModelInfo, PolicyError, Revision, Session, Start};

pub use recorded::{Line, LineError, accepted, asked, shown};
pub use travel::{Decider, Fault, Heard, Said, Trip};

/// A session for a trial.
///
/// # Errors
/// What the policy did wrong, or a setting that it does not allow.
pub fn session(revision: &Arc<Revision>, given: &Given<'_>) -> Result<Session, PolicyError> {
    let prompt = PROMPT.get(..revision.descriptor().prompt).unwrap_or(PROMPT);
    revision.session(Start {
        journey: JourneyId(given.seed),
        tenant: given.tenant,
        models: (0..given.models).map(model).collect(),
        settings: revision.settings(given.settings)?,
        prompt_tokens: toy::PROMPT.len() as u32,
        max_tokens: TOKENS as u32,
        prompt: prompt.to_owned(),
        seed: given.seed,
    })
}

/// What one trial differs in from another.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Parameters that are not at their defaults.
    pub settings: &'a BTreeMap<String, f64>,
    /// Of the route.
    pub models: usize,
    /// Of the journey and of the toy models.
    pub seed: u64,
    /// Different ones never share an instance.
    pub tenant: u64,
}

/// An error with those of its causes that say more than it does.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !message.contains(&told) {
            message = format!("{message}: {told}");
        }
        cause = error.source();
    }
    message
}

/// Most models that a route with this policy may have: every role that a parameter may name is then there.
#[must_use]
pub fn models_most(revision: &Revision) -> usize {
    let allowed = &revision.descriptor().models;
    MODELS.clamp(*allowed.start(), *allowed.end())
}

fn model(role: usize) -> ModelInfo {
    ModelInfo { name: format!("toy-{role}"), vocabulary: toy::VOCABULARY, context: toy::CONTEXT as u32 }
}

/// Models of a route, where a policy leaves the choice.
const MODELS: usize = 16;
/// Most tokens of an answer.
const TOKENS: usize = 150;
const PROMPT: &str = "How many seconds are there in a day?";
