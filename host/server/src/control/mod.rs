//! What may change while the server runs, and the one way to change it.
//!
//! A change is made durable in the [`Store`], with its entry in the audit log, and then put in force in the [`Runtime`];
//! one change at a time, away from the threads that answer requests. Nothing here speaks HTTP.

mod keys;
pub mod policies;
mod reload;
mod watch;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use policy::Revision;
use store::{Digest, Store, StoreError};

pub use keys::{KeyError, Wanted};
pub use reload::ReloadError;
pub use watch::{Status, Watch};

use crate::access::Access;
use crate::config::Config;
use crate::experiments::{ExperimentError, Experiments};
use crate::runtime::{Library, LibraryError, Runtime, StartError};
use policies::Uploading;

/// The running system and what is kept of it over restarts.
pub struct Control {
    runtime: Arc<Runtime>,
    access: Arc<Access>,
    /// The configuration in force.
    config: ArcSwap<Config>,
    /// Where it is read from again, if it came from a file.
    watch: OnceLock<Arc<Watch>>,
    store: Option<Arc<Store>>,
    /// Uploaded components as revisions; there if the store is.
    library: Option<Arc<Library>>,
    /// Uploads that are on their way.
    uploading: Arc<Uploading>,
    experiments: Experiments,
    /// Held while a change is made, so that what is in force is what was made durable last.
    changing: Mutex<()>,
}

/// A change that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Nothing is kept over restarts here.
    #[error("this server keeps nothing over restarts; start it with --data-dir DIR (or server.data_dir)")]
    NoDataDir,
    /// What is kept cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The experiments of the configuration cannot be had.
    #[error(transparent)]
    Experiments(Box<ExperimentError>),
    /// Policies cannot be run here.
    #[error(transparent)]
    Start(#[from] Box<StartError>),
    /// The thread that made the change has ended badly.
    #[error("the server failed at this change; its log says more")]
    Panicked,
}

impl Control {
    /// Of a system that was started with this configuration; blocks on the disk and on compilers. Where changes are kept, those
    /// that were made before are put in force.
    ///
    /// # Errors
    /// [`ControlError::Store`], e.g. if another server uses the folder; [`ControlError::Experiments`], naming the table that
    /// cannot be had.
    pub fn new(runtime: Arc<Runtime>, config: &Config) -> Result<Self, ControlError> {
        let store = config.server.data_dir.as_deref().map(Store::open).transpose()?.map(Arc::new);
        let library = store.as_ref().map(|store| library(&runtime, store, config)).transpose()?;
        let control = Self {
            experiments: Experiments::new(Arc::clone(&runtime)),
            runtime,
            access: Arc::new(Access::new(&config.tenants)),
            config: ArcSwap::from_pointee(config.clone()),
            watch: OnceLock::new(),
            store,
            library,
            uploading: Arc::default(),
            changing: Mutex::default(),
        };
        control.access.set(&config.tenants, &control.made_keys()?);
        control.log_start()?;
        control.restore_policies()?;
        // After what was uploaded: an arm may be a revision of it.
        let begun = control.experiments.begin(&control, config);
        begun.map_err(|error| ControlError::Experiments(Box::new(error)))?;
        Ok(control)
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.load_full()
    }

    /// Where the configuration is read from again, if it came from a file and somebody follows it.
    #[must_use]
    pub fn watch(&self) -> Option<&Arc<Watch>> {
        self.watch.get()
    }

    /// Who may ask.
    #[must_use]
    pub fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// The experiments on routes.
    #[must_use]
    pub fn experiments(&self) -> &Experiments {
        &self.experiments
    }

    /// The running system.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// What is kept over restarts. Its calls wait for the disk: not for async threads.
    ///
    /// # Errors
    /// [`ControlError::NoDataDir`].
    pub fn store(&self) -> Result<&Store, ControlError> {
        self.store.as_deref().ok_or(ControlError::NoDataDir)
    }

    /// The revision of an uploaded component, by the SHA-256 of its bytes. It may have to be compiled, which delays nobody
    /// else: to be called before a change, whose [`Draft::revision`](crate::runtime::Draft::revision) then has it at once as
    /// long as this one is held. Not for async threads.
    ///
    /// # Errors
    /// [`LibraryError`], if nobody uploaded it or it does not load.
    pub fn revision(&self, digest: Digest) -> Result<Arc<Revision>, LibraryError> {
        self.library.as_ref().ok_or(LibraryError::NoStore(digest))?.revision(digest)
    }

    /// Makes a change, alone, on a thread where it may wait for the disk and for compilers. Once begun it is made, whether or
    /// not somebody waits for it.
    ///
    /// # Errors
    /// What `make` says, or [`ControlError::Panicked`].
    pub async fn alone<T, E>(
        self: &Arc<Self>,
        make: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<ControlError> + Send + 'static,
    {
        let control = Arc::clone(self);
        let made = tokio::task::spawn_blocking(move || {
            let _changing = control.changing.lock().unwrap_or_else(PoisonError::into_inner);
            make(&control)
        });
        made.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a change panicked; please report this");
            Err(ControlError::Panicked.into())
        })
    }
}

/// What was uploaded, for all who make routes.
fn library(runtime: &Runtime, store: &Arc<Store>, config: &Config) -> Result<Arc<Library>, Box<StartError>> {
    let made: Result<_, StartError> = runtime.change(|draft| {
        let (store, host) = (Arc::clone(store), draft.policy_host()?);
        let library = Arc::new(Library::new(store, host, config.uploads.child_limits()));
        draft.set_library(Arc::clone(&library));
        Ok(library)
    });
    made.map_err(Box::new)
}
