//! A policy file that is reloaded when it changes.
//!
//! Three parts: `sight` tells the thread that something may have changed, `reload` finds out and replaces the revision,
//! and this file holds what the rest of the server sees. No event is trusted: whatever happens near the file, and once
//! a second, the file is looked at again, and its content alone decides.

mod reload;
mod sight;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;

use self::reload::Reload;
use self::sight::{Sight, nudge};
use crate::digest::Digest;
use crate::error::PolicyError;
use crate::host::PolicyHost;
use crate::revision::Revision;

/// Keeps the newest good revision of a file. Bad content never replaces a good revision: it is logged once, kept in
/// [`PolicyFile::status`], and the old revision goes on serving. New content serves within two seconds, compilation
/// aside, however it was put there: written in place, renamed over, or by a symlink anywhere on the path.
///
/// Dropping it ends the watch; it waits for a load that is under way.
pub struct PolicyFile {
    served: Arc<Served>,
    stopping: Arc<AtomicBool>,
    wake: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

/// How the reloading of a file goes.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// The revision that serves.
    pub serving: Digest,
    /// Revisions that have served since the file was opened, the first one included.
    pub loads: u64,
    /// The last look that failed, until a look succeeds.
    pub failed: Option<FailedLoad>,
}

/// Why the content of a file does not serve.
#[derive(Clone, Debug)]
pub struct FailedLoad {
    /// When it was first seen to fail.
    pub at: SystemTime,
    /// What was read; `None` where nothing could be.
    pub digest: Option<Digest>,
    /// What is wrong.
    pub error: Arc<PolicyError>,
}

/// Written by the reloading thread, read by everyone.
struct Served {
    path: PathBuf,
    current: ArcSwap<Revision>,
    status: Mutex<FileStatus>,
    changed: Condvar,
}

impl PolicyFile {
    /// Loads the file and watches it from now on.
    ///
    /// `check` is asked about every revision before it serves: it refuses one that the configured routes cannot use.
    ///
    /// # Errors
    /// Whatever is wrong with the file as it is now.
    pub fn open(
        host: Arc<PolicyHost>,
        path: &Path,
        check: impl Fn(&Revision) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, PolicyError> {
        let path = std::path::absolute(path)
            .map_err(|source| PolicyError::Read { path: path.to_owned(), source })?;
        // One wake-up in the channel is enough: it means "look", not what happened.
        let (wake, woken) = sync_channel(1);
        // The watch comes before the first look, so that no change falls between them.
        let sight = Sight::new(&path, wake.clone());
        let (reload, first) = Reload::first(host, &path, Box::new(check))?;
        let status = FileStatus { serving: first.digest(), loads: 1, failed: None };
        let served = Arc::new(Served {
            path,
            current: ArcSwap::new(first),
            status: Mutex::new(status),
            changed: Condvar::new(),
        });
        let stopping = Arc::new(AtomicBool::new(false));
        let watch =
            Watch { served: Arc::clone(&served), stopping: Arc::clone(&stopping), woken, sight, reload };
        let thread = thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(move || watch.run())
            .map_err(|source| PolicyError::Thread { name: NAME, source })?;
        Ok(Self { served, stopping, wake, thread: Some(thread) })
    }

    /// The revision for a journey that begins now. Never blocks.
    #[must_use]
    pub fn current(&self) -> Arc<Revision> {
        self.served.current.load_full()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.served.path
    }

    /// How the reloading goes.
    #[must_use]
    pub fn status(&self) -> FileStatus {
        self.served.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the status satisfies `wanted`, at most `patience`; answers the last status either way.
    #[must_use]
    pub fn wait(&self, patience: Duration, wanted: impl Fn(&FileStatus) -> bool) -> FileStatus {
        let status = self.served.status.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.served.changed.wait_timeout_while(status, patience, |status| !wanted(status));
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        nudge(&self.wake);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(path = %self.served.path.display(), "the thread {NAME} panicked");
        }
    }
}

impl fmt::Debug for PolicyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFile").field("path", &self.served.path).finish_non_exhaustive()
    }
}

/// The thread's own state.
struct Watch {
    served: Arc<Served>,
    stopping: Arc<AtomicBool>,
    woken: Receiver<()>,
    sight: Sight,
    reload: Reload,
}

impl Watch {
    fn run(mut self) {
        loop {
            let event = match self.woken.recv_timeout(POLL) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if event {
                self.settle();
            }
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            self.sight.renew();
            self.reload.look(&self.served, event);
        }
    }

    /// Waits until the events have paused, so that a file is read when it is whole; not for ever, as other files of
    /// the directory may never pause.
    fn settle(&self) {
        let latest = Instant::now() + SETTLE_MOST;
        while !self.stopping.load(Ordering::Acquire) && Instant::now() < latest {
            if self.woken.recv_timeout(QUIET).is_err() {
                return;
            }
        }
    }
}

/// Between looks when no event comes: over a network file system, or after a watch was lost.
const POLL: Duration = Duration::from_secs(1);
/// Events closer together than this belong to one change.
const QUIET: Duration = Duration::from_millis(100);
const SETTLE_MOST: Duration = Duration::from_millis(500);
const NAME: &str = "policy-file";
