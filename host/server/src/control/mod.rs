//! What may change while the server runs, and the one way to change it.
//!
//! A change is made durable in the [`Store`], with its entry in the audit log, and then put in force in the [`Runtime`];
//! one change at a time, away from the threads that answer requests. Nothing here speaks HTTP.

use std::sync::{Arc, Mutex, PoisonError};

use store::{Store, StoreError};

use crate::access::{Access, Clock};
use crate::config::Config;
use crate::experiments::{ExperimentError, Experiments};
use crate::runtime::Runtime;

/// The running system and what is kept of it over restarts.
pub struct Control {
    runtime: Arc<Runtime>,
    access: Arc<Access>,
    store: Option<Store>,
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
    /// The thread that made the change has ended badly.
    #[error("the server failed at this change; its log says more")]
    Panicked,
}

impl Control {
    /// Of a system that is open to everybody and of which nothing is kept.
    #[must_use]
    pub fn open(runtime: Arc<Runtime>) -> Self {
        let access = Arc::new(Access::open(Clock::default()));
        let experiments = Experiments::new(Arc::clone(&runtime));
        Self { runtime, access, store: None, experiments, changing: Mutex::default() }
    }

    /// Of a system with this configuration; blocks on the disk and on compilers. Where changes are kept, those that were made before are put in force.
    ///
    /// # Errors
    /// [`ControlError::Store`], e.g. if another server uses the folder; [`ControlError::Experiments`], naming the table that
    /// cannot be had.
    pub fn new(runtime: Arc<Runtime>, config: &Config) -> Result<Self, ControlError> {
        let store = config.server.data_dir.as_deref().map(Store::open).transpose()?;
        let access = Arc::new(Access::new(&config.tenants));
        let control = Self { access, store, ..Self::open(runtime) };
        let begun = control.experiments.begin(&control, config);
        begun.map_err(|error| ControlError::Experiments(Box::new(error)))?;
        Ok(control)
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
        self.store.as_ref().ok_or(ControlError::NoDataDir)
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
