//! `tokenrouter policy check`: load a policy as the server would, and say what it is.

use std::path::PathBuf;
use std::time::Instant;

use policy::{Fires, Limits, PolicyGuard, Revision};

use super::{Opened, open};
use crate::cli::{CliError, ConfigFile};
use crate::terminal::{Align, Table, Terminal, grouped, size};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter policy check policies/prebuilt/entropy.wasm
  tokenrouter policy check mine.wasm --config my.toml    # under the limits of [sandbox]")]
pub(in crate::cli) struct Check {
    /// The component (.wasm).
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
}

pub(in crate::cli) fn check(args: &Check, terminal: &Terminal) -> Result<(), CliError> {
    let begun = Instant::now();
    let Opened { revision, component, limits } = open(&args.file, &args.config)?;
    let seconds = begun.elapsed().as_secs_f64();
    terminal.line(format_args!("{}", described(&revision, component.len(), seconds)))?;
    for table in [parameters(&revision), needs(&revision), guards(&revision)].into_iter().flatten() {
        terminal.line(format_args!("\n{table}"))?;
    }
    Ok(terminal.line(format_args!("\n{}", bounds(&limits)))?)
}

fn described(revision: &Revision, bytes: usize, seconds: f64) -> Table {
    let descriptor = revision.descriptor();
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row([&"policy", &descriptor.name]);
    table.row([&"", &descriptor.doc]);
    table.row([&"digest", &format!("{:#}", revision.digest())]);
    table.row([&"size", &size(bytes as u64)]);
    table.row([&"compiled and rehearsed in", &format!("{:.0} ms", seconds * 1e3)]);
    let (least, most) = (*descriptor.models.start(), *descriptor.models.end());
    table.row([&"models of a route", &format!("{least} to {most}")]);
    table.row([&"candidates it sees", &descriptor.candidates]);
    table.row([&"text it sees", &format!("{} bytes, prompt {}", descriptor.tail, descriptor.prompt)]);
    table.row([&"asked at handoffs (send)", &yes(descriptor.sends)]);
    table.row([&"judges visits (receive)", &yes(descriptor.receives)]);
    table.row([&"keeps distributions", &yes(descriptor.distributions)]);
    table.row([&"tokens held back", &descriptor.holdback]);
    let fallback = descriptor.fallback.map_or_else(|| "the entry model".to_owned(), |role| role.to_string());
    table.row([&"if it fails", &fallback]);
    table
}

fn parameters(revision: &Revision) -> Option<Table> {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left, Align::Left]);
    table.row([&"parameter", &"default", &"range", &"meaning"]);
    for parameter in &revision.descriptor().parameters {
        let range = format!("{} to {}", parameter.range.start(), parameter.range.end());
        table.row([&parameter.key, &parameter.default, &range, &parameter.doc]);
    }
    (!revision.descriptor().parameters.is_empty()).then_some(table)
}

fn needs(revision: &Revision) -> Option<Table> {
    let mut table = Table::new(&[Align::Left; 4]);
    table.row([&"role", &"needs", &"heads", &"meaning"]);
    for (role, need) in revision.descriptor().needs.iter().enumerate() {
        let context = if need.context_least == 0 {
            String::new()
        } else {
            format!(" of {} tokens", need.context_least)
        };
        table.row([&role, &format!("{}{context}", need.name), &need.heads.join(", "), &need.doc]);
    }
    (!revision.descriptor().needs.is_empty()).then_some(table)
}

fn guards(revision: &Revision) -> Option<Table> {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row([&"asked about", &"where"]);
    for PolicyGuard { role, fires } in &revision.descriptor().guards {
        let fires = match fires {
            Fires::Above(limit) => format!("{:?} is above {}", limit.signal, limit.parameter),
            Fires::Below(limit) => format!("{:?} is below {}", limit.signal, limit.parameter),
            Fires::Text(text) => format!("the token completes {text:?}"),
            Fires::AfterText(text) => format!("the token is the first after {text:?}"),
            Fires::Start => "the token is the first".to_owned(),
            Fires::End => "the token ends the answer".to_owned(),
        };
        table.row([role, &fires]);
    }
    (!revision.descriptor().guards.is_empty()).then_some(table)
}

fn bounds(limits: &Limits) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row([&"limit", &"here"]);
    table.row([&"fuel of a call", &grouped(limits.fuel_per_call)]);
    table.row([&"fuel of a session's start", &grouped(limits.fuel_per_session)]);
    table.row([&"time of a call", &format!("{} ms", limits.deadline.as_millis())]);
    table.row([&"memory of an instance", &size(limits.memory_bytes as u64)]);
    table
}
