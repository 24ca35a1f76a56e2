//! `tokenrouter bench`: runs a benchmark, shows its table, saves its numbers and its picture.

mod decode;
mod device;
mod isolation;
mod policy;
mod quality;
mod reload;
mod routing;
mod scheduler;

use std::path::Path;

use clap::Subcommand;

pub(super) use decode::{Decode, decode};
pub(super) use device::{Device, device};
pub(super) use isolation::{Isolation, isolation};
pub(super) use policy::{Policy, measure as measure_policies, policy};
pub(super) use quality::{Quality, quality};
pub(super) use reload::{Reload, reload};
pub(super) use routing::{Routing, routing};
pub(super) use scheduler::{Scheduler, scheduler};

use super::CliError;
use crate::terminal::Terminal;

/// Measure the system.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter bench quality --quick
  tokenrouter bench decode --quick
  tokenrouter bench policy
  tokenrouter bench scheduler --reference
  tokenrouter bench routing
  tokenrouter bench isolation
  tokenrouter bench reload --seconds 60")]
pub(super) enum Bench {
    /// Accuracy against the share of tokens from the large model, for every policy.
    Quality(Quality),
    /// Tokens per second of one model against the batch, beside what the machine allows.
    Decode(Decode),
    /// A GPU against the processor, and tokens per second on it, of one model or of two routed.
    Device(Device),
    /// What a policy's decision costs, in nanoseconds: native code, Rust, and components in other languages.
    Policy(Policy),
    /// When each model runs its next step, in virtual time: our rules beside others'.
    Scheduler(Scheduler),
    /// The whole server in every mode of scheduling, and beside it a dispatcher over ordinary servers.
    Routing(Routing),
    /// Whether one tenant's policy, hostile or not, holds up another tenant's tokens.
    Isolation(Isolation),
    /// A policy file saved once a second under load: failures, time until it serves, memory.
    Reload(Reload),
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("must be above 0".to_owned()) }
}

fn probability(text: &str) -> Result<f64, String> {
    let number = positive(text)?;
    if number <= 1.0 { Ok(number) } else { Err("must be at most 1".to_owned()) }
}

fn save(file: &Path, content: &str, terminal: &Terminal) -> Result<(), CliError> {
    std::fs::write(file, content).map_err(|source| CliError::Save { file: file.to_owned(), source })?;
    Ok(terminal.aside(format_args!("wrote {}", file.display()))?)
}
