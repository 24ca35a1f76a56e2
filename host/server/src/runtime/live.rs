//! What is served now, and how it changes while requests run.
//!
//! A change is made on a copy and takes the catalog's place in one step. What a change takes out is kept until the last
//! request that began with it has ended: its drop may wait for a thread, which no decode loop must do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use policy::{PolicyHost, Revision};
use tokio::sync::Notify;

use super::binding::Policies;
use super::catalog::{Catalog, Deciding, Model, ModelIx, Route};
use super::library::{Library, LibraryError};
use super::load::{Fresh, LoadProgress, Loader, StartError, assemble};
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
        let mut draft = Draft { workshop: &mut workshop, catalog };
        let told = change(&mut draft)?;
        draft.follow();
        let next = draft.catalog;
        self.retire(&next);
        self.current.store(Arc::new(next));
        Ok(told)
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
        let kept: BTreeSet<*const Route> = next.served().map(|(_, route)| Arc::as_ptr(route)).collect();
        let gone = current.served().filter(|(_, route)| !kept.contains(&Arc::as_ptr(route)));
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.extend(gone.map(|(_, route)| Arc::clone(route)));
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
        let model = Model { name: name.clone(), spec, tokenizer, heads, meter, written, subserver };
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

    /// Adds a route, or takes it for the one of the same name. One that follows what a tenant uploaded is broken while it
    /// does not fit.
    ///
    /// # Errors
    /// [`StartError`], naming the route.
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
        Ok(())
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
}

/// How long after its last answer a retired route may still be there.
const LOOKS_APART: Duration = Duration::from_millis(200);
