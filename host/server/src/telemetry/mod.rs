//! What can be seen of the running system: metrics here, logs through `tracing`.

mod experiments;
mod histogram;
mod latency;
mod meter;
mod metrics;
mod page;
mod policies;
mod scheduling;
mod traces;

pub use experiments::{ArmGauges, ExperimentGauges, experiments_page};
pub use latency::Stopwatch;
pub use meter::Meter;
pub use metrics::{Metrics, Refusal, Waiting};
pub use policies::{PolicyGauges, RevisionGauges, RouteGauges};
pub use scheduling::{ModelGauges, SchedulingGauges};
pub use traces::{Begin, Journal, Parent, Traces, Value};
