//! Benchmarks of the whole system, through the same [`crate::runtime::Runtime`] that serves.
//!
//! Nothing here prints: a benchmark gives a report, and a report gives a table, JSON or a picture.

pub mod plot;
pub mod quality;
