//! Tables and the form of what is in them.

use std::fmt;

use redb::TableDefinition;
use serde::{Deserialize, Serialize};

/// What a record is of. Every change of one is in the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Settings of a tenant, by its name.
    Tenant,
    /// A key's record, by its id.
    Key,
    /// A named policy's history.
    Policy,
    /// An experiment, by its name.
    Experiment,
    /// The configuration in force, by `server`.
    Configuration,
}

/// What was observed, not decided: written often, in no audit log, and forgotten after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// What people said of answers, by request id.
    Feedback,
    /// What the arms of experiments did, by experiment.
    Tallies,
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<T> {
    /// Counts the changes of this record, from 1, removals included: no two states have the same.
    pub version: u64,
    /// When it was changed, milliseconds since 1970.
    pub changed_unix_ms: u64,
    /// What it says.
    pub value: T,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Tenant, Self::Key, Self::Policy, Self::Experiment, Self::Configuration];

    /// Its name in the store and the audit log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Key => "key",
            Self::Policy => "policy",
            Self::Experiment => "experiment",
            Self::Configuration => "configuration",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Area {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Feedback => "feedback",
            Self::Tallies => "tallies",
        }
    }
}

/// By kind and name, the record in JSON.
pub(crate) const RECORDS: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("records");
/// By kind and name, the last version that a removed record had.
pub(crate) const REMOVED: TableDefinition<(&str, &str), u64> = TableDefinition::new("removed");
/// By sequence number from 1, the entry in JSON.
pub(crate) const AUDIT: TableDefinition<u64, &[u8]> = TableDefinition::new("audit");
/// By area and key, when it was observed (milliseconds since 1970) and what, in JSON.
pub(crate) const OBSERVED: TableDefinition<(&str, &str), (u64, &[u8])> = TableDefinition::new("observed");
/// The format of the store.
pub(crate) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// The format that this version writes.
pub(crate) const FORMAT: u64 = 1;
