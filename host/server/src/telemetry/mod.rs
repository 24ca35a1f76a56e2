//! What can be seen of the running system: metrics here, logs through `tracing`.

mod experiments;
mod latency;
mod meter;
mod metrics;
mod page;
mod policies;
mod scheduling;

pub use experiments::{ArmGauges, ExperimentGauges, experiments_page};
pub use latency::Stopwatch;
pub use meter::Meter;
pub use metrics::{Metrics, Waiting};
pub use policies::{PolicyGauges, RevisionGauges, RouteGauges};
pub use scheduling::{ModelGauges, SchedulingGauges};
