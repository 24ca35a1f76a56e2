//! Another configuration takes the place of the one in force: whole, or not at all.

use std::sync::Arc;

use policy::Revision;
use store::{Change, Kind, StoreError, Why};

use super::{Control, ControlError};
use crate::config::{Config, ConfigError, Difference};
use crate::experiments::ExperimentError;
use crate::runtime::{LoadProgress, StartError};
use crate::unix;

/// A configuration that does not take the place of the one in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It changes what cannot change.
    #[error("{} cannot change while the server runs; restart it, or take that back", .0.join(", "))]
    Frozen(Vec<String>),
    /// Something that it names does not load.
    #[error(transparent)]
    Start(Box<StartError>),
    /// An experiment of it cannot be had.
    #[error(transparent)]
    Experiments(#[from] Box<ExperimentError>),
    /// It cannot be kept, or putting it in force failed.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl From<StartError> for ReloadError {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

impl Control {
    /// What a configuration has from registries, to be held until it is in force. Those that come may take their time, and
    /// nobody's change waits for it: to be called before the change. Not for async threads.
    ///
    /// # Errors
    /// [`StartError::Pulled`], naming the key.
    pub fn pull(&self, next: &Config) -> Result<Vec<Arc<Revision>>, StartError> {
        next.pinned().iter().map(|named| self.runtime.pull(named, next)).collect()
    }

    /// Puts a configuration in force, and tells what it changed. Requests that run keep what they began with, models of which
    /// nothing is written otherwise stay loaded, and after an error nothing has changed. To be called by [`Control::alone`], while
    /// what [`Control::pull`] gave is held.
    ///
    /// # Errors
    /// [`ReloadError`], naming the key.
    pub fn put_in_force(
        &self,
        next: &Config,
        progress: &mut dyn LoadProgress,
    ) -> Result<Vec<Difference>, ReloadError> {
        let now = self.config();
        let differences = now.differences(next);
        let frozen: Vec<String> =
            differences.iter().filter(|one| !one.is_live()).map(Difference::key).collect();
        if !frozen.is_empty() {
            return Err(ReloadError::Frozen(frozen));
        }
        if differences.is_empty() {
            return Ok(differences);
        }
        let begun = self.experiments.foresee(next).map_err(Box::new)?;
        let made_keys = self.made_keys()?;
        let touches = |table: &str| differences.iter().any(|one| one.path[0] == table);
        self.runtime.change(|draft| {
            if touches("sandbox") {
                draft.set_sandbox(next);
            }
            draft.set_models(next, progress)?;
            draft.set_routes(&next.routes, progress)?;
            for experiment in &begun {
                let tried = draft.try_split(experiment);
                let name = &experiment.definition.name;
                tried.map_err(|source| StartError::Split { experiment: name.clone(), source })?;
            }
            self.log_config(next, &differences).map_err(ReloadError::from)
        })?;
        if touches("scheduler") {
            self.runtime.reschedule(&next.scheduler);
        }
        self.access.set(&next.tenants, &made_keys);
        self.config.store(Arc::new(next.clone()));
        self.experiments.follow(self, next).map_err(Box::new)?;
        Ok(differences)
    }

    /// What the server was started with, in the audit log, if that is not what was in force last.
    pub(super) fn log_start(&self) -> Result<(), ControlError> {
        let Ok(store) = self.store() else { return Ok(()) };
        let written = &self.config().written;
        let last = store.get::<serde_json::Value>(Kind::Configuration, "server")?;
        if last.is_some_and(|last| last.value == *written) {
            return Ok(());
        }
        self.log(written, Why { action: "start", detail: "with another configuration than before" })
    }

    fn log_config(&self, next: &Config, differences: &[Difference]) -> Result<(), ControlError> {
        let detail = differences.iter().map(Difference::key).collect::<Vec<_>>().join(", ");
        self.log(&next.written, Why { action: "reload", detail: &detail })
    }

    /// What is in force, in the audit log.
    fn log(&self, written: &serde_json::Value, why: Why<'_>) -> Result<(), ControlError> {
        let Ok(store) = self.store() else { return Ok(()) };
        let put = |change: &mut Change<'_>| change.put(Kind::Configuration, "server", written, why).map(drop);
        Ok(store.change::<_, StoreError>("file", unix::now_ms(), put)?)
    }
}
