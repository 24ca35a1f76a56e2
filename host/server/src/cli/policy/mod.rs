//! `tokenrouter policy`: what an author of policies needs, from the first file to the last figure.

mod bench;
mod check;
mod compare;
mod new;
mod registry;
mod served;
mod sign;
mod test;
mod upload;

use std::path::Path;
use std::sync::Arc;

use clap::Subcommand;
use policy::{Limits, Revision};

use super::{CliError, ConfigFile, configuration};
use crate::runtime::policy_host;
use crate::terminal::Terminal;

/// Begin, check, time and upload routing policies.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:  tokenrouter policy new doubt --lang rust")]
pub(super) enum Policy {
    /// Write a working project: a policy, its build command, all that it needs of the interface.
    New(new::New),
    /// Compile and rehearse a component under the server's limits; show what it is and needs.
    Check(check::Check),
    /// Show a component's decisions, hold them against expected ones, or try what every policy must stand.
    Test(test::Test),
    /// Hold two components against each other, decision by decision.
    Compare(compare::Compare),
    /// Measure what a component's calls cost.
    Bench(bench::Bench),
    /// Have a running server serve a component as own/NAME.
    Upload(upload::Upload),
    /// Show the policies that were uploaded to a running server.
    List(served::List),
    /// Show one of them with its revisions.
    Show(served::Show),
    /// Have another revision serve.
    Activate(served::Activate),
    /// Have the revision before serve again.
    Rollback(served::Rollback),
    /// Give up a policy with all its revisions.
    Delete(served::Delete),
    /// Bring a component from an OCI registry.
    Pull(registry::Pull),
    /// Put a component into an OCI registry.
    Push(registry::Push),
    /// Make a pair of keys for signed uploads.
    Keygen(sign::Keygen),
    /// Sign a component, for servers that take only signed ones.
    Sign(sign::Sign),
}

pub(super) fn policy(command: &Policy, terminal: &Terminal) -> Result<(), CliError> {
    match command {
        Policy::New(args) => new::new(args, terminal),
        Policy::Check(args) => check::check(args, terminal),
        Policy::Test(args) => test::test(args, terminal),
        Policy::Compare(args) => compare::compare(args, terminal),
        Policy::Bench(args) => bench::bench(args, terminal),
        Policy::Upload(args) => upload::upload(args, terminal),
        Policy::List(args) => served::list(args, terminal),
        Policy::Show(args) => served::show(args, terminal),
        Policy::Activate(args) => served::activate(args, terminal),
        Policy::Rollback(args) => served::roll_back(args, terminal),
        Policy::Delete(args) => served::delete(args, terminal),
        Policy::Pull(args) => registry::pull(args, terminal),
        Policy::Push(args) => registry::push(args, terminal),
        Policy::Keygen(args) => sign::keygen(args, terminal),
        Policy::Sign(args) => sign::sign(args, terminal),
    }
}

/// A component that was loaded.
struct Opened {
    revision: Arc<Revision>,
    component: Vec<u8>,
    limits: Limits,
}

/// Loads a component under the limits of a configuration.
fn open(file: &Path, config: &ConfigFile) -> Result<Opened, CliError> {
    let host = policy_host(&configuration(config.config.as_deref())?)?;
    let component = read(file)?;
    let revision = host.load(&component).map_err(|source| failed(file, source))?;
    Ok(Opened { revision, component, limits: host.limits().clone() })
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(file).map_err(|source| CliError::Read { file: file.to_owned(), source })
}

fn failed(file: &Path, source: policy::PolicyError) -> CliError {
    CliError::Policy { file: file.to_owned(), source: Box::new(source) }
}
