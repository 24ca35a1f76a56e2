//! `tokenrouter bench policy`: its options, its table.

use std::path::PathBuf;

use super::save;
use crate::bench::policy::{self, Guest, PROGRESS, Scope};
use crate::cli::CliError;
use crate::cli::policy::read;
use crate::terminal::{Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Medians of samples on the wall clock; the smallest sample is the nearer to the truth on a busy machine. The policy is the
entropy rule, asked about a token that it hands off. Goals are those of the design.

Examples:
  tokenrouter bench policy
  tokenrouter bench policy --guest Python=entropy-python.wasm --guest C=entropy-c.wasm --json policy.json")]
pub(in crate::cli) struct Policy {
    /// Another component of the same rule, and what to call it; may be given again.
    #[arg(long, value_name = "NAME=FILE", value_parser = guest)]
    guest: Vec<(String, PathBuf)>,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(in crate::cli) fn policy(args: &Policy, terminal: &Terminal) -> Result<(), CliError> {
    measure(&args.guest, Scope::Everything, args.json.as_ref(), terminal)
}

/// Measures and shows guests, beside what the scope says.
pub(in crate::cli) fn measure(
    files: &[(String, PathBuf)],
    scope: Scope,
    json: Option<&PathBuf>,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let guest = |(name, file): &(String, PathBuf)| Ok(Guest { name: name.clone(), component: read(file)? });
    let guests = files.iter().map(guest).collect::<Result<Vec<Guest>, CliError>>()?;
    let bar = bar(policy::rows(guests.len(), scope) as u64, PROGRESS);
    let report = policy::run(&guests, scope, |case| {
        bar.set_message(case.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report?;
    let style = palette::STRONG;
    terminal.line(format_args!("{style}nanoseconds a decision{style:#}\n{}", report.table()))?;
    if cfg!(debug_assertions) {
        terminal.note(format_args!("this is a debug build: a release build is many times as fast"))?;
    }
    match json {
        Some(file) => save(file, &format!("{:#}\n", report.json()), terminal),
        None => Ok(()),
    }
}

fn guest(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').ok_or("must be NAME=FILE")?;
    Ok((name.to_owned(), PathBuf::from(file)))
}
