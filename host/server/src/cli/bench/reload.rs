//! `tokenrouter bench reload`: its options, its table.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::save;
use crate::bench::reload::{self, Plan};
use crate::cli::CliError;
use crate::config::Config;
use crate::terminal::{Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The embedded pair answers over HTTP while its policy's file is replaced once a second; every save is another revision.

Examples:
  tokenrouter bench reload
  tokenrouter bench reload --seconds 600 --json reload.json")]
pub(in crate::cli) struct Reload {
    /// How long; one save for each.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(2..=86_400))]
    seconds: u32,
    /// Requests at a time.
    #[arg(long, value_name = "N", default_value = "4")]
    requests: NonZeroUsize,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(in crate::cli) async fn reload(args: &Reload, terminal: &Terminal) -> Result<(), CliError> {
    let plan = Plan {
        config: Config::embedded(),
        clients: args.requests.get(),
        saves: args.seconds,
        apart: Duration::from_secs(1),
        tokens: TOKENS,
    };
    let bar = bar(u64::from(args.seconds), PROGRESS);
    let report = reload::run(&plan, |number| bar.set_position(u64::from(number))).await;
    bar.finish_and_clear();
    let report = report?;
    let style = palette::STRONG;
    terminal
        .line(format_args!("{style}a policy saved once a second under load{style:#}\n{}", report.table()))?;
    for failed in report.failed.iter().take(FAILED_SHOWN) {
        terminal.note(format_args!("{failed}"))?;
    }
    match &args.json {
        Some(file) => save(file, &format!("{:#}\n", report.json()), terminal),
        None => Ok(()),
    }
}

const TOKENS: usize = 64;
const FAILED_SHOWN: usize = 5;
const PROGRESS: &str = "saving  {bar:32} {pos}/{len}";
