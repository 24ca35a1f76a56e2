//! What the server was told, kept over restarts: tenants, keys, policies, experiments, and who changed them.
//!
//! ```text
//! DIR/state.redb      records, the audit log, and what was observed
//! DIR/blobs/SHA-256   the bytes of uploaded policies
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`Store`] | opening, reading, and what was observed |
//! | [`change`] | a change of records and its entries in the audit log, in one transaction |
//! | [`audit`] | the hash-chained log, and its verification |
//! | [`blobs`] | bytes by their digest |
//! | [`policy_history`] | pure: a named policy's revisions, which is active, and the way back |
//! | [`digest`] | SHA-256, and how it is written |
//!
//! # Why redb
//!
//! A change must be there whole or not at all, together with its entry in the log, whenever the process or the machine
//! stops. redb gives that as one transaction: copy-on-write trees, two commit slots, checksums, fsync. A log with
//! snapshots of our own would need the same recovery, which is the code in which a defect costs data. Commits have two
//! phases, as tenants choose part of what is written and checksums are no protection against that. The price is two
//! fsyncs a change, and that one process has the store at a time; a second one is refused.
//!
//! Large bytes stay outside, in files that are written, synced and renamed before any record names them. A crash in
//! between leaves a file that nobody names, which [`blobs::Blobs::keep_only`] removes.
//!
//! Calls block on the disk: an async server makes them on a thread of their own.

pub mod audit;
pub mod blobs;
pub mod change;
pub mod digest;
mod error;
pub mod policy_history;
#[cfg(test)]
mod power_loss;
mod records;
mod store;

pub use audit::{Anchor, Entry, Verified};
pub use blobs::Blobs;
pub use change::{Change, Why};
pub use digest::Digest;
pub use error::StoreError;
pub use records::{Area, Kind, Record};
pub use store::Store;
