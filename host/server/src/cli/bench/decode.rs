//! `tokenrouter bench decode`: its options, its bars, its table.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use engine::{CpuEngine, Engine, EngineError};

use super::save;
use crate::bench::decode::{self, PROGRESS, Plan, Report};
use crate::cli::{CliError, model};
use crate::runtime::LoadProgress;
use crate::terminal::{LoadBar, Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Run it on an idle machine: any other work makes the figures low.

Examples:
  tokenrouter bench decode --quick
  tokenrouter bench decode --model smollm2-135m.gguf --threads 2 --json decode.json
  tokenrouter bench decode --batches 1,8 --prompt 512 --tokens 32 --rounds 3
  tokenrouter bench decode --model embedded:small --pair embedded:large --quick")]
pub(in crate::cli) struct Decode {
    /// A folder in the Hugging Face layout, a .gguf file, or embedded:NAME.
    #[arg(long, value_name = "PATH", default_value = "embedded:large")]
    model: String,
    /// Threads of the engine; without it, one per core.
    #[arg(long, value_name = "N", value_parser = between(THREADS_MAX))]
    threads: Option<usize>,
    /// Sequences decoded at once; one measurement each [default: 1,2,4,8,16,32,64].
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = between(BATCH_MAX))]
    batches: Vec<usize>,
    /// Tokens of every prompt.
    #[arg(long, value_name = "N", default_value = "128", value_parser = between(POSITIONS_MAX))]
    prompt: usize,
    /// Tokens decoded after it.
    #[arg(long, value_name = "N", default_value = "64", value_parser = between(POSITIONS_MAX))]
    tokens: usize,
    /// Measurements of each batch; the table has the best and the median [default: 5].
    #[arg(long, value_name = "N", value_parser = between(ROUNDS_MAX))]
    rounds: Option<usize>,
    /// A second model that decodes at the same time: shows the sum in every way of sharing the cores.
    #[arg(long, value_name = "PATH")]
    pair: Option<String>,
    /// Two rounds of the batches 1, 8 and 32.
    #[arg(long)]
    quick: bool,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Decode {
    fn plan(&self) -> Plan {
        let batches = match (self.batches.is_empty(), self.quick) {
            (false, _) => self.batches.clone(),
            (true, true) => QUICK_BATCHES.to_vec(),
            (true, false) => BATCHES.to_vec(),
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Plan {
            batches,
            prompt: self.prompt,
            tokens: self.tokens,
            rounds: self.rounds.unwrap_or(if self.quick { QUICK_ROUNDS } else { ROUNDS }),
            threads: self.threads.unwrap_or(cores),
        }
    }
}

pub(in crate::cli) fn decode(args: &Decode, terminal: &Terminal) -> Result<(), CliError> {
    let plan = args.plan();
    let mut engine = load(&args.model, &plan)?;
    if let Some(second) = &args.pair {
        let mut second = load(second, &plan)?;
        return pair(args, &plan, [&mut engine, &mut second], terminal);
    }
    let bar = bar(plan.units(), PROGRESS);
    let report = decode::run(&mut engine, &plan, &mut |measuring| {
        bar.set_message(measuring.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report?;
    show(&report, terminal)?;
    if let Some(file) = &args.json {
        save(file, &format!("{:#}\n", report.json()), terminal)?;
    }
    Ok(())
}

fn load(name: &str, plan: &Plan) -> Result<CpuEngine, CliError> {
    let files = model::files(name)?;
    let failed = |source: EngineError| CliError::Model { model: name.to_owned(), source: Box::new(source) };
    // The headers are enough to refuse; a large model takes a while to load.
    let spec = engine::inspect(&files).map_err(failed)?;
    plan.check(&spec)?;
    let mut loading = LoadBar::default();
    let loaded = engine::load(name, &files, plan.options(&spec), &mut |progress| {
        loading.model(name, progress.done_bytes, progress.total_bytes);
    });
    Ok(loaded.map_err(failed)?.engine)
}

fn pair(
    args: &Decode,
    plan: &Plan,
    engines: [&mut dyn Engine; 2],
    terminal: &Terminal,
) -> Result<(), CliError> {
    let bar = bar(decode::pair_units(plan), PROGRESS);
    let report = decode::run_pair(engines, plan, &mut |measuring| {
        bar.set_message(measuring.to_owned());
        bar.inc(1);
    });
    bar.finish_and_clear();
    let report = report?;
    let style = palette::STRONG;
    terminal.line(format_args!("{style}{}{style:#}\n{}", report.title(), report.table()))?;
    match &args.json {
        Some(file) => save(file, &format!("{:#}\n", report.json()), terminal),
        None => Ok(()),
    }
}

fn show(report: &Report, terminal: &Terminal) -> Result<(), CliError> {
    let style = palette::STRONG;
    terminal.line(format_args!("{style}{}{style:#}\n{}\n", report.title(), report.speeds()))?;
    Ok(terminal.line(format_args!("{style}what the machine allows{style:#}\n{}", report.bounds()))?)
}

/// A count of at least 1.
fn between(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const QUICK_BATCHES: [usize; 3] = [1, 8, 32];
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;

/// Bounds that no useful measurement reaches; they keep a slip of the finger from filling the memory.
const THREADS_MAX: u64 = 1024;
const BATCH_MAX: u64 = 4096;
const POSITIONS_MAX: u64 = 1 << 20;
const ROUNDS_MAX: u64 = 1000;
