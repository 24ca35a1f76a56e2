//! `tokenrouter bench isolation`: its options, its table.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::{positive, probability, save};
use crate::bench::isolation::{self, Harm, Plan};
use crate::cli::CliError;
use crate::config::{Config, Sim};
use crate::terminal::{Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Tenant B streams beside a tenant A that is idle, benign, or runs a hostile policy: one that burns its fuel, traps, takes
memory or floods the log in every call. What A's rows cost by themselves shows beside a benign A.

Examples:
  tokenrouter bench isolation
  tokenrouter bench isolation --no-lane
  tokenrouter bench isolation --embedded --seconds 1 4 --json isolation.json")]
pub(in crate::cli) struct Isolation {
    /// Streams of B.
    #[arg(long, value_name = "N", default_value = "4")]
    streams: NonZeroUsize,
    /// Journeys of A at a time.
    #[arg(long, value_name = "N", default_value = "8")]
    journeys: NonZeroUsize,
    /// Seconds before, and while, B's tokens are counted.
    #[arg(long, value_names = ["BEFORE", "WHILE"], num_args = 2, value_parser = positive, default_values_t = [1.0, 10.0])]
    seconds: Vec<f64>,
    /// Most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=400))]
    tokens: u32,
    /// Cost of every step of the simulated models.
    #[arg(long, value_names = ["SMALL", "LARGE"], num_args = 2, value_parser = positive, default_values_t = [6.0, 27.9], conflicts_with = "embedded")]
    ms: Vec<f64>,
    /// Share of the simulated small model's tokens that are routed.
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = probability, conflicts_with = "embedded")]
    share: f64,
    /// The embedded models instead of simulated ones.
    #[arg(long)]
    embedded: bool,
    /// Call every policy inside of steps, however slow it is.
    #[arg(long)]
    no_lane: bool,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Isolation {
    fn plan(&self) -> Plan {
        let mut config = Config::embedded();
        if self.no_lane {
            config.sandbox.in_step_us = u32::MAX;
        }
        let sims = [("small", self.ms[0], self.share, 0), ("large", self.ms[1], 0.0, 1)];
        for (name, fixed_ms, unsure, device) in sims {
            let model = config.models.get_mut(name).expect("the embedded pair");
            let sim = Sim { device, fixed_ms, row_ms: fixed_ms * ROW, unsure, ..Sim::default() };
            model.sim = Some(sim).filter(|_| !self.embedded);
        }
        Plan {
            config,
            streams: self.streams.get(),
            journeys: self.journeys.get(),
            seconds: (self.seconds[0], self.seconds[1]),
            tokens: self.tokens as usize,
        }
    }
}

pub(in crate::cli) async fn isolation(args: &Isolation, terminal: &Terminal) -> Result<(), CliError> {
    let bar = bar(Harm::ALL.len() as u64, PROGRESS);
    let plan = args.plan();
    let report = isolation::run(&plan, |case| {
        bar.set_message(case.to_owned());
        bar.inc(1);
    });
    let report = report.await;
    bar.finish_and_clear();
    let report = report?;
    let style = palette::STRONG;
    let engine = if report.simulated { "simulated steps" } else { "the embedded pair" };
    terminal
        .line(format_args!("{style}tenant B beside a tenant A; {engine}{style:#}\n{}", report.table()))?;
    match &args.json {
        Some(file) => save(file, &format!("{:#}\n", report.json()), terminal),
        None => Ok(()),
    }
}

/// What a row adds to a simulated step, of its fixed cost.
const ROW: f64 = 0.005;

const PROGRESS: &str = "measuring  {bar:32} {pos}/{len}  {msg}";
