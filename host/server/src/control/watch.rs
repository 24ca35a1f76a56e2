//! The configuration's file is read again when it has changed.
//!
//! It is looked at once a second, and at a signal: that is certain on every file system and for every way to replace a
//! file, a ConfigMap's symbolic links among them, and costs one read of a small file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use super::reload::ReloadError;
use super::{Control, ControlError};
use crate::config::{Config, ConfigError, Difference, Overrides};

/// Where the configuration comes from, and how reading it again goes.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    /// What the command line says in the file's place.
    overrides: Overrides,
    /// Rung to have it read at once.
    asked: Notify,
    status: Mutex<Status>,
}

/// How it goes.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Times that a changed file was put in force.
    pub reloads: u64,
    /// When that was last.
    pub last: Option<SystemTime>,
    /// Why the file as it is now is not in force, and since when.
    pub failed: Option<(SystemTime, String)>,
}

impl Watch {
    /// Of the file that the configuration in force was read from.
    #[must_use]
    pub fn new(path: &Path, overrides: Overrides) -> Self {
        Self { path: path.to_owned(), overrides, asked: Notify::new(), status: Mutex::default() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the file read now, whether or not it has changed.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// How it goes.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The configuration that the file holds now.
    fn read(&self) -> Result<Config, ConfigError> {
        Config::read(&self.path).map(|config| config.with(&self.overrides))
    }

    fn content(&self) -> Option<Vec<u8>> {
        std::fs::read(&self.path).ok()
    }
}

impl Control {
    /// Follows a file, for ever.
    pub async fn follow(self: Arc<Self>, watch: Arc<Watch>) {
        if self.watch.set(Arc::clone(&watch)).is_err() {
            tracing::error!("the configuration is followed already");
            return;
        }
        let mut seen = content(&watch).await;
        loop {
            let asked = tokio::time::timeout(LOOKS_APART, watch.asked.notified()).await.is_ok();
            let now = content(&watch).await;
            if !asked && now == seen {
                continue;
            }
            // Somebody may be writing it: what is the same twice is whole.
            tokio::time::sleep(SETTLE).await;
            let again = content(&watch).await;
            if again != now {
                continue;
            }
            seen = again;
            self.read_again(&watch).await;
        }
    }

    async fn read_again(self: &Arc<Self>, watch: &Arc<Watch>) {
        let path = watch.path.display();
        match self.take_over(watch).await {
            Ok(differences) => {
                for difference in &differences {
                    tracing::info!(file = %path, change = %difference, "configuration");
                }
                watch.tell(|status| {
                    status.failed = None;
                    status.reloads += u64::from(!differences.is_empty());
                    status.last = Some(SystemTime::now());
                });
            }
            Err(error) => {
                tracing::error!(file = %path, %error, "the configuration is not taken over; the one before stays");
                watch.tell(|status| status.failed = Some((SystemTime::now(), error.to_string())));
            }
        }
    }
}

impl Control {
    /// Reads the file, brings what it has from elsewhere, and only then has others wait.
    async fn take_over(self: &Arc<Self>, watch: &Arc<Watch>) -> Result<Vec<Difference>, ReloadError> {
        let (control, of) = (Arc::clone(self), Arc::clone(watch));
        let reading = tokio::task::spawn_blocking(move || -> Result<_, ReloadError> {
            let next = of.read()?;
            let held = control.pull(&next)?;
            Ok((next, held))
        });
        let read = reading.await.unwrap_or_else(|error| {
            tracing::error!(%error, "reading the configuration panicked; please report this");
            Err(ControlError::Panicked.into())
        });
        let (next, held) = read?;
        self.alone(move |control| {
            let _held = held;
            control.put_in_force(&next, &mut ())
        })
        .await
    }
}

/// Away from the threads that answer: a file system may take its time.
async fn content(watch: &Arc<Watch>) -> Option<Vec<u8>> {
    let of = Arc::clone(watch);
    tokio::task::spawn_blocking(move || of.content()).await.ok().flatten()
}

const LOOKS_APART: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_millis(100);
