//! Benchmarks: of the whole system, through the same [`crate::runtime::Runtime`] that serves, of one model's engine,
//! of a policy's calls, and of the scheduler's rules in virtual time.
//!
//! Nothing here prints: a benchmark gives a report, and a report gives a table, JSON or a picture.

pub mod decode;
pub mod device;
mod folder;
pub mod isolation;
pub mod plot;
pub mod policy;
pub mod quality;
pub mod reload;
pub mod routing;
pub mod scheduler;

use folder::Folder;
