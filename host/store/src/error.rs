//! What can go wrong with what is kept.

use std::io;
use std::path::PathBuf;

use crate::digest::Digest;
use crate::records::Kind;

/// The store could not do what it was asked. A change that fails has not happened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process has the store.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// A newer version of this program wrote the store.
    #[error("the store has format {found}, but this version knows only up to {known}")]
    Newer {
        /// What is there.
        found: u64,
        /// The newest that is known.
        known: u64,
    },
    /// The database under the records.
    #[error("the database of the store")]
    Database(#[source] Box<redb::Error>),
    /// A file or folder.
    #[error("{doing} {path}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A record that is not what it should be.
    #[error("the {kind} {name:?} is not understood")]
    Record {
        /// Its kind.
        kind: Kind,
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// An observation that is not what it should be.
    #[error("what was observed as {0:?} is not understood")]
    Observation(String, #[source] serde_json::Error),
    /// There are no bytes with this digest.
    #[error("there is no blob {0}")]
    NoBlob(Digest),
    /// A blob whose bytes have another digest than its name says.
    #[error("the blob {0} is damaged")]
    DamagedBlob(Digest),
    /// The audit log does not hold together, or says otherwise than the records.
    #[error("the audit log does not verify: {0}")]
    Audit(String),
}

impl StoreError {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

/// One conversion for every kind of error that redb has.
macro_rules! database {
    ($($error:ty),*) => {
        $(impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                Self::Database(Box::new(error.into()))
            }
        })*
    };
}

database!(
    redb::CommitError,
    redb::DatabaseError,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError
);
