//! Opening the store, changing it, reading it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, Durability, ReadableDatabase as _, ReadableTable as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::audit::{self, Anchor, Author, Entry, Verified};
use crate::blobs::{Blobs, sync_folder};
use crate::change::{Change, parse};
use crate::digest::Digest;
use crate::error::StoreError;
use crate::policy_history::PolicyHistory;
use crate::records::{AUDIT, Area, FORMAT, Kind, META, OBSERVED, RECORDS, REMOVED, Record};

/// What is kept in one data directory. One process has it at a time; its threads share it.
#[derive(Debug)]
pub struct Store {
    database: Database,
    blobs: Blobs,
}

impl Store {
    /// Opens the store in this folder, and makes both if there are none; only this user can read them.
    ///
    /// After a crash the last committed state is there.
    ///
    /// # Errors
    /// [`StoreError`], e.g. if another process has it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let blobs = folder.join("blobs");
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o700).create(&blobs).map_err(StoreError::file("making", &blobs))?;
        let path = folder.join("state.redb");
        if !path.exists() {
            make_database(folder, &path)?;
        }
        Self::of(open_database(&path)?, Blobs::open(blobs)?)
    }

    /// The store in this database, which may be new.
    pub(crate) fn of(database: Database, blobs: Blobs) -> Result<Self, StoreError> {
        let store = Self { database, blobs };
        let transaction = store.write()?;
        {
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("format")?.map(|format| format.value());
            match found {
                Some(found) if found > FORMAT => return Err(StoreError::Newer { found, known: FORMAT }),
                Some(_) => {}
                None => {
                    meta.insert("format", FORMAT)?;
                }
            }
            // So that readers find every table.
            transaction.open_table(RECORDS)?;
            transaction.open_table(AUDIT)?;
            transaction.open_table(OBSERVED)?;
        }
        transaction.commit()?;
        Ok(store)
    }

    /// Makes a change: all that `make` does and its entries in the audit log are durable when this returns `Ok`, and
    /// nothing of it is there after an error. Other changes wait.
    ///
    /// `who` is a key's id, or a part of the server that acts by itself.
    ///
    /// # Errors
    /// What `make` returns, or [`StoreError`].
    pub fn change<T, E: From<StoreError>>(
        &self,
        who: &str,
        now_unix_ms: u64,
        make: impl FnOnce(&mut Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = self.write()?;
        let made = {
            let table = |error: redb::TableError| E::from(StoreError::from(error));
            let mut change = Change {
                author: Author { who, at_unix_ms: now_unix_ms },
                records: transaction.open_table(RECORDS).map_err(table)?,
                removed: transaction.open_table(REMOVED).map_err(table)?,
                log: transaction.open_table(AUDIT).map_err(table)?,
            };
            make(&mut change)?
        };
        transaction.commit().map_err(StoreError::from)?;
        Ok(made)
    }

    /// Keeps observations, by key, in place of earlier ones. One call is one transaction.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn observe<'a, T: Serialize + 'a>(
        &self,
        area: Area,
        now_unix_ms: u64,
        observed: impl IntoIterator<Item = (&'a str, &'a T)>,
    ) -> Result<(), StoreError> {
        let transaction = self.write()?;
        {
            let mut table = transaction.open_table(OBSERVED)?;
            for (key, value) in observed {
                let not_written = |source| StoreError::Observation(key.to_owned(), source);
                let bytes = serde_json::to_vec(value).map_err(not_written)?;
                table.insert((area.name(), key), (now_unix_ms, bytes.as_slice()))?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Forgets what was observed before a time, in milliseconds since 1970. Returns how much it was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn forget_before(&self, area: Area, unix_ms: u64) -> Result<usize, StoreError> {
        let transaction = self.write()?;
        let mut forgotten = 0;
        transaction.open_table(OBSERVED)?.retain(|(of, _), (at, _)| {
            let keep = of != area.name() || at >= unix_ms;
            forgotten += usize::from(!keep);
            keep
        })?;
        transaction.commit()?;
        Ok(forgotten)
    }

    /// An observation.
    ///
    /// # Errors
    /// [`StoreError`], if it cannot be read or is not a `T`.
    pub fn observed<T: DeserializeOwned>(&self, area: Area, key: &str) -> Result<Option<T>, StoreError> {
        let table = self.database.begin_read()?.open_table(OBSERVED)?;
        let value = table.get((area.name(), key))?;
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes);
        let parsed = value.map(|value| parse(value.value().1)).transpose();
        parsed.map_err(|source| StoreError::Observation(key.to_owned(), source))
    }

    /// A record.
    ///
    /// # Errors
    /// [`StoreError`], if it cannot be read or is not a `T`.
    pub fn get<T: DeserializeOwned>(&self, kind: Kind, name: &str) -> Result<Option<Record<T>>, StoreError> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        let bytes = table.get((kind.name(), name))?;
        bytes.map(|bytes| parse(kind, name, bytes.value())).transpose()
    }

    /// All records of a kind, by name, as they were at one moment.
    ///
    /// # Errors
    /// [`StoreError`], if they cannot be read or one is not a `T`.
    pub fn list<T: DeserializeOwned>(&self, kind: Kind) -> Result<BTreeMap<String, Record<T>>, StoreError> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        let mut records = BTreeMap::new();
        for item in table.range((kind.name(), "")..)? {
            let (key, bytes) = item?;
            let (of, name) = key.value();
            if of != kind.name() {
                break;
            }
            records.insert(name.to_owned(), parse(kind, name, bytes.value())?);
        }
        Ok(records)
    }

    /// Entries of the audit log from a number on (the first is 1), at most so many.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn audit(&self, from: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
        audit::read(&self.database.begin_read()?, from, most)
    }

    /// The last entry of the audit log, to be noted elsewhere; number 0 and zeros for an empty log.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn audit_head(&self) -> Result<Anchor, StoreError> {
        audit::head(&self.database.begin_read()?)
    }

    /// Whether the audit log holds together, holds the anchor, and says what the records are, and whether the bytes of
    /// every policy's revisions are there.
    ///
    /// # Errors
    /// [`StoreError`], telling the first thing that is wrong.
    pub fn verify(&self, anchor: Option<Anchor>) -> Result<Verified, StoreError> {
        let mut verified = audit::verify(&self.database.begin_read()?, anchor)?;
        for digest in self.revisions()? {
            self.blobs.get(digest)?;
            verified.revisions += 1;
        }
        Ok(verified)
    }

    /// The digests that policies name; see [`Blobs::keep_only`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn revisions(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let policies = self.list::<PolicyHistory>(Kind::Policy)?;
        let uploaded = policies.values().flat_map(|policy| &policy.value.revisions);
        Ok(uploaded.map(|uploaded| uploaded.digest).collect())
    }

    /// Bytes by digest. They are put before a record names them.
    #[must_use]
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    #[cfg(test)]
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    fn write(&self) -> Result<redb::WriteTransaction, StoreError> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate).expect("no savepoint is used");
        transaction.set_two_phase_commit(true);
        Ok(transaction)
    }
}

/// Makes an empty database under another name and renames it: a crash while a file of redb is new leaves one that it
/// does not open again.
fn make_database(folder: &Path, path: &Path) -> Result<(), StoreError> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StoreError::file("removing", new)(error));
        }
        _ => {}
    }
    drop(open_database(&new)?);
    fs::rename(&new, path).map_err(StoreError::file("renaming to", path))?;
    sync_folder(folder)
}

fn open_database(path: &Path) -> Result<Database, StoreError> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(StoreError::file("opening", path))?;
    let mut builder = Builder::new();
    // By default it is a gibibyte, beside the weights of models.
    builder.set_cache_size(CACHE_BYTES);
    match FileBackend::new(file).and_then(|file| builder.create_with_backend(file)) {
        Err(DatabaseError::DatabaseAlreadyOpen) => Err(StoreError::InUse(path.to_owned())),
        opened => Ok(opened?),
    }
}

/// What is kept of the file in memory.
const CACHE_BYTES: usize = 16 << 20;

#[cfg(test)]
mod tests;
