//! `tokenrouter config`: show the embedded configuration, check a file, compare two.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::{CliError, configuration, start};
use crate::config::EMBEDDED;
use crate::terminal::{Align, Table, Terminal};

/// Show or check a configuration.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter config show > my.toml
  tokenrouter config check my.toml
  tokenrouter config diff my.toml other.toml")]
pub(super) enum Command {
    /// Print the configuration used when none is given; every key is explained in it.
    Show,
    /// Load what a file names, as `serve` would, and say whether it fits.
    Check(Check),
    /// Say what differs between two files, and whether a running server takes it over.
    Diff(Diff),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tokenrouter config check my.toml")]
pub(super) struct Check {
    /// The configuration.
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys that are left out have their defaults, so writing a default is no difference.

Example:
  tokenrouter config diff my.toml other.toml")]
pub(super) struct Diff {
    /// As it is.
    before: PathBuf,
    /// As it would be.
    after: PathBuf,
}

pub(super) fn show(terminal: &Terminal) -> Result<(), CliError> {
    Ok(terminal.write(format_args!("{EMBEDDED}"))?)
}

/// Weights and policies are loaded: only that shows whether tokenizers match and policies fit their routes.
pub(super) async fn check(args: Check, terminal: &Terminal) -> Result<(), CliError> {
    let config = configuration(Some(&args.file))?;
    let runtime = start(&config)?;
    runtime.shut_down(Duration::ZERO).await;
    let (models, routes) = (config.models.len(), config.routes.len());
    Ok(terminal.line(format_args!("{}: ok ({models} models, {routes} routes)", args.file.display()))?)
}

/// Nothing is loaded; `check` does that.
pub(super) fn diff(args: &Diff, terminal: &Terminal) -> Result<(), CliError> {
    let (before, after) = (configuration(Some(&args.before))?, configuration(Some(&args.after))?);
    let differences = before.differences(&after);
    if differences.is_empty() {
        return Ok(terminal.line(format_args!("no difference"))?);
    }
    let mut table = Table::new(&[Align::Left, Align::Left]);
    for difference in &differences {
        let taken = if difference.is_live() { "live" } else { "restart" };
        table.row([&taken, difference]);
    }
    Ok(terminal.line(format_args!("{table}"))?)
}
