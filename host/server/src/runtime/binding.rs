//! Routes bound to their policies: what a policy needs, the route's models must have.

use std::collections::BTreeMap;
use std::ops::Range;
#[cfg(unix)]
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use engine::{Lexicon, compare_tokenizers};
use policy::{
    Descriptor, Isolation, LaneRule, Limits, ModelInfo, Need, PolicyError, PolicyFile, PolicyHost, Revision,
};

use super::builtin::builtin_policies;
use super::catalog::{Catalog, Deciding, Model, ModelIx, PolicySource, Route};
use super::library::{Library, LibraryError};
use super::load::{StartError, assemble};
use super::pulled::Pulled;
use super::share::{self, Calibration};
use crate::config::{self, Config};

/// The Wasm host with the limits of a configuration.
///
/// # Errors
/// [`StartError::Sandbox`].
pub fn policy_host(config: &Config) -> Result<Arc<PolicyHost>, StartError> {
    let sandbox = &config.sandbox;
    let limits = Limits {
        memory_bytes: (sandbox.memory_mib.get() as usize) << 20,
        fuel_per_call: sandbox.fuel_per_call,
        deadline: sandbox.deadline(),
        sessions: u32::try_from(config.server.journeys_max.get()).unwrap_or(u32::MAX),
        isolation: match sandbox.isolation {
            config::Isolation::Tenant => Isolation::Tenant,
            config::Isolation::Journey => Isolation::Journey,
        },
        // Each decode loop may be inside an instance at the same time.
        shards: config.models.len() as u32,
        lane: LaneRule { in_step: sandbox.in_step(), ..LaneRule::default() },
        ..Limits::default()
    };
    let beside = || config.server.data_dir.as_ref().map(|folder| folder.join("compiled"));
    let host = match sandbox.cache.clone().or_else(beside) {
        None => PolicyHost::new(limits),
        Some(folder) => cached(limits, &folder),
    };
    host.map(Arc::new).map_err(|error| StartError::Sandbox(Box::new(error)))
}

#[cfg(unix)]
fn cached(limits: Limits, folder: &Path) -> Result<PolicyHost, PolicyError> {
    // The last folder is the cache's to make. What stands in the way above it, it says.
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty())
        && let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above)
    {
        tracing::warn!(folder = %above.display(), %error, "cannot be made");
    }
    PolicyHost::with_cache(limits, folder)
}

/// Who may write in a folder cannot be checked here.
#[cfg(not(unix))]
fn cached(limits: Limits, folder: &Path) -> Result<PolicyHost, PolicyError> {
    tracing::warn!(folder = %folder.display(), "compiled policies are not kept on this system");
    PolicyHost::new(limits)
}

/// Binds routes to their policies.
#[derive(Clone)]
pub(super) struct Policies {
    config: Arc<Config>,
    /// Made when the first route needs it.
    host: Option<Arc<PolicyHost>>,
    /// Built-in policies that are in use; each is compiled once.
    builtin: BTreeMap<String, Arc<Revision>>,
    /// Those of registries; made with the host.
    pulled: Option<Arc<Pulled>>,
    /// Where there is a data directory.
    library: Option<Arc<Library>>,
}

impl Policies {
    /// For routes under the limits of a configuration.
    pub(super) fn new(config: &Config) -> Self {
        let config = Arc::new(config.clone());
        Self { config, host: None, builtin: BTreeMap::new(), pulled: None, library: None }
    }

    /// Takes the place of one that a change has made anew; what it has loaded meanwhile stays loaded.
    pub(super) fn restore(&mut self, before: Self) {
        if Arc::ptr_eq(&self.config, &before.config) {
            return;
        }
        if let (Some(library), Some(host)) = (&before.library, &before.host) {
            library.set_host(Arc::clone(host));
        }
        *self = before;
    }

    /// What runs the policies.
    pub(super) fn host(&mut self) -> Result<Arc<PolicyHost>, StartError> {
        if let Some(host) = &self.host {
            return Ok(Arc::clone(host));
        }
        let host = policy_host(&self.config)?;
        self.host = Some(Arc::clone(&host));
        Ok(host)
    }

    /// Policies from registries.
    pub(super) fn pulled(&mut self) -> Result<Arc<Pulled>, StartError> {
        let host = self.host()?;
        Ok(Arc::clone(self.pulled.get_or_insert_with(|| Arc::new(Pulled::new(host)))))
    }

    /// Uploaded components, if there are any.
    pub(super) fn library(&self) -> Option<Arc<Library>> {
        self.library.clone()
    }

    /// From now on there are uploaded components.
    pub(super) fn set_library(&mut self, library: Arc<Library>) {
        self.library = Some(library);
    }

    /// An uploaded component.
    pub(super) fn uploaded(&self, digest: store::Digest) -> Result<Arc<Revision>, LibraryError> {
        let library = self.library.as_ref().ok_or(LibraryError::NoStore(digest))?;
        library.revision(digest)
    }

    /// A route of the configuration with its models, and a revision from elsewhere checked against them.
    pub(super) fn bind_to(
        &self,
        name: &str,
        route: &config::Route,
        (revision, catalog): (Arc<Revision>, &Catalog),
    ) -> Result<Route, StartError> {
        let roles = Roles::new(name, route, catalog)?;
        ByRole::new(&roles, catalog)
            .check_fit(&revision, &route.settings)
            .map_err(|problem| StartError::Unfit { route: name.to_owned(), problem })?;
        Ok(decided(name, route, (roles, catalog), PolicySource::Fixed(revision)))
    }

    /// A route, with its models and its policy checked against each other.
    pub(super) fn bind(
        &mut self,
        name: &str,
        route: &config::Route,
        catalog: &Catalog,
    ) -> Result<Route, StartError> {
        let unfit = |problem| StartError::Unfit { route: name.to_owned(), problem };
        match &route.policy {
            config::PolicySource::Builtin(builtin) => {
                let revision = self.builtin(name, builtin)?;
                self.bind_to(name, route, (revision, catalog))
            }
            config::PolicySource::Uploaded { .. } => {
                let revision = catalog.uploaded(&route.policy).map_err(unfit)?;
                self.bind_to(name, route, (revision, catalog))
            }
            config::PolicySource::Oci(pinned) => {
                let revision = self.pulled()?.revision(pinned, &self.config).map_err(|source| {
                    let key = format!("routes.{name:?}.policy");
                    StartError::Pulled { key, policy: pinned.to_string(), source: Box::new(source) }
                })?;
                self.bind_to(name, route, (revision, catalog))
            }
            config::PolicySource::File(path) => {
                let roles = Roles::new(name, route, catalog)?;
                let by_role = ByRole::new(&roles, catalog);
                let settings = route.settings.clone();
                let check = move |revision: &Revision| by_role.check_fit(revision, &settings);
                let file = PolicyFile::open(self.host()?, path, check).map_err(|source| {
                    StartError::Policy { route: name.to_owned(), source: Box::new(source) }
                })?;
                Ok(decided(name, route, (roles, catalog), PolicySource::File(file)))
            }
        }
    }

    fn builtin(&mut self, route: &str, name: &str) -> Result<Arc<Revision>, StartError> {
        if let Some(revision) = self.builtin.get(name) {
            return Ok(Arc::clone(revision));
        }
        let policies = builtin_policies();
        let Some((_, component)) = policies.iter().find(|(known, _)| *known == name) else {
            let known: Vec<String> = policies.iter().map(|(known, _)| format!("builtin:{known}")).collect();
            let (route, name) = (route.to_owned(), name.to_owned());
            return Err(StartError::NoSuchBuiltin { route, name, known: known.join(", ") });
        };
        let revision = self
            .host()?
            .load(component)
            .map_err(|source| StartError::Policy { route: route.to_owned(), source: Box::new(source) })?;
        self.builtin.insert(name.to_owned(), Arc::clone(&revision));
        Ok(revision)
    }
}

/// The models of a route, which speak the same tokens, or are translated.
struct Roles {
    models: Vec<ModelIx>,
    /// By role; none where the tokens are the entry model's.
    lexicons: Vec<Option<Arc<Lexicon>>>,
}

impl Roles {
    fn new(name: &str, route: &config::Route, catalog: &Catalog) -> Result<Self, StartError> {
        let models: Vec<ModelIx> = route.models.iter().filter_map(|wanted| catalog.model(wanted)).collect();
        let entry = &catalog.models[&models[0]];
        let lexicon = |model: &ModelIx| lexicon((name, route), entry, &catalog.models[model]);
        let lexicons = models.iter().map(lexicon).collect::<Result<_, _>>()?;
        Ok(Self { models, lexicons })
    }
}

/// What it takes to translate between the entry model of a route and another; `None` where they speak the same tokens.
fn lexicon(
    (name, route): (&str, &config::Route),
    entry: &Model,
    other: &Model,
) -> Result<Option<Arc<Lexicon>>, StartError> {
    let Err(mismatch) = compare_tokenizers(&entry.tokenizer, &other.tokenizer) else { return Ok(None) };
    let route_name = name.to_owned();
    if !route.translate {
        let (first, second) = (entry.name.clone(), other.name.clone());
        return Err(StartError::Tokenizers {
            route: route_name,
            first,
            second,
            mismatch: Box::new(mismatch),
        });
    }
    let side = |model: &'_ Model| (Arc::clone(&model.tokenizer), model.spec.eos.clone());
    let ((home, home_eos), (own, own_eos)) = (side(entry), side(other));
    let lexicon = Lexicon::new((&home, &home_eos), (&own, &own_eos)).ok_or_else(|| {
        let problem = format!("translate: the entry model {:?} has no end token", entry.name);
        StartError::Unfit { route: route_name, problem }
    })?;
    let (shared, all) = (lexicon.shared(), own.vocabulary().len());
    tracing::info!(route = name, model = other.name, %mismatch, shared, all, "tokens are translated");
    Ok(Some(Arc::new(lexicon)))
}

/// A route that a policy decides for.
fn decided(
    name: &str,
    route: &config::Route,
    (roles, catalog): (Roles, &Catalog),
    source: PolicySource,
) -> Route {
    let deciding =
        Deciding::Policy { source, settings: route.settings.clone(), calibration: Mutex::default() };
    let (bounds, written) = (route.bounds(), Some(route.clone()));
    let Roles { models, lexicons } = roles;
    let mut assembled = assemble(name, catalog, models, route.fallback, deciding);
    // A policy sees the entry model's tokens everywhere.
    let vocabulary = assembled.model_infos[0].vocabulary;
    let told = assembled.model_infos.iter().zip(&lexicons).map(|(info, lexicon)| {
        let vocabulary = if lexicon.is_some() { vocabulary } else { info.vocabulary };
        ModelInfo { vocabulary, ..info.clone() }
    });
    assembled.model_infos = told.collect();
    Route { bounds, written, lexicons, ..assembled }
}

/// What a policy may need of the models of a route.
struct ByRole(Vec<Offered>);

struct Offered {
    name: String,
    context: usize,
    heads: BTreeMap<String, Range<usize>>,
}

impl ByRole {
    fn new(roles: &Roles, catalog: &Catalog) -> Self {
        let offered = |role: &ModelIx| {
            let Model { name, spec, heads, .. } = &*catalog.models[role];
            Offered { name: name.clone(), context: spec.context, heads: heads.clone() }
        };
        Self(roles.models.iter().map(offered).collect())
    }

    /// Whether a policy can decide for the route; also asked of every new revision of a policy file.
    fn check_fit(&self, revision: &Revision, settings: &BTreeMap<String, f64>) -> Result<(), String> {
        let Descriptor { name, models, needs, .. } = revision.descriptor();
        let (count, least, most) = (self.0.len(), *models.start(), *models.end());
        if !models.contains(&count) {
            return Err(format!(
                "the policy {name:?} is for {least} to {most} models, the route has {count}; change `models`"
            ));
        }
        for (role, (need, model)) in needs.iter().zip(&self.0).enumerate() {
            self.check_need(role, need, model).map_err(|problem| format!("the policy {name:?} {problem}"))?;
        }
        let mut settings = settings.clone();
        let resolved =
            share::resolve(&mut settings, &BTreeMap::new(), revision.descriptor(), &Calibration::default());
        resolved.map_err(|error| format!("settings: {error}"))?;
        revision.settings(&settings).map(drop).map_err(|error| format!("settings: {error}"))
    }

    fn check_need(&self, role: usize, need: &Need, model: &Offered) -> Result<(), String> {
        let Offered { name, context, heads } = model;
        let place = format!("role {role} ({})", need.name);
        if let Some(missing) = need.heads.iter().find(|head| !heads.contains_key(*head)) {
            return Err(format!(
                "needs the head {missing:?} of its {place}, which the model {name:?} does not have; give its graph file \
                 as models.{name}.heads.{missing}"
            ));
        }
        let least = need.context_least;
        if *context < least {
            return Err(format!(
                "needs a context of {least} tokens of its {place}; the model {name:?} has {context}"
            ));
        }
        Ok(())
    }
}
