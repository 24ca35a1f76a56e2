//! What is served now, and how it changes while requests run.
//!
//! A change is made on a copy and takes the catalog's place in one step. What a change takes out is kept until the last
//! request that began with it has ended: its drop may wait for a thread, which no decode loop must do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::Engine as _;
use experiment::definition::{Arm, Definition};
use experiment::{Assigner, Experiment};
use policy::{PolicyHost, Revision};
use tokio::sync::Notify;

use super::binding::Policies;
use super::catalog::{Catalog, Deciding, Model, ModelIx, Route};
use super::library::{Library, LibraryError};
use super::load::{Fresh, LoadProgress, Loader, StartError, assemble};
use super::pulled::Pulled;
use super::split::{self, Split, SplitArm, SplitError};
use super::subserver::Fleet;
use crate::config::{self, Config};

/// The catalog in force.
pub(super) struct Live {
    /// Read for every request, and never waited for.
    current: ArcSwap<Catalog>,
    /// Held while a change is made.
    workshop: Mutex<Workshop>,
    /// Routes that are out of the catalog and may still have requests.
    retired: Mutex<Vec<Arc<Route>>>,
    /// Something was retired.
    left: Notify,
}

/// What changes are made with.
pub(super) struct Workshop {
    loader: Loader,
    fleet: Arc<Fleet>,
    pub(super) policies: Policies,
}

/// A catalog that is being changed.
pub struct Draft<'a> {
    pub(super) workshop: &'a mut Workshop,
    pub(super) catalog: Catalog,
}

impl Live {
    /// Nothing is served yet.
    pub(super) fn new(config: &Config, fleet: Arc<Fleet>) -> Self {
        let workshop = Workshop { loader: Loader::new(config), fleet, policies: Policies::new(config) };
        Self {
            current: ArcSwap::default(),
            workshop: Mutex::new(workshop),
            retired: Mutex::default(),
            left: Notify::new(),
        }
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    pub(super) fn change<T, E>(&self, change: impl FnOnce(&mut Draft<'_>) -> Result<T, E>) -> Result<T, E> {
        let mut workshop = self.workshop.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = Catalog::clone(&self.current.load());
        // Other limits make another host, which is not to be left behind by a change that came to nothing.
        let policies = workshop.policies.clone();
        let mut draft = Draft { workshop: &mut workshop, catalog };
        let told = match change(&mut draft) {
            Ok(told) => told,
            Err(error) => {
                workshop.policies.restore(policies);
                return Err(error);
            }
        };
        draft.follow();
        draft.follow_routes();
        let next = draft.catalog;
        self.retire(&next);
        self.current.store(Arc::new(next));
        Ok(told)
    }

    /// Policies from registries. Not a change: what is pulled by it is there when a change needs it.
    pub(super) fn pulled(&self) -> Result<Arc<Pulled>, StartError> {
        self.workshop.lock().unwrap_or_else(PoisonError::into_inner).policies.pulled()
    }

    /// Lets go of retired routes once nobody uses them, for ever.
    pub(super) async fn let_go(self: Arc<Self>) {
        loop {
            self.left.notified().await;
            while let Some(unused) = self.unused() {
                if !unused.is_empty()
                    && let Err(error) = tokio::task::spawn_blocking(move || drop(unused)).await
                {
                    tracing::error!(%error, "letting go of a route panicked");
                }
                tokio::time::sleep(LOOKS_APART).await;
            }
        }
    }

    /// Keeps what the next catalog does not have.
    fn retire(&self, next: &Catalog) {
        let current = self.current.load();
        // By address, and each once: an arm may be served by the route itself.
        let mut known: BTreeSet<*const Route> = next.serving().map(Arc::as_ptr).collect();
        let gone = current.serving().filter(|route| known.insert(Arc::as_ptr(route)));
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.extend(gone.map(Arc::clone));
        if !retired.is_empty() {
            self.left.notify_one();
        }
    }

    /// The retired routes that nobody uses; none once no route is retired.
    fn unused(&self) -> Option<Vec<Arc<Route>>> {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        if retired.is_empty() {
            return None;
        }
        let (unused, used) = retired.drain(..).partition(|route| Arc::strong_count(route) == 1);
        *retired = used;
        Some(unused)
    }
}

impl Draft<'_> {
    /// The catalog as it stands.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Takes these models for all that are there. One that is written as it was stays; one that is written otherwise is loaded
    /// anew beside the one before, whose requests end there. Routes of models that went have to be set again.
    ///
    /// # Errors
    /// [`StartError`], naming the model.
    pub fn set_models(&mut self, config: &Config, progress: &mut dyn LoadProgress) -> Result<(), StartError> {
        let stays = |model: &Model| config.models.get(&model.name) == Some(&model.written);
        let gone: Vec<ModelIx> =
            self.catalog.models.iter().filter(|(_, model)| !stays(model)).map(|(ix, _)| *ix).collect();
        for ix in gone {
            let model = self.catalog.models.remove(&ix);
            model.and_then(|model| self.catalog.routes.remove(&model.name));
        }
        let fresh = config.models.iter().filter(|(name, _)| self.catalog.model(name).is_none()).collect();
        for fresh in self.workshop.loader.load(&fresh, &config.server, progress)? {
            self.seat(fresh)?;
        }
        Ok(())
    }

    /// Begins the subserver of a model, and makes the model a route of its own name.
    fn seat(&mut self, fresh: Fresh) -> Result<(), StartError> {
        let Fresh { written, tokenizer, heads, powered } = fresh;
        let (name, meter) = (powered.name.clone(), Arc::clone(&powered.meter));
        let spec = powered.engine.spec().clone();
        let (ix, subserver) = self.workshop.fleet.seat(powered).map_err(StartError::Thread)?;
        let model = Model {
            name: name.clone(),
            spec,
            tokenizer,
            heads,
            grammars: OnceLock::new(),
            meter,
            written,
            subserver,
        };
        self.catalog.models.insert(ix, Arc::new(model));
        let route = assemble(&name, &self.catalog, vec![ix], None, Deciding::Single);
        self.catalog.routes.insert(name, Arc::new(route));
        Ok(())
    }

    /// Policies run under the limits of this configuration from now on; every route has to be set again.
    pub fn set_sandbox(&mut self, config: &Config) {
        let library = self.workshop.policies.library();
        self.workshop.policies = Policies::new(config);
        self.catalog.routes.retain(|_, route| route.is_model());
        if let Some(library) = library {
            self.reload_own(&library);
        }
    }

    /// Takes these routes for all that are there. One that is written as it was stays the same route, with all that it has
    /// learnt.
    ///
    /// # Errors
    /// [`StartError`], naming the route.
    pub fn set_routes(
        &mut self,
        routes: &BTreeMap<String, config::Route>,
        progress: &mut dyn LoadProgress,
    ) -> Result<(), StartError> {
        self.catalog.routes.retain(|name, route| route.is_model() || routes.contains_key(name));
        self.catalog.broken.retain(|name, _| routes.contains_key(name));
        for (name, written) in routes {
            self.set_route(name, written)?;
            progress.route(name);
        }
        Ok(())
    }

    /// Adds a route, or takes it for the one of the same name. An experiment on it goes on, over the new one. One that follows
    /// what a tenant uploaded is broken while it does not fit.
    ///
    /// # Errors
    /// [`StartError`], naming the route, or the experiment whose arms do not fit the new one.
    pub fn set_route(&mut self, name: &str, written: &config::Route) -> Result<(), StartError> {
        self.catalog.host = Some(self.workshop.policies.host()?);
        if let config::PolicySource::Uploaded { .. } = written.policy {
            self.follow_upload(name, written);
            return Ok(());
        }
        self.catalog.broken.remove(name);
        let there = self.catalog.routes.get(name);
        if there
            .is_some_and(|route| route.written.as_ref() == Some(written) && self.catalog.has_models_of(route))
        {
            return Ok(());
        }
        let route = self.workshop.policies.bind(name, written, &self.catalog)?;
        self.catalog.routes.insert(name.to_owned(), Arc::new(route));
        if let Some(split) = self.catalog.splits.get(name).map(Arc::clone) {
            let again = self.set_split(&split.experiment, split.begun_unix_ms);
            again.map_err(|source| StartError::Split { experiment: split.name().to_owned(), source })?;
        }
        Ok(())
    }

    /// Divides a route between the arms of an experiment as it stands. What serves an arm stays the same where it is
    /// written as it was.
    ///
    /// # Errors
    /// [`SplitError`], naming the key of the experiment.
    pub fn set_split(&mut self, experiment: &Experiment, begun_unix_ms: u64) -> Result<(), SplitError> {
        let definition = &experiment.definition;
        let base = Arc::clone(split::base(&self.catalog, &definition.route)?);
        let there = self.catalog.splits.get(&definition.route).map(Arc::clone);
        let same = there.as_ref().filter(|split| split.is_of(experiment, begun_unix_ms, &base));
        if same.is_some_and(|split| split.served().all(|arm| self.catalog.has_models_of(&arm.route))) {
            return Ok(());
        }
        let mut arms = Vec::with_capacity(definition.arms.len());
        for arm in &definition.arms {
            arms.push(self.arm(arm, &base, there.as_deref())?);
        }
        let mut shadows = Vec::with_capacity(definition.shadows.len());
        for arm in &definition.shadows {
            let shadow = self.arm(arm, &base, there.as_deref())?;
            split::check_shadow(arm, &shadow.route, &base)?;
            shadows.push(shadow);
        }
        let (assigner, experiment) = (Assigner::new(experiment), experiment.clone());
        let route = experiment.definition.route.clone();
        let split = Split { experiment, begun_unix_ms, assigner, arms, shadows, base };
        self.catalog.splits.insert(route, Arc::new(split));
        Ok(())
    }

    /// The route serves everybody again, if this experiment divides it.
    pub fn clear_split(&mut self, experiment: &Experiment, begun_unix_ms: u64) {
        let Definition { name, route, .. } = &experiment.definition;
        let split = self.catalog.splits.get(route);
        if split.is_some_and(|split| split.name() == name && split.begun_unix_ms == begun_unix_ms) {
            self.catalog.splits.remove(route);
        }
    }

    /// Divides routes that have been bound anew as they were divided before. What does not fit is out of force until it does:
    /// a split is of one route, and not of another that took its name.
    fn follow_routes(&mut self) {
        let splits: Vec<Arc<Split>> = self.catalog.splits.values().map(Arc::clone).collect();
        for split in splits {
            if let Err(error) = self.set_split(&split.experiment, split.begun_unix_ms) {
                tracing::warn!(experiment = split.name(), %error, "the experiment is not in force for now");
            }
        }
    }

    /// What runs policies here.
    ///
    /// # Errors
    /// [`StartError::Sandbox`], if it cannot be set up.
    pub fn policy_host(&mut self) -> Result<Arc<PolicyHost>, StartError> {
        self.workshop.policies.host()
    }

    /// The revision of an uploaded component, by the SHA-256 of its bytes. It may have to be compiled, and others who change
    /// something wait meanwhile; a revision that somebody holds is there at once.
    ///
    /// # Errors
    /// [`LibraryError`], if nobody uploaded it or it does not load.
    pub fn revision(&self, digest: store::Digest) -> Result<Arc<Revision>, LibraryError> {
        self.workshop.policies.uploaded(digest)
    }

    /// From now on there are uploaded components.
    pub fn set_library(&mut self, library: Arc<Library>) {
        self.workshop.policies.set_library(library);
    }

    /// Tries whether an experiment could divide its route, and changes nothing.
    ///
    /// # Errors
    /// [`SplitError`], naming the key of the experiment.
    pub fn try_split(&mut self, experiment: &Experiment) -> Result<(), SplitError> {
        let before = self.catalog.splits.clone();
        let tried = self.set_split(experiment, 0);
        self.catalog.splits = before;
        tried
    }

    /// What serves an arm: the route itself, what served it before, or a route bound for it.
    fn arm(&mut self, arm: &Arm, base: &Arc<Route>, there: Option<&Split>) -> Result<SplitArm, SplitError> {
        let named = |route| Ok(SplitArm { name: arm.name.as_str().into(), route });
        if arm.is_plain() {
            return named(Arc::clone(base));
        }
        let written = split::written(arm, base, &self.catalog)?;
        let same = there.and_then(|split| split.same(arm, &written, base));
        if let Some(same) = same.filter(|same| self.catalog.has_models_of(&same.route)) {
            return named(Arc::clone(&same.route));
        }
        let failed = |error: StartError| SplitError::new(format!("arms.{}", arm.name), error.to_string());
        let bound = match &arm.revision {
            Some(revision) => {
                let revision = self.revision_of(arm, revision)?;
                self.workshop.policies.bind_to(&base.name, &written, (revision, &self.catalog))
            }
            None => self.workshop.policies.bind(&base.name, &written, &self.catalog),
        };
        let route = bound.map_err(failed)?;
        self.catalog.host = Some(self.workshop.policies.host().map_err(failed)?);
        named(Arc::new(route))
    }

    fn revision_of(&self, arm: &Arm, revision: &str) -> Result<Arc<Revision>, SplitError> {
        let key = format!("arms.{}.revision", arm.name);
        let digest = split::digest(revision).map_err(|problem| SplitError::new(key.clone(), problem))?;
        self.revision(digest).map_err(|error| SplitError::new(key, error.to_string()))
    }
}

/// How long after its last answer a retired route may still be there.
const LOOKS_APART: Duration = Duration::from_millis(200);
