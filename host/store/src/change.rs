//! A change: any number of records and the entries that tell of them, in one transaction.
//!
//! Changes happen one after the other. Whatever is read inside of one cannot be changed by somebody else before it is
//! committed, so reading, checking and writing there needs no lock of the caller's.

use redb::{ReadableTable as _, Table};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::audit::{Author, Effect, append};
use crate::digest::Digest;
use crate::error::StoreError;
use crate::records::{Kind, Record};

/// A change in the making; see [`Store::change`](crate::Store::change).
pub struct Change<'a> {
    pub(crate) author: Author<'a>,
    pub(crate) records: Table<'a, (&'static str, &'static str), &'static [u8]>,
    pub(crate) removed: Table<'a, (&'static str, &'static str), u64>,
    pub(crate) log: Table<'a, u64, &'static [u8]>,
}

/// What was done, for the audit log.
#[derive(Clone, Copy, Debug)]
pub struct Why<'a> {
    /// One word, e.g. `promote`.
    pub action: &'a str,
    /// The particulars.
    pub detail: &'a str,
}

impl Change<'_> {
    /// Writes a record, new or in place of one. Returns its version.
    ///
    /// # Errors
    /// [`StoreError`]; the change must then be given up.
    pub fn put<T: Serialize + ?Sized>(
        &mut self,
        kind: Kind,
        name: &str,
        value: &T,
        why: Why<'_>,
    ) -> Result<u64, StoreError> {
        let (before, version) = self.state(kind, name)?;
        let record = Record { version: version + 1, changed_unix_ms: self.author.at_unix_ms, value };
        let not_written = |source| StoreError::Record { kind, name: name.to_owned(), source };
        let bytes = serde_json::to_vec(&record).map_err(not_written)?;
        let after = Some(Digest::of(&bytes));
        self.records.insert((kind.name(), name), bytes.as_slice())?;
        self.removed.remove((kind.name(), name))?;
        append(&mut self.log, self.author, why, Effect { kind, name, before, after })?;
        Ok(version + 1)
    }

    /// Removes a record. Returns whether there was one; if not, nothing is logged.
    ///
    /// # Errors
    /// [`StoreError`]; the change must then be given up.
    pub fn remove(&mut self, kind: Kind, name: &str, why: Why<'_>) -> Result<bool, StoreError> {
        let (before, version) = self.state(kind, name)?;
        if before.is_none() {
            return Ok(false);
        }
        self.records.remove((kind.name(), name))?;
        // Kept so that a record of this name that comes later has versions of its own.
        self.removed.insert((kind.name(), name), version + 1)?;
        append(&mut self.log, self.author, why, Effect { kind, name, before, after: None })?;
        Ok(true)
    }

    /// A record, as this change has left it.
    ///
    /// # Errors
    /// [`StoreError`], if it cannot be read or is not a `T`.
    pub fn get<T: DeserializeOwned>(&self, kind: Kind, name: &str) -> Result<Option<Record<T>>, StoreError> {
        let bytes = self.records.get((kind.name(), name))?;
        bytes.map(|bytes| parse(kind, name, bytes.value())).transpose()
    }

    /// The digest of what is there, and the version of what is or was.
    fn state(&self, kind: Kind, name: &str) -> Result<(Option<Digest>, u64), StoreError> {
        if let Some(bytes) = self.records.get((kind.name(), name))? {
            let record: Record<serde::de::IgnoredAny> = parse(kind, name, bytes.value())?;
            return Ok((Some(Digest::of(bytes.value())), record.version));
        }
        let removed = self.removed.get((kind.name(), name))?;
        Ok((None, removed.map_or(0, |version| version.value())))
    }
}

pub(crate) fn parse<T: DeserializeOwned>(
    kind: Kind,
    name: &str,
    bytes: &[u8],
) -> Result<Record<T>, StoreError> {
    serde_json::from_slice(bytes).map_err(|source| StoreError::Record { kind, name: name.to_owned(), source })
}
