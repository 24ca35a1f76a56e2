//! `tokenrouter policy compare`: the same rule in two languages, or before and after a change.

use std::path::PathBuf;

use super::open;
use crate::cli::{CliError, ConfigFile};
use crate::terminal::{Terminal, grouped};
use crate::trial;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Both are led through the same journeys over toy models, with the default settings and with every parameter at its least,
at twice its default and at its most. The exit code is 1 where they differ.

Example:
  tokenrouter policy compare policies/prebuilt/entropy.wasm mine.wasm")]
pub(in crate::cli) struct Compare {
    /// A component (.wasm).
    one: PathBuf,
    /// The component that must decide the same.
    other: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
}

pub(in crate::cli) fn compare(args: &Compare, terminal: &Terminal) -> Result<(), CliError> {
    let (one, other) = (open(&args.one, &args.config)?, open(&args.other, &args.config)?);
    let found = trial::compare::compare(&one.revision, &other.revision)
        .map_err(|fault| CliError::Trial { file: args.one.clone(), fault: Box::new(fault) })?;
    for difference in &found.differences {
        terminal.line(format_args!("{difference}"))?;
    }
    if !found.differences.is_empty() {
        return Err(CliError::Differ { one: args.one.clone(), other: args.other.clone() });
    }
    let number = |count: usize| grouped(count as u64);
    let (tokens, calls, handoffs) = (number(found.tokens), number(found.calls), number(found.handoffs));
    Ok(terminal.line(format_args!("the same: {tokens} tokens, {calls} calls, {handoffs} handoffs"))?)
}
