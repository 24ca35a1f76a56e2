//! A policy file that is reloaded when it changes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::digest::Digest;
use crate::error::PolicyError;
use crate::host::PolicyHost;
use crate::revision::Revision;

/// Keeps the newest good revision of a file. Bad content never replaces a good revision: it is logged once, kept in
/// [`PolicyFile::status`], and the old revision goes on serving.
pub struct PolicyFile {}

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
    /// When it was looked at.
    pub at: SystemTime,
    /// What was read; `None` where nothing could be.
    pub digest: Option<Digest>,
    /// What is wrong.
    pub error: Arc<PolicyError>,
}

impl PolicyFile {
    /// Loads the file and watches it from now on.
    ///
    /// `check` is asked about every revision before it serves: it refuses one that the configured routes cannot use.
    ///
    /// # Errors
    /// Whatever is wrong with the file as it is now.
    pub fn open(
        _host: Arc<PolicyHost>,
        _path: &Path,
        _check: impl Fn(&Revision) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, PolicyError> {
        unimplemented!("the next commit")
    }

    /// The revision for a journey that begins now. Never blocks.
    #[must_use]
    pub fn current(&self) -> Arc<Revision> {
        unimplemented!("the next commit")
    }

    /// How the reloading goes.
    #[must_use]
    pub fn status(&self) -> FileStatus {
        unimplemented!("the next commit")
    }

    /// Waits until the status satisfies `wanted`, at most `patience`; answers the last status either way.
    #[must_use]
    pub fn wait(&self, _patience: Duration, _wanted: impl Fn(&FileStatus) -> bool) -> FileStatus {
        unimplemented!("the next commit")
    }
}
