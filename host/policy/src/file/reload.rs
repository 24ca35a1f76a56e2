//! Looks at the file and decides whether its content is to serve.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use super::{FailedLoad, FileStatus, Served};
use crate::digest::Digest;
use crate::error::{Fault, PolicyError};
use crate::host::PolicyHost;
use crate::revision::Revision;

/// Asked about every revision before it serves.
pub(super) type Check = Box<dyn Fn(&Revision) -> Result<(), String> + Send + Sync>;

/// Turns the content of the file into revisions.
pub(super) struct Reload {
    host: Arc<PolicyHost>,
    path: PathBuf,
    check: Check,
    /// What the file looked like before it was last read.
    stamp: Option<Stamp>,
    /// What failed last and would fail again.
    hopeless: Option<Digest>,
    /// Whether the next look must read even if nothing seems to have changed.
    again: bool,
}

impl Reload {
    /// Reads and loads the file for the first time.
    pub(super) fn first(
        host: Arc<PolicyHost>,
        path: &Path,
        check: Check,
    ) -> Result<(Self, Arc<Revision>), PolicyError> {
        let stamp = Stamp::of(path);
        let reload = Self { host, path: path.to_owned(), check, stamp, hopeless: None, again: false };
        let content = reload.read()?;
        let revision = reload.load(&content)?;
        Ok((reload, revision))
    }

    /// Replaces the revision if there is new and good content. `event`: something was reported to have happened;
    /// otherwise an unchanged stamp is believed.
    pub(super) fn look(&mut self, served: &Served, event: bool) {
        let stamp = Stamp::of(&self.path);
        if !event && !self.again && stamp.is_some() && stamp == self.stamp {
            return;
        }
        // Taken before reading: a change meanwhile makes the next stamp differ.
        self.stamp = stamp;
        self.again = false;
        match self.read() {
            Ok(content) => self.consider(served, &content),
            Err(error) => self.fail(served, None, error),
        }
    }

    fn consider(&mut self, served: &Served, content: &[u8]) {
        let digest = Digest::of(content);
        if digest == served.current.load().digest() {
            self.hopeless = None;
            return served.update(|status| status.failed = None);
        }
        if self.hopeless == Some(digest) {
            return;
        }
        match self.load(content) {
            Ok(revision) => {
                let before = served.current.swap(Arc::clone(&revision));
                self.hopeless = None;
                tracing::info!(path = %self.path.display(), revision = %digest, before = %before.digest(), "policy reloaded");
                served.update(|status| {
                    *status = FileStatus { serving: digest, loads: status.loads + 1, failed: None };
                });
            }
            Err(error) => self.fail(served, Some(digest), error),
        }
    }

    fn fail(&mut self, served: &Served, digest: Option<Digest>, error: PolicyError) {
        // What is our fault may pass by itself, so it is tried at every look.
        self.again = error.fault() == Fault::Ours;
        self.hopeless = digest.filter(|_| !self.again);
        let error = Arc::new(error);
        served.update(|status| {
            let known = status.failed.as_ref();
            if known.is_some_and(|failed| failed.digest == digest && failed.error.cause() == error.cause()) {
                return;
            }
            tracing::warn!(
                path = %self.path.display(),
                serving = %status.serving,
                refused = digest.map(tracing::field::display),
                error = &*error as &dyn std::error::Error,
                "policy not reloaded; the revision before it goes on serving"
            );
            status.failed = Some(FailedLoad { at: SystemTime::now(), digest, error: Arc::clone(&error) });
        });
    }

    fn load(&self, content: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        let revision = self.host.load(content)?;
        let digest = revision.digest();
        (self.check)(&revision).map_err(|why| PolicyError::Refused { digest, why })?;
        Ok(revision)
    }

    /// Never more than one byte over the limit, which is enough to be refused.
    fn read(&self) -> Result<Vec<u8>, PolicyError> {
        let most = self.host.limits().component_bytes as u64;
        let read = || -> io::Result<Vec<u8>> {
            // A pipe would block the thread for ever.
            if !fs::metadata(&self.path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
            }
            let mut content = Vec::new();
            File::open(&self.path)?.take(most + 1).read_to_end(&mut content)?;
            Ok(content)
        };
        read().map_err(|source| PolicyError::Read { path: self.path.clone(), source })
    }
}

impl Served {
    /// Changes the status and tells those who wait for it.
    fn update(&self, change: impl FnOnce(&mut FileStatus)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// What the file system says about a file without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Device, inode and change time: they also tell of a replacement that kept size and modification time.
    identity: [u64; 4],
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            identity: identity(&metadata),
        })
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> [u64; 4] {
    use std::os::unix::fs::MetadataExt;
    [metadata.dev(), metadata.ino(), metadata.ctime().cast_unsigned(), metadata.ctime_nsec().cast_unsigned()]
}

#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> [u64; 4] {
    [0; 4]
}
