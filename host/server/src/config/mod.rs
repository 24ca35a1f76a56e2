//! The configuration file: TOML in, a checked tree out.
//!
//! Parsing gives valid values or an error that names the key; nothing is validated later. What needs the models or the
//! policies themselves (does the folder hold a model, does the policy know the setting) is checked when they load.

mod differences;
mod environment;
mod error;
mod experiments;
mod registry;
mod scheduling;
mod sim;
mod tables;
mod telemetry;
mod tenants;
#[cfg(test)]
mod tests;
mod tree;
mod uploads;

pub use differences::Difference;
pub(crate) use differences::toml_key;
pub use error::ConfigError;
pub use registry::{Registry, pinned_arms};
pub use scheduling::{Scheduling, SchedulingMode};
pub use sim::Sim;
pub use tables::{OWN, UPLOADED};
pub use telemetry::Tracing;
pub use tree::{Config, HeadSource, Isolation, Model, Overrides, PolicySource, Route, Sandbox, Server};
pub use uploads::{COMPONENT_BYTES_MAX, PublicKey, Uploads};

/// The configuration used when none is given, as text.
pub const EMBEDDED: &str = include_str!("../../../../examples/configs/embedded.toml");
