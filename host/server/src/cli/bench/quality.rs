//! `tokenrouter bench quality`: its options, its bar, its sentences.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::save;
use crate::bench::quality::{self, PROGRESS, Plan, Progress, Report, generated};
use crate::cli::{CliError, ConfigFile, configuration, start};
use crate::runtime::Runtime;
use crate::terminal::{Terminal, bar, palette};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter bench quality --quick
  tokenrouter bench quality --svg quality.svg --json quality.json
  tokenrouter bench quality --config examples/configs/policies.toml --each large --quick
  tokenrouter bench quality --config qwen.toml --questions tests/bench/questions.jsonl --routes coder --quick")]
pub(in crate::cli) struct Quality {
    /// How many held-out problems.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    problems: u32,
    /// Ask these instead: a JSON object per line, {"question": TEXT, "answer": NUMBER}.
    #[arg(long, value_name = "FILE", conflicts_with = "problems")]
    questions: Option<PathBuf>,
    /// Which problems, and which random numbers.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Requests under way at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    concurrency: u32,
    /// A fifth of the generated problems, and fewer points.
    #[arg(long)]
    quick: bool,
    /// Measure the routes PREFIX/entropy, PREFIX/margin and PREFIX/random.
    #[arg(long, value_name = "PREFIX", default_value = "pair")]
    routes: String,
    /// Measure every model and route of the configuration as it is set instead, with this model's share of tokens.
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["routes", "svg"])]
    each: Option<String>,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Save the picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

impl Quality {
    fn plan(&self) -> Result<Plan, CliError> {
        let asked = self.problems as usize;
        let questions = match &self.questions {
            Some(file) => quality::read_questions(file)?,
            None => generated(self.seed, if self.quick { asked.div_ceil(QUICK_DIVISOR) } else { asked }),
        };
        Ok(Plan {
            questions,
            seed: self.seed,
            concurrency: self.concurrency as usize,
            prefix: self.routes.clone(),
            quick: self.quick,
        })
    }
}

pub(in crate::cli) async fn quality(args: Quality, terminal: &Terminal) -> Result<(), CliError> {
    let plan = args.plan()?;
    let config = configuration(args.config.config.as_deref())?;
    let runtime = start(&config)?;
    let begun = Instant::now();
    if let Some(large) = &args.each {
        return each(&args, (&runtime, &plan, large), terminal).await;
    }
    let mut progress = Measuring { bar: bar(plan.answers(), PROGRESS) };
    let outcome = quality::run(&runtime, &plan, &mut progress).await;
    progress.bar.finish_and_clear();
    runtime.shut_down(Duration::ZERO).await;
    let report = outcome?;
    show(&report, begun.elapsed(), terminal)?;
    if let Some(file) = &args.json {
        save(file, &format!("{:#}\n", report.json()), terminal)?;
    }
    if let Some(file) = &args.svg {
        save(file, &report.plot().to_svg(), terminal)?;
    }
    Ok(())
}

async fn each(
    args: &Quality,
    (runtime, plan, large): (&Runtime, &Plan, &str),
    terminal: &Terminal,
) -> Result<(), CliError> {
    let answers = plan.questions.len() * runtime.catalog().routes.len();
    let mut progress = Measuring { bar: bar(answers as u64, PROGRESS) };
    let outcome = quality::each(runtime, plan, large, &mut progress).await;
    progress.bar.finish_and_clear();
    runtime.shut_down(Duration::ZERO).await;
    let each = outcome?;
    terminal.line(format_args!("{}", each.table()))?;
    if let Some(file) = &args.json {
        save(file, &format!("{:#}\n", each.json()), terminal)?;
    }
    each.failed.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}

fn show(report: &Report, elapsed: Duration, terminal: &Terminal) -> Result<(), CliError> {
    terminal.line(format_args!("{}", report.table()))?;
    let style = palette::STRONG;
    let headline = report.headline.as_ref().map_or_else(
        || "no policy stayed below a tenth of the tokens".to_owned(),
        |headline| headline.to_string().trim_end().to_owned(),
    );
    terminal.line(format_args!("\n{style}{headline}{style:#}"))?;
    let (problems, concurrency) = (report.problems, report.concurrency);
    let seconds = elapsed.as_secs_f64();
    Ok(terminal.aside(format_args!(
        "{problems} problems, seed {}, {concurrency} requests at once, {seconds:.0} s; ~ is computed, not run",
        report.seed
    ))?)
}

struct Measuring {
    bar: ProgressBar,
}

impl Progress for Measuring {
    fn begin(&mut self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    fn answered(&mut self) {
        self.bar.inc(1);
    }
}

const QUICK_DIVISOR: usize = 5;
