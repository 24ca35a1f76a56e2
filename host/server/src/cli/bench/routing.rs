//! `tokenrouter bench routing`: its options, its bar, its tables.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use indicatif::ProgressBar;

use super::{positive, probability, save};
use crate::bench::quality::{generated, read_questions};
use crate::bench::routing::{self, Plan, Progress, Report, Way};
use crate::cli::{CliError, ConfigFile, configuration};
use crate::config::{Config, Scheduling, SchedulingMode, Sim};
use crate::terminal::{Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --config the two models are simulated: their steps only take time. Ratios are to the first mode.

Examples:
  tokenrouter bench routing
  tokenrouter bench routing --config my.toml --route pair/margin --requests 8
  tokenrouter bench routing --modes fixed-b=2,fixed-b=4,ours --devices shared
  tokenrouter bench routing --overhead")]
pub(in crate::cli) struct Routing {
    /// The route that is measured, with settings if need be.
    #[arg(long, value_name = "NAME", default_value = "pair/entropy")]
    route: String,
    /// Requests at a time; a run for each, in each mode.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024), default_values_t = [1usize, 4, 8, 16])]
    requests: Vec<usize>,
    /// Modes of scheduling, fixed-b=N, and std-serving.
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', value_parser = mode, default_values = ["step-sync", "model-sync", "eager-async", "std-serving", "ours"])]
    modes: Vec<Wanted>,
    /// Seconds before, and while, tokens are counted.
    #[arg(long, value_names = ["BEFORE", "WHILE"], num_args = 2, value_parser = positive, default_values_t = [3.0, 8.0])]
    seconds: Vec<f64>,
    /// Most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    tokens: u32,
    /// Ask these: a JSON object per line, as for bench quality.
    #[arg(long, value_name = "FILE")]
    questions: Option<PathBuf>,
    /// Cost of every step of the simulated models.
    #[arg(long, value_names = ["SMALL", "LARGE"], num_args = 2, value_parser = positive, default_values_t = [6.0, 27.9], conflicts_with = "config")]
    ms: Vec<f64>,
    /// What a row adds to a simulated step, of its fixed cost.
    #[arg(long, value_name = "SHARE", default_value_t = 0.005, value_parser = positive, conflicts_with = "config")]
    row: f64,
    /// Share of the simulated small model's tokens that are routed.
    #[arg(long, value_name = "P", default_value_t = 0.35, value_parser = probability, conflicts_with = "config")]
    share: f64,
    /// Whether the simulated models have a device each or share one.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Devices::Separate, conflicts_with = "config")]
    devices: Devices,
    /// What all but the models costs, with steps that take no time, at 1, 64 and 512 requests.
    #[arg(long, conflicts_with = "config")]
    overhead: bool,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Save the picture.
    #[arg(long, value_name = "FILE", conflicts_with = "overhead")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

// Its variants have no docs, as help for single values makes the whole help long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Devices {
    Separate,
    Shared,
}

#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Mode(SchedulingMode),
    Threshold(usize),
    Standard,
}

impl Routing {
    fn plan(&self) -> Result<Plan, CliError> {
        let config = match &self.config.config {
            Some(file) => configuration(Some(file))?,
            None => self.simulated((self.ms[0], self.ms[1])),
        };
        let questions = match &self.questions {
            Some(file) => read_questions(file)?,
            None => generated(1, QUESTIONS),
        };
        let ways = self.modes.iter().map(|wanted| wanted.way(&config, &self.route)).collect();
        Ok(Plan {
            route: self.route.clone(),
            ways,
            requests: self.requests.clone(),
            questions,
            tokens: self.tokens as usize,
            warm_up: Duration::from_secs_f64(self.seconds[0]),
            measured: Duration::from_secs_f64(self.seconds[1]),
            config,
        })
    }

    /// The embedded pair with steps that only take time; the route's policy hands off where the small model is unsure.
    fn simulated(&self, (small, large): (f64, f64)) -> Config {
        let mut config = Config::embedded();
        let device = u16::from(self.devices == Devices::Separate);
        for (name, fixed_ms, unsure, device) in
            [("small", small, self.share, 0), ("large", large, 0.0, device)]
        {
            let row_ms = fixed_ms * self.row;
            let text = Some(TEXT.to_owned());
            let sim = Sim { device, fixed_ms, row_ms, unsure, text, ..Sim::default() };
            let model = config.models.get_mut(name).expect("the embedded pair");
            model.sim = Some(sim);
            model.limits.rows_max = ROWS_MAX;
        }
        config.server.journeys_max = JOURNEYS_MAX;
        config
    }
}

impl Wanted {
    fn way(&self, config: &Config, route: &str) -> Way {
        let (name, settings) = route.split_once('@').unwrap_or((route, ""));
        let found = config.routes.get(name);
        match self {
            Self::Mode(mode) => {
                // The configuration's own bounds hold for its own mode.
                let own = Some(&config.scheduler).filter(|own| own.mode == *mode);
                Way::Scheduled(
                    own.cloned().unwrap_or_else(|| Scheduling { mode: *mode, ..Scheduling::default() }),
                )
            }
            Self::Threshold(batch) => {
                let large = found.and_then(|route| route.models.get(1)).cloned().unwrap_or_default();
                let simulated = config.models.values().filter_map(|model| model.sim.as_ref());
                let devices: std::collections::BTreeSet<u16> = simulated.map(|sim| sim.device).collect();
                Way::Scheduled(Scheduling {
                    mode: SchedulingMode::FixedB,
                    thresholds: [(large, *batch)].into(),
                    exclusive: devices.len() < 2,
                    ..Scheduling::default()
                })
            }
            Self::Standard => {
                let own = found.and_then(|route| route.settings.get("threshold")).copied();
                let asked = settings.split(',').find_map(|setting| setting.strip_prefix("threshold="));
                let asked = asked.and_then(|threshold| threshold.parse().ok());
                Way::Standard { threshold: asked.or(own).unwrap_or(THRESHOLD) }
            }
        }
    }
}

pub(in crate::cli) async fn routing(args: Routing, terminal: &Terminal) -> Result<(), CliError> {
    if args.overhead {
        return overhead(&args, terminal).await;
    }
    let plan = args.plan()?;
    let runs = plan.ways.len() * plan.requests.len();
    let mut measuring = Measuring { bar: bar(runs as u64, PROGRESS) };
    let outcome = routing::run(&plan, &mut measuring).await;
    measuring.bar.finish_and_clear();
    let report = outcome?;
    show(&report, terminal)?;
    if let Some(file) = &args.json {
        save(file, &format!("{:#}\n", report.json()), terminal)?;
    }
    match &args.svg {
        Some(file) => save(file, &report.plot().to_svg(), terminal),
        None => Ok(()),
    }
}

fn show(report: &Report, terminal: &Terminal) -> Result<(), CliError> {
    let style = palette::STRONG;
    Ok(terminal.line(format_args!("{style}{}{style:#}\n{}", report.title, report.table()))?)
}

async fn overhead(args: &Routing, terminal: &Terminal) -> Result<(), CliError> {
    let config = args.simulated((0.0, 0.0));
    let bar = bar(OVERHEAD_REQUESTS.len() as u64, PROGRESS);
    let each = Duration::from_secs_f64(args.seconds[1]);
    let measured = routing::overhead(&config, &args.route, (&OVERHEAD_REQUESTS, each), |done| {
        bar.set_position(done as u64);
    });
    let measured = measured.await;
    bar.finish_and_clear();
    let measured = measured?;
    let style = palette::STRONG;
    terminal.line(format_args!(
        "{style}steps that take no time, {:.0} % of tokens routed: what all the rest costs{style:#}\n{}\n\n\
         {style}a hop from model to model and its decision, one request alone{style:#}\n{}",
        args.share * 100.0,
        measured.table(),
        measured.hop_table()
    ))?;
    match &args.json {
        Some(file) => save(file, &format!("{:#}\n", measured.json()), terminal),
        None => Ok(()),
    }
}

struct Measuring {
    bar: ProgressBar,
}

impl Progress for Measuring {
    fn begin(&mut self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    fn done(&mut self) {
        self.bar.inc(1);
    }
}

fn mode(text: &str) -> Result<Wanted, String> {
    if let Some(batch) = text.strip_prefix("fixed-b=") {
        return match batch.parse() {
            Ok(batch) if batch > 0 => Ok(Wanted::Threshold(batch)),
            _ => Err("what follows fixed-b= is a number of requests, at least 1".to_owned()),
        };
    }
    Ok(match text {
        "step-sync" => Wanted::Mode(SchedulingMode::StepSync),
        "model-sync" => Wanted::Mode(SchedulingMode::ModelSync),
        "eager-async" => Wanted::Mode(SchedulingMode::EagerAsync),
        "paper-dtmc" => Wanted::Mode(SchedulingMode::PaperDtmc),
        "ours" => Wanted::Mode(SchedulingMode::Ours),
        "std-serving" => Wanted::Standard,
        _ => return Err(format!("no mode; the modes are {MODES}")),
    })
}

const MODES: &str = "step-sync, model-sync, eager-async, paper-dtmc, fixed-b=N, ours and std-serving";

/// How a bar shows the run.
const PROGRESS: &str = "measuring  {bar:32} {pos}/{len}  {eta:>4} left  {msg}";

/// So many that no prompt is asked twice in a short run.
const QUESTIONS: usize = 400;

/// What simulated answers say. A dispatcher tells tokens apart by their text, so random ones would not do.
const TEXT: &str = "The large model writes what the small one is not sure of. ";

/// The default of the entropy policy.
const THRESHOLD: f64 = 0.4;

const OVERHEAD_REQUESTS: [usize; 3] = [1, 64, 512];

/// Room for all requests at once.
const JOURNEYS_MAX: std::num::NonZeroUsize = std::num::NonZeroUsize::new(1024).expect("not 0");
const ROWS_MAX: std::num::NonZeroUsize = JOURNEYS_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_known_by_the_names_of_the_configuration() {
        assert_eq!(mode("ours"), Ok(Wanted::Mode(SchedulingMode::Ours)));
        assert_eq!(mode("fixed-b=3"), Ok(Wanted::Threshold(3)));
        assert!(mode("fixed-b=0").is_err_and(|problem| problem.contains("at least 1")));
        assert!(mode("lazy").is_err_and(|problem| problem.contains("std-serving")));
    }

    #[test]
    fn a_dispatcher_routes_by_the_threshold_of_the_route() {
        let config = Config::embedded();
        let threshold = |route| match Wanted::Standard.way(&config, route) {
            Way::Standard { threshold } => threshold,
            Way::Scheduled(_) => f64::NAN,
        };
        assert_eq!(threshold("pair/entropy"), 0.4);
        assert_eq!(threshold("pair/entropy@threshold=0.7"), 0.7);
    }
}
