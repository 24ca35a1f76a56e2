//! Who changed what: a log in which every entry holds the digest of the one before.
//!
//! An entry's digest is the SHA-256 of its JSON as it is stored, so changing, dropping or inserting one breaks the chain
//! at the next. The last entry's digest stands for the whole log: whoever notes it elsewhere ([`Anchor`]) later finds out
//! if the log was written anew from the start, which a chain alone cannot show.

use std::collections::BTreeMap;

use redb::{ReadTransaction, ReadableTable, Table};
use serde::{Deserialize, Serialize};

use crate::change::Why;
use crate::digest::Digest;
use crate::error::StoreError;
use crate::records::{AUDIT, Kind, RECORDS};

/// One change of one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number, from 1.
    pub sequence: u64,
    /// Digest of the entry before; zeros for the first.
    pub previous: Digest,
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Who: a key's id, or a part of the server that acts by itself.
    pub who: String,
    /// What was done, one word.
    pub action: String,
    /// The particulars.
    pub detail: String,
    /// The kind of the record.
    pub kind: Kind,
    /// The record's name.
    pub name: String,
    /// Digest of the record before; none if there was none.
    pub before: Option<Digest>,
    /// Digest of the record after; none if it was removed.
    pub after: Option<Digest>,
}

/// An entry's number and digest, noted outside the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The number.
    pub sequence: u64,
    /// The digest.
    pub digest: Digest,
}

/// What a verification found to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The last entry; number 0 and zeros for an empty log.
    pub head: Anchor,
    /// Records, each as its last entry says.
    pub records: u64,
    /// Revisions of policies, each with its bytes.
    pub revisions: u64,
}

/// Who changes something, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'a> {
    pub(crate) who: &'a str,
    pub(crate) at_unix_ms: u64,
}

/// What a change does to a record.
#[derive(Clone, Copy)]
pub(crate) struct Effect<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    pub(crate) before: Option<Digest>,
    pub(crate) after: Option<Digest>,
}

/// Adds an entry to the log within a transaction.
pub(crate) fn append(
    log: &mut Table<'_, u64, &'static [u8]>,
    author: Author<'_>,
    why: Why<'_>,
    effect: Effect<'_>,
) -> Result<(), StoreError> {
    let head = last(log)?;
    let entry = Entry {
        sequence: head.sequence + 1,
        previous: head.digest,
        at_unix_ms: author.at_unix_ms,
        who: author.who.to_owned(),
        action: why.action.to_owned(),
        detail: why.detail.to_owned(),
        kind: effect.kind,
        name: effect.name.to_owned(),
        before: effect.before,
        after: effect.after,
    };
    let bytes = serde_json::to_vec(&entry).expect("an entry has only texts and numbers");
    log.insert(entry.sequence, bytes.as_slice())?;
    Ok(())
}

/// The last entry of all.
pub(crate) fn head(transaction: &ReadTransaction) -> Result<Anchor, StoreError> {
    last(&transaction.open_table(AUDIT)?)
}

fn last(log: &impl ReadableTable<u64, &'static [u8]>) -> Result<Anchor, StoreError> {
    Ok(match log.last()? {
        Some((sequence, bytes)) => Anchor { sequence: sequence.value(), digest: Digest::of(bytes.value()) },
        None => EMPTY,
    })
}

/// Entries from a number on, at most so many.
pub(crate) fn read(transaction: &ReadTransaction, from: u64, most: usize) -> Result<Vec<Entry>, StoreError> {
    let table = transaction.open_table(AUDIT)?;
    let mut entries = Vec::new();
    for item in table.range(from..)?.take(most) {
        let (sequence, bytes) = item?;
        entries.push(parse(sequence.value(), bytes.value())?);
    }
    Ok(entries)
}

/// Whether the log holds together, and the records are what it says.
pub(crate) fn verify(transaction: &ReadTransaction, anchor: Option<Anchor>) -> Result<Verified, StoreError> {
    let mut chain = Chain { head: EMPTY, records: BTreeMap::new() };
    for item in transaction.open_table(AUDIT)?.iter()? {
        let (sequence, bytes) = item?;
        chain.follow(sequence.value(), bytes.value())?;
        if let Some(anchor) = anchor.filter(|anchor| anchor.sequence == chain.head.sequence) {
            require(anchor == chain.head, || {
                format!("entry {} is not the one that was noted", anchor.sequence)
            })?;
        }
    }
    if let Some(anchor) = anchor {
        let there = anchor.sequence <= chain.head.sequence;
        require(there, || format!("entry {} was noted but is gone", anchor.sequence))?;
    }
    chain.records.retain(|_, digest| digest.is_some());
    let mut records = 0;
    for item in transaction.open_table(RECORDS)?.iter()? {
        let (key, bytes) = item?;
        let (kind, name) = key.value();
        let said = chain.records.get(&(kind.to_owned(), name.to_owned())).copied().flatten();
        require(said == Some(Digest::of(bytes.value())), || {
            format!("the {kind} {name:?} was changed without an entry")
        })?;
        records += 1;
    }
    require(records == chain.records.len() as u64, || "a record was removed without an entry".to_owned())?;
    Ok(Verified { head: chain.head, records, revisions: 0 })
}

/// The log up to some entry, and what it says the records were then.
struct Chain {
    head: Anchor,
    records: BTreeMap<(String, String), Option<Digest>>,
}

impl Chain {
    fn follow(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let expected = self.head.sequence + 1;
        require(sequence == expected, || format!("entry {expected} is missing"))?;
        let entry = parse(sequence, bytes)?;
        let chained = entry.sequence == sequence && entry.previous == self.head.digest;
        require(chained, || format!("entry {sequence} does not follow the one before it"))?;
        let subject = (entry.kind.name().to_owned(), entry.name.clone());
        let was = self.records.insert(subject, entry.after).flatten();
        require(was == entry.before, || {
            format!("entry {sequence} begins from another {} than there was", entry.kind)
        })?;
        self.head = Anchor { sequence, digest: Digest::of(bytes) };
        Ok(())
    }
}

fn parse(sequence: u64, bytes: &[u8]) -> Result<Entry, StoreError> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Audit(format!("entry {sequence} is not understood: {error}")))
}

fn require(holds: bool, problem: impl FnOnce() -> String) -> Result<(), StoreError> {
    if holds { Ok(()) } else { Err(StoreError::Audit(problem())) }
}

const EMPTY: Anchor = Anchor { sequence: 0, digest: Digest::from_bytes([0; 32]) };
