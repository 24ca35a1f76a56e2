//! `tokenrouter config`: show the embedded configuration, or check a file.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::{CliError, configuration, start};
use crate::config::EMBEDDED;
use crate::terminal::Terminal;

/// Show or check a configuration.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter config show > my.toml
  tokenrouter config check my.toml")]
pub(super) enum Command {
    /// Print the configuration used when none is given; every key is explained in it.
    Show,
    /// Load what a file names, as `serve` would, and say whether it fits.
    Check(Check),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tokenrouter config check my.toml")]
pub(super) struct Check {
    /// The configuration.
    file: PathBuf,
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
