//! What can be asked for: models and routes by name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine::{EngineError, Lexicon, ModelSpec, Tokenizer};
use grammar::{Compiler, GrammarError};
use journey::{Role, Rules};
use policy::{Descriptor, Need, PolicyFile, PolicyHost, Revision, Settings};
use scheduler::conductor::Bounds;

use super::own::{Broken, Own};
use super::share::{self, Calibration, Knob, Seen};
use super::split::Split;
use super::subserver::Subserver;
use crate::config;
use crate::telemetry::Meter;

/// A model's place among the server's models and subservers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelIx(pub u16);

impl ModelIx {
    /// As an index into arrays by model.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A loaded model. Its engine belongs to its subserver, which ends when the last route that names it is let go of: nobody can
/// be on the way there then.
pub struct Model {
    /// Name in the configuration.
    pub name: String,
    /// What it is.
    pub spec: ModelSpec,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Its heads by name, and which of the engine's scores are theirs.
    pub heads: BTreeMap<String, Range<usize>>,
    /// Makes grammars for its tokens, once somebody asks for one.
    pub(super) grammars: OnceLock<Result<Compiler, GrammarError>>,
    /// What it does.
    pub meter: Arc<Meter>,
    /// What the configuration says of it.
    pub(super) written: config::Model,
    pub(super) subserver: Subserver,
}

/// What a client names in `model`: models by role and who decides between them.
pub struct Route {
    /// Name, unique among models and routes.
    pub name: String,
    /// Models by role.
    pub models: Vec<ModelIx>,
    /// The same, with all that belongs to them.
    pub(super) by_role: Vec<Arc<Model>>,
    /// Names of the models by role.
    pub model_names: Vec<String>,
    /// The role that goes on alone when the policy fails, if the configuration names one.
    pub(super) fallback: Option<Role>,
    /// The smallest context of the models, in tokens.
    pub context: usize,
    /// Tokens that end an answer.
    pub eos: Arc<[u32]>,
    /// The entry model's tokenizer, whose tokens are those of the route.
    pub tokenizer: Arc<Tokenizer>,
    /// By role, what translates for a model with another tokenizer.
    pub(super) lexicons: Vec<Option<Arc<Lexicon>>>,
    /// Heads of the models by role.
    pub heads: Vec<BTreeMap<String, Range<usize>>>,
    /// What the policy is told about the models, by role.
    pub model_infos: Arc<[policy::ModelInfo]>,
    /// What is promised to its answers.
    pub bounds: Bounds,
    pub(super) deciding: Deciding,
    /// What the configuration says of it; none for a model under its own name.
    pub(super) written: Option<config::Route>,
}

/// Who decides.
pub(super) enum Deciding {
    /// A single model makes the whole answer.
    Single,
    /// A policy.
    Policy {
        source: PolicySource,
        /// Set in the configuration.
        settings: BTreeMap<String, f64>,
        /// What its answers showed of the policy's guard.
        calibration: Mutex<Calibration>,
    },
}

/// Where the revision in force comes from.
pub(super) enum PolicySource {
    /// One that stays: inside the binary, or uploaded. Another upload makes another route.
    Fixed(Arc<Revision>),
    File(PolicyFile),
}

impl Model {
    /// Makes grammars for its tokens. The first call takes some tens of milliseconds: not for async threads.
    fn grammars(&self) -> Result<&Compiler, &GrammarError> {
        let new = || Compiler::new(&self.tokenizer.vocabulary(), self.spec.vocabulary);
        self.grammars.get_or_init(new).as_ref()
    }
}

impl Route {
    /// Makes grammars for the tokens that all its models have. Not for async threads.
    ///
    /// # Errors
    /// The vocabulary cannot be used.
    pub fn grammars(&self) -> Result<&Compiler, &GrammarError> {
        // Whatever is beyond the smallest vocabulary is padding.
        self.by_role.iter().min_by_key(|model| model.spec.vocabulary).unwrap_or(&self.by_role[0]).grammars()
    }

    /// The role that goes on alone when a policy fails: the configuration's, the policy's or the entry.
    #[must_use]
    pub fn fallback(&self, revision: Option<&Revision>) -> Role {
        let of_policy = revision.and_then(|revision| revision.descriptor().fallback);
        self.fallback.or(of_policy).unwrap_or(Role::ENTRY)
    }

    /// The prompt as each model reads it, by role: none for those that speak the route's tokens.
    ///
    /// # Errors
    /// What the model cannot read, with its name.
    pub fn prompts(
        &self,
        read: impl Fn(&Tokenizer) -> Result<Vec<u32>, EngineError>,
    ) -> Result<Vec<Option<Vec<u32>>>, (String, EngineError)> {
        let roles = self.lexicons.iter().zip(&self.by_role);
        let prompt = |(lexicon, model): (&Option<_>, &Arc<Model>)| {
            lexicon
                .as_ref()
                .map(|_| read(&model.tokenizer).map_err(|error| (model.name.clone(), error)))
                .transpose()
        };
        roles.map(prompt).collect()
    }

    /// The policy's revision in force now; none for a single model.
    #[must_use]
    pub fn policy_revision(&self) -> Option<Arc<Revision>> {
        match &self.deciding {
            Deciding::Single => None,
            Deciding::Policy { source: PolicySource::Fixed(revision), .. } => Some(Arc::clone(revision)),
            Deciding::Policy { source: PolicySource::File(file), .. } => Some(file.current()),
        }
    }

    /// What the host does for a journey of a policy with these settings.
    #[must_use]
    pub fn rules(&self, descriptor: &Descriptor, settings: &Settings) -> Rules {
        let of_role = |(role, need): (usize, &Need)| {
            let heads = self.heads.get(role);
            let scores = need.heads.iter().filter_map(|name| heads?.get(name)).cloned();
            scores.flatten().collect()
        };
        let scores = descriptor.needs.iter().enumerate().map(of_role).collect();
        let observe = Knob::of(descriptor).map(|knob| (knob.role, knob.signal));
        Rules { scores, observe, ..descriptor.rules(settings) }
    }

    /// Whether it is a model under its own name.
    #[must_use]
    pub fn is_model(&self) -> bool {
        matches!(self.deciding, Deciding::Single)
    }

    /// The watched file of the policy, if it has one.
    #[must_use]
    pub fn policy_file(&self) -> Option<&PolicyFile> {
        match &self.deciding {
            Deciding::Policy { source: PolicySource::File(file), .. } => Some(file),
            _ => None,
        }
    }

    /// The settings of a request: the route's with the request's own over them, and a threshold in the place of a share.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(super) fn resolved(
        &self,
        overrides: &BTreeMap<String, f64>,
        revision: &Revision,
    ) -> Result<Settings, String> {
        let mut settings = self.settings_with(overrides);
        if let Deciding::Policy { calibration, .. } = &self.deciding {
            let calibration = calibration.lock().unwrap_or_else(PoisonError::into_inner);
            share::resolve(&mut settings, overrides, revision.descriptor(), &calibration)?;
        }
        revision.settings(&settings).map_err(|error| error.to_string())
    }

    /// Takes in what an answer showed of the policy's guard.
    pub(super) fn learn(&self, descriptor: &Descriptor, seen: Seen) {
        let (Deciding::Policy { calibration, .. }, Some(knob)) = (&self.deciding, Knob::of(descriptor))
        else {
            return;
        };
        calibration.lock().unwrap_or_else(PoisonError::into_inner).learn(&knob, seen);
    }

    /// The route's settings with those of a request over them.
    #[must_use]
    pub fn settings_with(&self, overrides: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
        let mut settings = match &self.deciding {
            Deciding::Single => BTreeMap::new(),
            Deciding::Policy { settings, .. } => settings.clone(),
        };
        settings.extend(overrides.iter().map(|(key, value)| (key.clone(), *value)));
        settings
    }
}

/// Everything that is served at one moment. It never changes: another takes its place, and a request keeps the one that it
/// began with.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Models.
    pub models: BTreeMap<ModelIx, Arc<Model>>,
    /// Routes by name; each model is also a route of its own name.
    pub routes: BTreeMap<String, Arc<Route>>,
    /// Routes that an experiment divides between arms, by the route's name.
    pub(super) splits: BTreeMap<String, Arc<Split>>,
    /// What tenants uploaded, by tenant and name; a tenant's own is `own/NAME` for it, and nothing for others.
    pub own: BTreeMap<String, BTreeMap<String, Own>>,
    /// Routes of the configuration that cannot be served for now: they follow what a tenant uploaded.
    pub broken: BTreeMap<String, Broken>,
    /// Runs the policies of the routes, if there are any.
    pub(super) host: Option<Arc<PolicyHost>>,
}

/// A route as a request named it: `NAME` or `NAME@setting=value,setting=value`.
#[derive(Clone)]
pub struct Selected {
    /// The route.
    pub route: Arc<Route>,
    /// Settings for this request.
    pub overrides: BTreeMap<String, f64>,
}

/// A name that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSuchRoute {
    /// No model or route has this name.
    #[error("the model {0:?} does not exist; GET /v1/models lists what does")]
    Unknown(String),
    /// What follows the `@` is not `setting=number`.
    #[error("{0:?} after '@' is not of the form setting=number")]
    Malformed(String),
}

impl Catalog {
    /// Finds what a request named.
    ///
    /// # Errors
    /// [`NoSuchRoute`].
    pub fn select(&self, name: &str) -> Result<Selected, NoSuchRoute> {
        Selected::find(name, |route| self.routes.get(route))
    }

    /// What divides a route between arms, if anything does.
    #[must_use]
    pub fn split(&self, route: &str) -> Option<&Arc<Split>> {
        let split = self.splits.get(route)?;
        self.routes.get(route).filter(|route| Arc::ptr_eq(route, &split.base)).map(|_| split)
    }

    /// Every route that may serve a request, those of arms included; some may come twice.
    pub(super) fn serving(&self) -> impl Iterator<Item = &Arc<Route>> {
        let arms = self.splits.values().flat_map(|split| split.arms.iter().chain(&split.shadows));
        let arms = arms.map(|arm| &arm.route);
        let bases = self.splits.values().map(|split| &split.base);
        self.served().map(|(_, route)| route).chain(arms).chain(bases)
    }

    /// All routes that are served, with the tenant whose own it is.
    pub fn served(&self) -> impl Iterator<Item = (Option<&str>, &Arc<Route>)> {
        let own = self.own.iter().flat_map(|(tenant, of)| of.values().map(move |own| (tenant, own)));
        let own = own.filter_map(|(tenant, own)| Some((Some(tenant.as_str()), own.served.as_ref().ok()?)));
        self.routes.values().map(|route| (None, route)).chain(own)
    }

    /// The place of the model of this name.
    #[must_use]
    pub fn model(&self, name: &str) -> Option<ModelIx> {
        self.models.iter().find(|(_, model)| model.name == name).map(|(ix, _)| *ix)
    }
}

impl Selected {
    /// Finds what a request named among what it may see.
    ///
    /// # Errors
    /// [`NoSuchRoute`].
    pub fn find<'a>(
        name: &str,
        routes: impl FnOnce(&str) -> Option<&'a Arc<Route>>,
    ) -> Result<Self, NoSuchRoute> {
        let (route_name, settings) = name.split_once('@').unwrap_or((name, ""));
        let route = routes(route_name).ok_or_else(|| NoSuchRoute::Unknown(route_name.to_owned()))?;
        let mut overrides = BTreeMap::new();
        for setting in settings.split(',').filter(|s| !s.is_empty()) {
            let malformed = || NoSuchRoute::Malformed(setting.to_owned());
            let (key, value) = setting.split_once('=').ok_or_else(malformed)?;
            let value: f64 = value.trim().parse().map_err(|_| malformed())?;
            overrides.insert(key.trim().to_owned(), value);
        }
        Ok(Self { route: Arc::clone(route), overrides })
    }
}
