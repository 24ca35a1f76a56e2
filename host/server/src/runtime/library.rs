//! Uploaded components by digest: from bytes in the store to revisions that sessions can be started from.
//!
//! Whoever compiles here waits for a process of its own, so nothing of it happens under a lock: neither the catalog's nor
//! the one that changes are made under.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use policy::{ChildLimits, PolicyError, PolicyHost, Revision};
use store::{Digest, Store, StoreError};

/// The components of a store, as revisions.
pub struct Library {
    store: Arc<Store>,
    /// Another one once the limits of policies change.
    host: ArcSwap<PolicyHost>,
    limits: ChildLimits,
    /// Those that somebody uses; each is compiled once.
    loaded: Mutex<BTreeMap<Digest, Weak<Revision>>>,
}

/// A component that is not there, or does not load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// Nobody uploaded it, or its bytes cannot be read.
    #[error("revision {digest}: {source}")]
    Store {
        /// What was asked for.
        digest: Digest,
        /// Why not.
        source: StoreError,
    },
    /// It does not load.
    #[error("revision {digest}: {source}")]
    Policy {
        /// What was asked for.
        digest: Digest,
        /// Why not.
        source: Box<PolicyError>,
    },
    /// Nothing is kept over restarts here, so nothing was uploaded.
    #[error("revision {0} cannot be there: this server keeps nothing; start it with --data-dir DIR")]
    NoStore(Digest),
}

impl Library {
    /// Of what is in this store; compiled under these limits.
    #[must_use]
    pub fn new(store: Arc<Store>, host: Arc<PolicyHost>, limits: ChildLimits) -> Self {
        Self { store, host: ArcSwap::new(host), limits, loaded: Mutex::default() }
    }

    /// The revision with this digest. It is compiled, in a process of its own, unless somebody uses it or its machine code
    /// is kept.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn revision(&self, digest: Digest) -> Result<Arc<Revision>, LibraryError> {
        if let Some(there) = self.used(digest) {
            return Ok(there);
        }
        let component =
            self.store.blobs().get(digest).map_err(|source| LibraryError::Store { digest, source })?;
        self.load(&component).map_err(|source| LibraryError::Policy { digest, source: Box::new(source) })
    }

    /// The revision of these bytes, which need not be in the store.
    ///
    /// # Errors
    /// Why they cannot serve.
    pub fn load(&self, component: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        let digest = Digest::of(component);
        if let Some(there) = self.used(digest) {
            return Ok(there);
        }
        let revision = self.compile(component)?;
        let mut loaded = self.loaded();
        loaded.retain(|_, revision| revision.strong_count() > 0);
        // Whoever was first is kept, so that all who use these bytes share health and instances.
        if let Some(first) = loaded.get(&digest).and_then(Weak::upgrade) {
            return Ok(first);
        }
        loaded.insert(digest, Arc::downgrade(&revision));
        Ok(revision)
    }

    /// What runs the revisions.
    #[must_use]
    pub fn host(&self) -> Arc<PolicyHost> {
        self.host.load_full()
    }

    /// Revisions run on this one from now on; those that somebody uses stay where they are.
    pub fn set_host(&self, host: Arc<PolicyHost>) {
        self.host.store(host);
        self.loaded().clear();
    }

    fn used(&self, digest: Digest) -> Option<Arc<Revision>> {
        self.loaded().get(&digest).and_then(Weak::upgrade)
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<Digest, Weak<Revision>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(unix)]
    fn compile(&self, component: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        self.host().load_in_child(component, &self.limits)
    }

    /// Where there is no such process, the server compiles.
    #[cfg(not(unix))]
    fn compile(&self, component: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        self.host().load(component)
    }
}
