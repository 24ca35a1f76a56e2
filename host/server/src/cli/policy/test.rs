//! `tokenrouter policy test`: decisions about recorded steps, and what every policy must stand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Opened, failed, open, read};
use crate::cli::{CliError, ConfigFile, configuration};
use crate::runtime::policy_host;
use crate::terminal::{Terminal, bar, palette};
use crate::trial::conformance::{self, CASES, Verdict};
use crate::trial::{self, Fault, Given, Line, Said, Trip, asked, models_most, session};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line of steps.jsonl is a step as in wit/types.wit, {\"index\": 3, \"entropy\": 2.1}; what is left out is that of a sure
token. {\"offer\": {\"source\": 1, \"tokens\": [5]}} asks `receive`. \"expect\" beside it holds what the answer must have:
  {\"index\": 3, \"entropy\": 2.1, \"expect\": {\"decision\": \"hand-off\", \"to\": 1, \"keep_held\": false}}

Examples:
  tokenrouter policy test mine.wasm                      # decisions of a journey over toy models
  tokenrouter policy test mine.wasm --steps steps.jsonl --set threshold=0.2
  tokenrouter policy test mine.wasm --conformance")]
pub(in crate::cli) struct Test {
    /// The component (.wasm).
    file: PathBuf,
    /// Steps to ask about, one JSON object a line.
    #[arg(long, value_name = "FILE", conflicts_with = "conformance")]
    steps: Option<PathBuf>,
    /// Try what every policy must stand; each case is a line.
    #[arg(long, conflicts_with = "set")]
    conformance: bool,
    /// A parameter's value; may be given again.
    #[arg(long, value_name = "KEY=N", value_parser = setting)]
    set: Vec<(String, f64)>,
    #[command(flatten)]
    config: ConfigFile,
}

pub(in crate::cli) fn test(args: &Test, terminal: &Terminal) -> Result<(), CliError> {
    if args.conformance {
        return conform(args, terminal);
    }
    let opened = open(&args.file, &args.config)?;
    match &args.steps {
        Some(file) => replay(args, &opened, file, terminal),
        None => travel(args, &opened, terminal),
    }
}

fn conform(args: &Test, terminal: &Terminal) -> Result<(), CliError> {
    let host = policy_host(&configuration(args.config.config.as_deref())?)?;
    let bar = bar(CASES.len() as u64, PROGRESS);
    let mut said = Ok(());
    let verdicts = conformance::run(&read(&args.file)?, host.limits(), |verdict| {
        bar.inc(1);
        let line = line(verdict);
        if said.is_ok() {
            said = bar.suspend(|| terminal.line(format_args!("{line}")));
        }
    });
    bar.finish_and_clear();
    said?;
    let verdicts = verdicts.map_err(|source| failed(&args.file, source))?;
    unwell(verdicts.iter().filter(|verdict| verdict.outcome.is_err()).count(), verdicts.len())
}

fn line(Verdict { case, outcome }: &Verdict) -> String {
    match outcome {
        Ok(found) => format!("{case:34}ok      {found}"),
        Err(why) => {
            let style = palette::WARNING;
            format!("{case:34}{style}FAILED{style:#}  {why}")
        }
    }
}

/// Each line's answer; where a line expects something, whether it came.
fn replay(args: &Test, opened: &Opened, file: &Path, terminal: &Terminal) -> Result<(), CliError> {
    let text =
        std::fs::read_to_string(file).map_err(|source| CliError::Read { file: file.to_owned(), source })?;
    let lines = Line::parse(&text).map_err(|source| CliError::Steps { file: file.to_owned(), source })?;
    let settings: BTreeMap<String, f64> = args.set.iter().cloned().collect();
    let given = Given { settings: &settings, models: models_most(&opened.revision), seed: 0, tenant: 0 };
    let mut session = session(&opened.revision, &given).map_err(|source| failed(&args.file, source))?;
    let checked = opened.revision.settings(&settings).map_err(|source| failed(&args.file, source))?;
    let rules = opened.revision.descriptor().rules(&checked);
    let mut missed = 0;
    for line in &lines {
        let mut answer = asked(&mut session, &rules, line).map_err(|fault| args.fault(fault))?;
        if let Some(why) = line.missed(&answer) {
            missed += 1;
            answer["FAILED"] = json!(why);
        }
        terminal.line(format_args!("{answer}"))?;
    }
    unwell(missed, lines.len())
}

/// A journey over toy models.
fn travel(args: &Test, opened: &Opened, terminal: &Terminal) -> Result<(), CliError> {
    let settings: BTreeMap<String, f64> = args.set.iter().cloned().collect();
    let given = Given { settings: &settings, models: models_most(&opened.revision), seed: 1, tenant: 0 };
    let session = session(&opened.revision, &given).map_err(|source| failed(&args.file, source))?;
    let trip = Trip::new(&opened.revision, &given, session).map_err(|source| failed(&args.file, source))?;
    for heard in trip.finish().map_err(|fault| args.fault(fault))? {
        let (call, mut answer) = match &heard.said {
            Said::Enter(role) => ("enter", json!({ "role": role.0 })),
            Said::Route(decision) => ("route", trial::shown(decision)),
            Said::Send(parcel) => ("send", json!({ "keep_held": parcel.keep_held })),
            Said::Receive(accept) => ("receive", trial::accepted(accept)),
        };
        answer["call"] = json!(call);
        answer["position"] = json!(heard.position);
        answer["role"] = json!(heard.here.0);
        terminal.line(format_args!("{answer}"))?;
    }
    Ok(())
}

impl Test {
    fn fault(&self, fault: Fault) -> CliError {
        CliError::Trial { file: self.file.clone(), fault: Box::new(fault) }
    }
}

fn unwell(failed: usize, all: usize) -> Result<(), CliError> {
    if failed == 0 { Ok(()) } else { Err(CliError::Unwell { failed, all }) }
}

pub(super) fn setting(text: &str) -> Result<(String, f64), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=N")?;
    let value = value.parse().map_err(|_| format!("{value:?} is no number"))?;
    Ok((key.to_owned(), value))
}

const PROGRESS: &str = "conformance  {bar:32} {pos}/{len}";
