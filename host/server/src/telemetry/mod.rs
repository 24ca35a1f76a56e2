//! What can be seen of the running system: metrics here, logs through `tracing`.

mod metrics;

pub use metrics::{Metrics, Waiting};
