//! The command line: what can be asked for, and one file per command.
//!
//! Commands parse nothing themselves and decide no exit code: they return a [`CliError`], and `main.rs` shows it.

mod audit;
mod bench;
mod config;
mod doctor;
mod error;
mod experiment;
mod key;
mod logging;
mod model;
mod policy;
mod remote;
mod run;
mod serve;

use std::future::Future;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

pub use error::CliError;

use crate::config::Config;
use crate::runtime::Runtime;
use crate::terminal::{LoadBar, Terminal};

/// Serves a small and a large language model as one: hard tokens go to the large one.
#[derive(Debug, Parser)]
#[command(name = "tokenrouter", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Common {
    /// Which log lines to write to standard error: a level, or target=level,...
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Everywhere")]
    log: Option<String>,
    /// How log lines look.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text", help_heading = "Everywhere")]
    log_format: logging::Format,
    /// Leave out colours, as NO_COLOR=1 does.
    #[arg(long, global = true, help_heading = "Everywhere")]
    no_color: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Answer OpenAI-compatible requests over HTTP.
    Serve(serve::Args),
    /// Answer one prompt here and show which model made which token.
    Run(run::Args),
    /// Measure the system.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Begin, check, time and upload routing policies.
    #[command(subcommand)]
    Policy(policy::Policy),
    /// Bring models, and look at their files.
    #[command(subcommand)]
    Model(model::Model),
    /// Show or check a configuration.
    #[command(subcommand)]
    Config(config::Command),
    /// Make API keys.
    #[command(subcommand)]
    Key(key::Key),
    /// Begin, watch and end experiments on the routes of a running server.
    #[command(subcommand)]
    Experiment(experiment::Experiment),
    /// Look at the log of all changes, and check that nothing in it was changed.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Find out whether everything works on this machine.
    Doctor(doctor::Args),
}

impl Cli {
    /// Does what was asked for.
    ///
    /// # Errors
    /// [`CliError`]; its message is for a person.
    pub fn perform(self) -> Result<(), CliError> {
        let default_log = if matches!(self.command, Command::Serve(_)) { "info" } else { "warn" };
        logging::start(self.common.log.as_deref().unwrap_or(default_log), self.common.log_format)?;
        let terminal = Terminal::of_process(self.common.no_color);
        match self.command {
            Command::Serve(args) => on_threads(serve::serve(args, &terminal)),
            Command::Run(args) => on_threads(run::run(args, &terminal)),
            Command::Bench(bench::Bench::Quality(args)) => on_threads(bench::quality(args, &terminal)),
            Command::Bench(bench::Bench::Decode(args)) => bench::decode(&args, &terminal),
            Command::Bench(bench::Bench::Device(args)) => bench::device(&args, &terminal),
            Command::Bench(bench::Bench::Policy(args)) => bench::policy(&args, &terminal),
            Command::Bench(bench::Bench::Routing(args)) => on_threads(bench::routing(args, &terminal)),
            Command::Bench(bench::Bench::Isolation(args)) => on_threads(bench::isolation(&args, &terminal)),
            Command::Bench(bench::Bench::Reload(args)) => on_threads(bench::reload(&args, &terminal)),
            Command::Bench(bench::Bench::Scheduler(args)) => bench::scheduler(&args, &terminal),
            Command::Policy(command) => policy::policy(&command, &terminal),
            Command::Model(model::Model::Inspect(args)) => model::inspect(&args, &terminal),
            Command::Model(model::Model::Pull(args)) => model::bring(&args, &terminal),
            Command::Config(config::Command::Show) => config::show(&terminal),
            Command::Config(config::Command::Check(args)) => on_threads(config::check(args, &terminal)),
            Command::Config(config::Command::Diff(args)) => config::diff(&args, &terminal),
            Command::Key(key::Key::New(args)) => key::new(&args, &terminal),
            Command::Experiment(command) => experiment::experiment(&command, &terminal),
            Command::Audit(command) => audit::audit(&command, &terminal),
            Command::Doctor(args) => on_threads(doctor::doctor(args, &terminal)),
        }
    }
}

/// The configuration in a file, or the embedded one.
fn configuration(file: Option<&Path>) -> Result<Config, CliError> {
    match file {
        None => Ok(Config::embedded()),
        Some(file) => Config::read(file).map_err(|source| CliError::Config { file: file.to_owned(), source }),
    }
}

/// Loads everything, with a bar if a person watches.
fn start(config: &Config) -> Result<Runtime, CliError> {
    Ok(Runtime::start(config, &mut LoadBar::default())?)
}

fn on_threads(command: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::Threads { source })?;
    let outcome = runtime.block_on(command);
    // A second signal must not wait for a blocking task.
    runtime.shutdown_background();
    outcome
}

/// `--config FILE`.
#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// Configuration; without it, the one shown by `tokenrouter config show`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Two commands to begin with; both use the models inside the binary:
  tokenrouter run \"Tom has 45 apples. He finds 17 more apples. He buys 38 more apples. How many apples does Tom have now?\"
  tokenrouter serve";
