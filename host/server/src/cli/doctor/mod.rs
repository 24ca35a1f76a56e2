//! `tokenrouter doctor`: does everything work on this machine, and if not, what to do.
//!
//! Three files in the order of the lines shown: the [`machine`], what the binary and the configuration hold
//! ([`holdings`]), and answers made with it ([`answers`]). Each check is a [`Finding`]; nothing stops at a failure.

mod answers;
mod holdings;
mod machine;

use std::fmt;
use std::time::Duration;

use super::{CliError, ConfigFile, configuration, start};
use crate::terminal::{Terminal, palette};

/// Find out whether everything works on this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter doctor
  tokenrouter doctor --config my.toml    # with your models and policies")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

/// What a check found.
#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    /// What was looked at.
    what: String,
    /// What was found and, unless all is well, what to do.
    found: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, what: what.into(), found: found.into() }
    }

    fn warn(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, what: what.into(), found: found.into() }
    }

    fn fail(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, what: what.into(), found: found.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, style) = match self.verdict {
            Verdict::Ok => ("ok  ", palette::GOOD),
            Verdict::Warn => ("warn", palette::WARNING),
            Verdict::Fail => ("fail", palette::BAD),
        };
        write!(f, "{style}{word}{style:#}  {:<24}  {}", self.what, self.found)
    }
}

pub(super) async fn doctor(args: Args, terminal: &Terminal) -> Result<(), CliError> {
    let config = configuration(args.config.config.as_deref())?;
    let mut report = Report { terminal, all: 0, failed: 0 };
    report.add(&machine::version())?;
    report.add(&machine::vector_unit())?;
    report.add(&machine::cores())?;
    report.add(&machine::memory())?;
    report.add(&machine::port(config.server.listen))?;
    report.add(&machine::wasm_target())?;
    for finding in holdings::policies(&config) {
        report.add(&finding)?;
    }
    match start(&config) {
        Err(error) => report.add(&Finding::fail("models and routes", error.to_string()))?,
        Ok(runtime) => {
            report.add(&holdings::loaded(&runtime.catalog()))?;
            for finding in holdings::templates(&runtime.catalog()) {
                report.add(&finding)?;
            }
            for finding in answers::all(&config, &runtime).await {
                report.add(&finding)?;
            }
            runtime.shut_down(Duration::ZERO).await;
        }
    }
    report.end()
}

struct Report<'a> {
    terminal: &'a Terminal,
    all: usize,
    failed: usize,
}

impl Report<'_> {
    fn add(&mut self, finding: &Finding) -> Result<(), CliError> {
        self.all += 1;
        self.failed += usize::from(finding.verdict == Verdict::Fail);
        Ok(self.terminal.line(format_args!("{finding}"))?)
    }

    fn end(self) -> Result<(), CliError> {
        match self.failed {
            0 => Ok(()),
            failed => Err(CliError::Unwell { failed, all: self.all }),
        }
    }
}
