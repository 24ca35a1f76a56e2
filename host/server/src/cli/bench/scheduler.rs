//! `tokenrouter bench scheduler`: its options, its bars, its tables.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use scheduler::law::Affine;

use super::{positive, probability, save};
use crate::bench::scheduler::{Extent, PROGRESS, Reference, Situation};
use crate::cli::CliError;
use crate::terminal::{Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every figure is simulated: step times follow a law. The decisions are those of the library.

Examples:
  tokenrouter bench scheduler
  tokenrouter bench scheduler --small-ms 1 --large-ms 10 --share 0.05 --devices shared --svg curve.svg
  tokenrouter bench scheduler --reference
  tokenrouter bench scheduler --sweep quick --json sweep.json")]
pub(in crate::cli) struct Scheduler {
    /// Fixed cost of a step of the small model.
    #[arg(long, value_name = "MS", default_value_t = 6.0, value_parser = positive)]
    small_ms: f64,
    /// Fixed cost of a step of the large model.
    #[arg(long, value_name = "MS", default_value_t = 27.9, value_parser = positive)]
    large_ms: f64,
    /// What a row adds to a step, of its fixed cost.
    #[arg(long, value_name = "SHARE", default_value_t = 0.005, value_parser = positive)]
    row: f64,
    /// Share of the small model's tokens that are routed.
    #[arg(long, value_name = "P", default_value_t = 0.35, value_parser = probability)]
    share: f64,
    /// Tokens that the large model decodes per visit.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    visit: u32,
    /// Whether the models have a device each or share one.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Devices::Separate)]
    devices: Devices,
    /// Requests at a time; one run for each, in each mode.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024), default_values_t = [1usize, 2, 4, 8, 16, 32, 64])]
    requests: Vec<usize>,
    /// The table of the TokenRouter paper instead, from its Markov chain.
    #[arg(long, conflicts_with = "sweep")]
    reference: bool,
    /// Many situations instead, against the best thresholds a search finds; full takes hours.
    #[arg(long, value_name = "HOW", value_enum)]
    sweep: Option<How>,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Save the picture of a curve.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reference", "sweep"])]
    svg: Option<PathBuf>,
}

// Their variants have no docs, as help for single values makes the whole help long.

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Devices {
    Separate,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    Quick,
    Full,
}

pub(in crate::cli) fn scheduler(args: &Scheduler, terminal: &Terminal) -> Result<(), CliError> {
    let (json, svg) = match args.sweep {
        _ if args.reference => (reference(terminal)?, None),
        Some(how) => (sweep(how, terminal)?, None),
        None => curve(args, terminal)?,
    };
    if let Some(file) = &args.json {
        save(file, &format!("{json:#}\n"), terminal)?;
    }
    match (&args.svg, svg) {
        (Some(file), Some(svg)) => save(file, &svg, terminal),
        _ => Ok(()),
    }
}

fn reference(terminal: &Terminal) -> Result<serde_json::Value, CliError> {
    let reference = Reference::compute();
    let style = palette::STRONG;
    terminal.line(format_args!(
        "{style}the paper's chain: steps of 6.0 and 27.9 ms, 35 % routed{style:#}\n{}",
        reference.table()
    ))?;
    Ok(reference.json())
}

fn sweep(how: How, terminal: &Terminal) -> Result<serde_json::Value, CliError> {
    let extent = if how == How::Quick { Extent::Quick } else { Extent::Full };
    let bar = bar(extent.cells() as u64, PROGRESS);
    let sweep = extent.run(|| bar.inc(1));
    bar.finish_and_clear();
    let style = palette::STRONG;
    terminal.line(format_args!(
        "{style}simulated: ratios of our tokens/s, geometric means{style:#}\n{}",
        sweep.table()
    ))?;
    Ok(sweep.json())
}

fn curve(args: &Scheduler, terminal: &Terminal) -> Result<(serde_json::Value, Option<String>), CliError> {
    let law = |ms: f64| Affine { fixed_s: ms / 1e3, row_s: ms / 1e3 * args.row };
    let situation = Situation {
        small: law(args.small_ms),
        large: law(args.large_ms),
        share: args.share,
        visit_tokens: args.visit,
        is_shared: args.devices == Devices::Shared,
        journeys: args.requests.clone(),
    };
    let bar = bar(situation.runs() as u64, PROGRESS);
    let curve = situation.run(|done| bar.set_position(done as u64));
    bar.finish_and_clear();
    let style = palette::STRONG;
    terminal.line(format_args!("{style}{}{style:#}\n{}", curve.title(), curve.table()))?;
    Ok((curve.json(), Some(curve.plot().to_svg())))
}
