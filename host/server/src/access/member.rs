//! One tenant while the server runs: its settings, and what it uses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scheduler::{Behalf, Tenant};
use tenant::quota::Level;
use tenant::{Ledger, Refused, Table};

use super::Clock;
use crate::runtime::{Bill, Catalog, Route};

/// One tenant under its settings of a time.
pub(super) struct Member {
    name: String,
    table: Table,
    identity: Tenant,
    /// The tenant's under all its settings. Every call is one short step under this lock, so what fits is admitted exactly,
    /// however many ask at once.
    ledger: Arc<Mutex<Ledger>>,
    clock: Clock,
}

impl Member {
    pub(super) fn new(name: &str, table: &Table, identity: Tenant, clock: Clock) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new(table.quotas)));
        Self { name: name.to_owned(), table: table.clone(), identity, ledger, clock }
    }

    /// The same tenant under other settings.
    pub(super) fn with(&self, table: &Table) -> Self {
        self.ledger().set_quotas(table.quotas);
        let (ledger, clock) = (Arc::clone(&self.ledger), self.clock.clone());
        Self { name: self.name.clone(), table: table.clone(), identity: self.identity, ledger, clock }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn identity(&self) -> Tenant {
        self.identity
    }

    pub(super) fn behalf(&self) -> Behalf {
        let Table { share, priority, .. } = self.table;
        Behalf { tenant: self.identity, share, priority }
    }

    pub(super) fn find<'a>(&self, catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Route>> {
        let route = catalog.routes.get(name)?;
        if route.is_model() {
            self.table.model(&catalog.routes, name)
        } else {
            self.table.route(&catalog.routes, name)
        }
    }

    /// Whether it may see a route, served or not.
    pub(super) fn sees(&self, catalog: &Catalog, route: &str) -> bool {
        self.table.route(&catalog.routes, route).is_some()
            || self.table.route(&catalog.broken, route).is_some()
    }

    pub(super) fn reserve(&self, tokens: usize) -> Result<Bill, Refused> {
        let ask = tenant::Ask { journeys: 1, tokens: tokens as u64 };
        let reservation = self.ledger().reserve(ask, self.clock.elapsed())?;
        let (ledger, clock) = (Arc::clone(&self.ledger), self.clock.clone());
        Ok(Bill::to(move |used| {
            let now = clock.elapsed();
            ledger.lock().unwrap_or_else(PoisonError::into_inner).settle(reservation, used, now);
        }))
    }

    pub(super) fn levels(&self) -> [Option<Level>; 2] {
        self.ledger().levels(self.clock.elapsed())
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
