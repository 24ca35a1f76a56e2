//! What is served now, and how it changes while requests run.
//!
//! A change is made on a copy and takes the catalog's place in one step. What a change takes out is kept until the last
//! request that began with it has ended: its drop may wait for a thread, which no decode loop must do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use experiment::definition::{Arm, Definition};
use experiment::{Assigner, Experiment};
use policy::PolicyHost;
use tokio::sync::Notify;

use super::binding::Policies;
use super::catalog::{Catalog, Route};
use super::load::{LoadProgress, StartError};
use super::split::{self, Split, SplitArm, SplitError};
use crate::config::{self, Config};

/// The catalog in force.
pub(super) struct Live {
    /// Read for every request, and never waited for.
    current: ArcSwap<Catalog>,
    /// Held while a change is made.
    policies: Mutex<Policies>,
    /// Routes that are out of the catalog and may still have requests.
    retired: Mutex<Vec<Arc<Route>>>,
    /// Something was retired.
    left: Notify,
}

/// A catalog that is being changed.
pub struct Draft<'a> {
    policies: &'a mut Policies,
    catalog: Catalog,
}

impl Live {
    pub(super) fn new(config: &Config, catalog: Catalog) -> Self {
        Self {
            current: ArcSwap::from_pointee(catalog),
            policies: Mutex::new(Policies::new(config)),
            retired: Mutex::default(),
            left: Notify::new(),
        }
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.current.load_full()
    }

    pub(super) fn change<T, E>(&self, change: impl FnOnce(&mut Draft<'_>) -> Result<T, E>) -> Result<T, E> {
        let mut policies = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = Catalog::clone(&self.current.load());
        let mut draft = Draft { policies: &mut policies, catalog };
        let told = change(&mut draft)?;
        draft.follow_routes();
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
        for (name, written) in routes {
            self.set_route(name, written)?;
            progress.route(name);
        }
        Ok(())
    }

    /// Adds a route, or takes it for the one of the same name. An experiment on it goes on, over the new one.
    ///
    /// # Errors
    /// [`StartError`], naming the route, or the experiment whose arms do not fit the new one.
    pub fn set_route(&mut self, name: &str, written: &config::Route) -> Result<(), StartError> {
        let there = self.catalog.routes.get(name);
        if there.is_some_and(|route| route.written.as_ref() == Some(written)) {
            return Ok(());
        }
        let route = self.policies.bind(name, written, &self.catalog)?;
        self.catalog.host = Some(self.policies.host()?);
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
        if there.as_ref().is_some_and(|split| split.is_of(experiment, begun_unix_ms, &base)) {
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
        self.policies.host()
    }

    /// What serves an arm: the route itself, what served it before, or a route bound for it.
    fn arm(&mut self, arm: &Arm, base: &Arc<Route>, there: Option<&Split>) -> Result<SplitArm, SplitError> {
        let named = |route| Ok(SplitArm { name: arm.name.as_str().into(), route });
        if arm.is_plain() {
            return named(Arc::clone(base));
        }
        let written = split::written(arm, base, &self.catalog)?;
        let mut before = there.into_iter().flat_map(|split| split.arms.iter().chain(&split.shadows));
        let is_same =
            |there: &&SplitArm| *there.name == *arm.name && there.route.written.as_ref() == Some(&written);
        if let Some(same) = before.find(is_same) {
            return named(Arc::clone(&same.route));
        }
        let failed = |error: StartError| SplitError::new(format!("arms.{}", arm.name), error.to_string());
        let route = self.policies.bind(&base.name, &written, &self.catalog).map_err(failed)?;
        self.catalog.host = Some(self.policies.host().map_err(failed)?);
        named(Arc::new(route))
    }
}

/// How long after its last answer a retired route may still be there.
const LOOKS_APART: Duration = Duration::from_millis(200);
