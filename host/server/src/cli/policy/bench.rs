//! `tokenrouter policy bench`: what the calls of some components cost, beside native code.

use std::path::{Path, PathBuf};

use crate::bench::policy::Scope;
use crate::cli::CliError;
use crate::cli::bench::measure_policies;
use crate::terminal::Terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`tokenrouter bench policy` measures the built-in rule and the host's own part, too.

Example:
  tokenrouter policy bench mine.wasm policies/prebuilt/entropy.wasm")]
pub(in crate::cli) struct Bench {
    /// Components (.wasm).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(in crate::cli) fn bench(args: &Bench, terminal: &Terminal) -> Result<(), CliError> {
    let named: Vec<(String, PathBuf)> = args.files.iter().map(|file| (name(file), file.clone())).collect();
    measure_policies(&named, Scope::GuestsOnly, args.json.as_ref(), terminal)
}

fn name(file: &Path) -> String {
    file.file_stem().map_or_else(|| file.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}
