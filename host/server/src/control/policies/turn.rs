//! Whose turn it is to upload: one of a tenant at a time, and a few of all.
//!
//! A tenant's turn begins before its bytes are read, so that what is in memory is bounded by the number of tenants. The few
//! places for what takes processors begin after that, so that a slow connection keeps nobody else from one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::PoliciesError;

/// The uploads that are under way.
pub struct Uploading {
    tenants: Mutex<BTreeSet<String>>,
    places: Arc<Semaphore>,
}

/// A tenant's turn; it ends when this is dropped.
pub struct Turn {
    of: Arc<Uploading>,
    tenant: String,
}

impl Default for Uploading {
    fn default() -> Self {
        Self { tenants: Mutex::default(), places: Arc::new(Semaphore::new(PLACES)) }
    }
}

impl Uploading {
    /// Begins a tenant's turn.
    ///
    /// # Errors
    /// [`PoliciesError::TenantBusy`].
    pub(super) fn begin(self: &Arc<Self>, tenant: &str) -> Result<Turn, PoliciesError> {
        if !self.tenants().insert(tenant.to_owned()) {
            return Err(PoliciesError::TenantBusy);
        }
        Ok(Turn { of: Arc::clone(self), tenant: tenant.to_owned() })
    }

    fn tenants(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Whose it is.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// A place to compile and try in.
    ///
    /// # Errors
    /// [`PoliciesError::Busy`].
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, PoliciesError> {
        Arc::clone(&self.of.places).try_acquire_owned().map_err(|_| PoliciesError::Busy)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.of.tenants().remove(&self.tenant);
    }
}

/// Processes that compile or try at the same time. They give way to everything else, but memory is theirs.
const PLACES: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_one_turn_and_all_have_a_few_places() {
        let uploading = Arc::new(Uploading::default());
        let begin = |tenant: &str| uploading.begin(tenant);
        let (one, two, three) = (begin("a").unwrap(), begin("b").unwrap(), begin("c").unwrap());
        assert!(matches!(begin("a"), Err(PoliciesError::TenantBusy)));
        let places = [one.place().unwrap(), two.place().unwrap()];
        assert!(matches!(three.place(), Err(PoliciesError::Busy)));
        drop((one, places));
        assert!(begin("a").is_ok() && three.place().is_ok());
    }
}
