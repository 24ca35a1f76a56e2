//! Places among the journeys alive, and which tenant has how many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scheduler::Tenant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    held: Mutex<BTreeMap<Tenant, usize>>,
}

/// A place that a tenant has until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    places: Arc<Places>,
    tenant: Tenant,
    /// Held for its drop.
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), held: Mutex::default() }
    }

    /// The next place that is free.
    pub(super) fn next(self: &Arc<Self>) -> impl Future<Output = OwnedSemaphorePermit> + use<> {
        let free = Arc::clone(&self.free);
        async move { free.acquire_owned().await.expect("places are never closed") }
    }

    /// How many are free now.
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// How many a tenant has.
    pub(super) fn held(&self, tenant: Tenant) -> usize {
        self.count().get(&tenant).copied().unwrap_or(0)
    }

    /// Gives a place to a tenant.
    pub(super) fn hold(self: &Arc<Self>, tenant: Tenant, permit: OwnedSemaphorePermit) -> Held {
        *self.count().entry(tenant).or_default() += 1;
        Held { places: Arc::clone(self), tenant, _permit: permit }
    }

    fn count(&self) -> MutexGuard<'_, BTreeMap<Tenant, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut count = self.places.count();
        match count.get_mut(&self.tenant) {
            Some(held) if *held > 1 => *held -= 1,
            _ => {
                count.remove(&self.tenant);
            }
        }
    }
}
