//! Log lines: which ones, and how they look.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::CliError;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    // Not doc comments: clap would give each a paragraph in every command's help.
    // For people.
    Text,
    // One JSON object per line.
    Json,
}

/// Sends log lines to standard error from now on.
pub(super) fn start(filter: &str, format: Format) -> Result<(), CliError> {
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| CliError::Log { filter: filter.to_owned(), source })?;
    let lines = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr);
    match format {
        Format::Text => lines.with_ansi(io::stderr().is_terminal()).with_target(false).init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
