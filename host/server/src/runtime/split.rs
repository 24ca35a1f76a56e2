//! A route that an experiment divides between arms: each arm is a route of its own, bound like any other.
//!
//! Nothing beyond the choice of the arm knows of experiments: a request gets one [`Route`], and what follows is as always.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use experiment::definition::{Arm, Sticky};
use experiment::{Assigner, Experiment};
use journey::Signal;
use policy::{Descriptor, Fires};

use super::catalog::{Catalog, Route};
use super::share::{Knob, LLM_SHARE};
use crate::config::{self, PolicySource};

/// A route's arms, and who gets which. It never changes: another takes its place.
pub struct Split {
    /// The experiment, as it stands.
    pub experiment: Experiment,
    /// Which of the experiments that had this name it is.
    pub begun_unix_ms: u64,
    /// Gives keys their arms.
    pub assigner: Assigner,
    /// The arms, in the order of the definition.
    pub arms: Vec<SplitArm>,
    /// The shadow arms, in the order of the definition; nobody is served by them.
    pub shadows: Vec<SplitArm>,
    /// The route that it divides.
    pub(super) base: Arc<Route>,
}

/// What serves a part of a route's requests.
pub struct SplitArm {
    /// Its name.
    pub name: Arc<str>,
    /// What serves it: for an arm without differences the route itself.
    pub route: Arc<Route>,
}

/// An experiment that cannot be put in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct SplitError {
    /// The key of the experiment that is in the way, as `arms.NAME.models`.
    pub key: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl Split {
    /// What keeps its arm.
    #[must_use]
    pub fn sticky(&self) -> &Sticky {
        &self.experiment.definition.sticky
    }

    /// Its experiment's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.experiment.definition.name
    }

    /// All arms, shadows too.
    pub(super) fn served(&self) -> impl Iterator<Item = &SplitArm> {
        self.arms.iter().chain(&self.shadows)
    }

    /// What serves an arm already that is written alike over the same route; what another route of the name leads to may be
    /// another policy.
    pub(super) fn same(&self, arm: &Arm, written: &config::Route, base: &Arc<Route>) -> Option<&SplitArm> {
        let definition = &self.experiment.definition;
        let defined = definition.arms.iter().chain(&definition.shadows);
        let is_same = |(of, there): &(&Arm, &SplitArm)| {
            of.name == arm.name
                && of.revision == arm.revision
                && there.route.written.as_ref() == Some(written)
        };
        let found = defined.zip(self.served()).find(is_same).filter(|_| Arc::ptr_eq(&self.base, base));
        found.map(|(_, there)| there)
    }

    /// Whether it is of this experiment as it stands, over this route.
    pub(super) fn is_of(&self, experiment: &Experiment, begun_unix_ms: u64, base: &Arc<Route>) -> bool {
        let same = self.begun_unix_ms == begun_unix_ms && self.experiment == *experiment;
        same && Arc::ptr_eq(&self.base, base)
    }
}

impl SplitError {
    pub(super) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

/// The route that an experiment is on.
///
/// # Errors
/// There is none of this name, or it is a single model.
pub(super) fn base<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Arc<Route>, SplitError> {
    let Some(route) = catalog.routes.get(name) else {
        return Err(SplitError::new("route", format!("there is no route {name:?}")));
    };
    if route.written.is_none() {
        let problem =
            format!("{name:?} is a single model; put it into a route of its own to experiment on it");
        return Err(SplitError::new("route", problem));
    }
    Ok(route)
}

/// What an arm serves, written as a route: the route's words with the arm's over them.
///
/// # Errors
/// What of the arm does not fit.
pub(super) fn written(arm: &Arm, base: &Route, catalog: &Catalog) -> Result<config::Route, SplitError> {
    let key = |field: &str| format!("arms.{}.{field}", arm.name);
    let of = base.written.as_ref().expect("the base of an experiment is written");
    let mut route = of.clone();
    if !arm.models.is_empty() {
        check_models(&arm.models, catalog).map_err(|problem| SplitError::new(key("models"), problem))?;
        route.fallback = fallback(of, &arm.models);
        route.models = arm.models.clone();
    }
    if let Some(policy) = &arm.policy {
        route.policy = policy_of(policy).map_err(|problem| SplitError::new(key("policy"), problem))?;
        route.settings.clear();
    }
    let knob = base.policy_revision().and_then(|revision| Knob::of(revision.descriptor()));
    if knob.is_some_and(|knob| arm.settings.contains_key(&knob.parameter)) {
        // The arm's threshold stands over the route's share.
        route.settings.remove(LLM_SHARE);
    }
    route.settings.extend(arm.settings.clone());
    Ok(route)
}

/// Whether what serves a shadow can be asked afterwards, about signals of the tokens of the route's entry model.
///
/// # Errors
/// Why not.
pub(super) fn check_shadow(arm: &Arm, shadow: &Route, base: &Route) -> Result<(), SplitError> {
    let refused =
        |field: &str, problem: String| Err(SplitError::new(format!("shadows.{}{field}", arm.name), problem));
    if shadow.models[0] != base.models[0] {
        let entry = &base.model_names[0];
        return refused(
            ".models",
            format!("a shadow is asked about tokens of the entry model, which is {entry:?}"),
        );
    }
    if shadow.settings_with(&BTreeMap::new()).contains_key(LLM_SHARE) {
        return refused(
            ".settings",
            format!("a shadow learns no threshold for `{LLM_SHARE}`; give the threshold"),
        );
    }
    let Some(revision) = shadow.policy_revision() else { return Ok(()) };
    let descriptor = revision.descriptor();
    unsuited(descriptor).map_or(Ok(()), |why| {
        let policy = &descriptor.name;
        refused(
            "",
            format!(
                "the policy {policy:?} {why}, so it cannot be asked afterwards; a shadow decides by signals"
            ),
        )
    })
}

/// Whether a policy can be a shadow: it decides by signals alone.
pub(crate) fn can_shadow(descriptor: &Descriptor) -> bool {
    unsuited(descriptor).is_none()
}

/// Why a policy cannot be a shadow, if it cannot.
fn unsuited(descriptor: &Descriptor) -> Option<&'static str> {
    let looks = |fires: &Fires| match fires {
        Fires::Text(_) | Fires::AfterText(_) => true,
        Fires::Above(limit) | Fires::Below(limit) => matches!(limit.signal, Signal::Score(_)),
        Fires::Start | Fires::End => false,
    };
    let heads = descriptor.needs.iter().any(|need| !need.heads.is_empty());
    if heads || descriptor.guards.iter().any(|guard| looks(&guard.fires)) {
        return Some("looks at heads or texts");
    }
    if descriptor.candidates > 0 || descriptor.tail > 0 || descriptor.prompt > 0 {
        return Some("looks at candidates or texts");
    }
    let more = descriptor.distributions || descriptor.receives || descriptor.enters;
    more.then_some("looks at distributions, or judges visits or where to begin")
}

/// The policy that an arm names.
fn policy_of(written: &str) -> Result<PolicySource, String> {
    match PolicySource::parse(written, Path::new(""))? {
        PolicySource::Uploaded { .. } => Err(
            "follows what a tenant activates, and an arm must stay what it is; give its `revision` instead"
                .to_owned(),
        ),
        other => Ok(other),
    }
}

/// The digest of the revision that an arm names.
///
/// # Errors
/// It is none.
pub(super) fn digest(revision: &str) -> Result<store::Digest, String> {
    revision.to_ascii_lowercase().parse().map_err(|_| format!("{revision:?} is not 64 hexadecimal digits"))
}

fn check_models(models: &[String], catalog: &Catalog) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for model in models {
        if catalog.model(model).is_none() {
            let known: Vec<&str> = catalog.models.values().map(|model| model.name.as_str()).collect();
            return Err(format!("there is no model {model:?}; the models are {}", known.join(", ")));
        }
        if !seen.insert(model) {
            return Err(format!("{model:?} stands twice"));
        }
    }
    Ok(())
}

/// The model that goes on alone where the policy fails stays the same one, if the arm has it.
fn fallback(base: &config::Route, models: &[String]) -> Option<journey::Role> {
    let name = base.models.get(base.fallback?.index())?;
    let place = models.iter().position(|model| model == name)?;
    Some(journey::Role(place as u16))
}
