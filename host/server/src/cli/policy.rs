//! `tokenrouter policy check`: load a policy as the server would, and say what it is.

use std::path::PathBuf;
use std::time::Instant;

use clap::Subcommand;
use policy::Revision;

use super::{CliError, ConfigFile, configuration};
use crate::runtime::policy_host;
use crate::terminal::{Align, Table, Terminal, size};

/// Check a routing policy.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  tokenrouter policy check policies/prebuilt/entropy.wasm")]
pub(super) enum Policy {
    /// Compile and rehearse a component under the server's limits; show its parameters.
    Check(Check),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter policy check policies/prebuilt/entropy.wasm
  tokenrouter policy check mine.wasm --config my.toml    # under the limits of [sandbox]")]
pub(super) struct Check {
    /// The component (.wasm).
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn check(args: &Check, terminal: &Terminal) -> Result<(), CliError> {
    let config = configuration(args.config.config.as_deref())?;
    let host = policy_host(&config)?;
    let component =
        std::fs::read(&args.file).map_err(|source| CliError::Read { file: args.file.clone(), source })?;
    let begun = Instant::now();
    let failed = |source| CliError::Policy { file: args.file.clone(), source: Box::new(source) };
    let revision = host.load(&component).map_err(failed)?;
    let seconds = begun.elapsed().as_secs_f64();
    terminal.line(format_args!("{}", describe(&revision, component.len(), seconds)))?;
    if !revision.descriptor().parameters.is_empty() {
        terminal.line(format_args!("\n{}", parameters(&revision)))?;
    }
    Ok(())
}

fn describe(revision: &Revision, bytes: usize, seconds: f64) -> Table {
    let descriptor = revision.descriptor();
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row([&"policy", &descriptor.name]);
    table.row([&"", &descriptor.doc]);
    table.row([&"digest", &format!("{:#}", revision.digest())]);
    table.row([&"size", &size(bytes as u64)]);
    table.row([&"compiled and rehearsed in", &format!("{:.0} ms", seconds * 1e3)]);
    let (least, most) = (*descriptor.models.start(), *descriptor.models.end());
    table.row([&"models of a route", &format!("{least} to {most}")]);
    table.row([&"candidates it sees", &descriptor.candidates]);
    table.row([&"judges visits (receive)", &if descriptor.receives { "yes" } else { "no" }]);
    table
}

fn parameters(revision: &Revision) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left, Align::Left]);
    table.row([&"parameter", &"default", &"range", &"meaning"]);
    for parameter in &revision.descriptor().parameters {
        let range = format!("{} to {}", parameter.range.start(), parameter.range.end());
        table.row([&parameter.key, &parameter.default, &range, &parameter.doc]);
    }
    table
}
