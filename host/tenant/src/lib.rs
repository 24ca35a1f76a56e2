//! Who asks, what they may see, and how much they may use.
//!
//! Pure: time and random bytes are arguments, nothing is stored here. A request goes through the rooms in this order:
//!
//! ```text
//! Authorization ──Keyring::authenticate(text, now)──▶ Caller { scope } ──▶ Table (the tenant's settings)
//!    model name ──Table::find(routes, name)──▶ Some(route) | None: hidden and absent are one answer
//!       request ──Ledger::reserve(ask, now)──▶ Reservation | Refused { quota, retry_after }
//!                     ▲ ask again later            │ the request runs, however it ends
//!                     └──────── Ledger::settle(reservation, tokens that were used, now)
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`key`] | secrets that are shown once, and the records that are kept of them |
//! | [`keyring`] | all records: looking a caller up, rotation, revocation |
//! | [`table`] | the settings of a tenant, as `[tenants.NAME]` of the configuration or as a stored record |
//! | [`quota`] | requests and tokens a minute and journeys at once: reserve, then settle |
//!
//! Keys and tables are plain serde types, so both may stand in a TOML file, where no secret is, or in the store. What a
//! ledger holds is not stored: after a restart no journey runs, and a minute later the windows would be empty anyway.

pub mod key;
pub mod keyring;
pub mod quota;
pub mod table;

pub use key::{KeyId, KeyRecord, Scope};
pub use keyring::{Caller, Denied, Keyring};
pub use quota::{Ask, Ledger, Level, Quotas, Refused, Reservation};
pub use table::{EnvKey, Table, TableKey, TableScope};
