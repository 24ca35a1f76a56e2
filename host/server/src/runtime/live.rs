//! What is served now, and how it changes while requests run.
//!
//! A change is made on a copy and takes the catalog's place in one step. What a change takes out is kept until the last
//! request that began with it has ended: its drop may wait for a thread, which no decode loop must do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use policy::PolicyHost;
use tokio::sync::Notify;

use super::binding::Policies;
use super::catalog::{Catalog, Route};
use super::load::{LoadProgress, StartError};
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
        let kept = |name: &str, route: &Arc<Route>| {
            next.routes.get(name).is_some_and(|next| Arc::ptr_eq(next, route))
        };
        let gone = current.routes.iter().filter(|(name, route)| !kept(name, route));
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

    /// Adds a route, or takes it for the one of the same name.
    ///
    /// # Errors
    /// [`StartError`], naming the route.
    pub fn set_route(&mut self, name: &str, written: &config::Route) -> Result<(), StartError> {
        let there = self.catalog.routes.get(name);
        if there.is_some_and(|route| route.written.as_ref() == Some(written)) {
            return Ok(());
        }
        let route = self.policies.bind(name, written, &self.catalog)?;
        self.catalog.host = Some(self.policies.host()?);
        self.catalog.routes.insert(name.to_owned(), Arc::new(route));
        Ok(())
    }

    /// What runs policies here.
    ///
    /// # Errors
    /// [`StartError::Sandbox`], if it cannot be set up.
    pub fn policy_host(&mut self) -> Result<Arc<PolicyHost>, StartError> {
        self.policies.host()
    }
}

/// How long after its last answer a retired route may still be there.
const LOOKS_APART: Duration = Duration::from_millis(200);
