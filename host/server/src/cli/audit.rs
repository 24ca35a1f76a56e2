//! `tokenrouter audit`: the log of all changes.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use store::{Anchor, Store, StoreError};

use super::CliError;
use super::remote::Remote;
use crate::terminal::{Align, Table, Terminal};

/// Look at the log of all changes, and check that nothing in it was changed.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter audit list --data-dir state
  tokenrouter audit verify --data-dir state --anchor 41:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  tokenrouter audit verify --server http://127.0.0.1:8080 --key-file admin-key")]
pub(super) enum Audit {
    /// Check the chain of entries, the records against it, and the bytes of every policy.
    Verify(Verify),
    /// Show entries.
    List(List),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The last line is the log's anchor. Whoever notes it elsewhere and gives it later finds out if the whole log was written anew,
which a chain alone cannot show. A running server has its folder to itself: ask it with --server.")]
pub(super) struct Verify {
    #[command(flatten)]
    of: Of,
    /// An anchor that was noted, NUMBER:DIGEST.
    #[arg(long, value_name = "ANCHOR", value_parser = anchor, requires = "data_dir")]
    anchor: Option<Anchor>,
}

#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    of: Of,
    /// The first entry.
    #[arg(long, default_value_t = 1, value_name = "N")]
    from: u64,
    /// How many at most.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    limit: usize,
}

/// Whose log.
#[derive(Debug, clap::Args)]
struct Of {
    /// Folder of a server that does not run.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) fn audit(command: &Audit, terminal: &Terminal) -> Result<(), CliError> {
    match command {
        Audit::Verify(args) => verify(args, terminal),
        Audit::List(args) => list(args, terminal),
    }
}

fn verify(args: &Verify, terminal: &Terminal) -> Result<(), CliError> {
    let verified = match &args.of.data_dir {
        Some(folder) => {
            let verified = open(folder)?.verify(args.anchor).map_err(|source| failed(folder, source))?;
            serde_json::to_value(verified).expect("numbers and texts")
        }
        None => args.of.remote.ask("GET", "/admin/audit/verify", None)?,
    };
    let (head, count) = (&verified["head"], |key: &str| verified[key].as_u64().unwrap_or_default());
    let entries = head["sequence"].as_u64().unwrap_or_default();
    terminal.line(format_args!(
        "{entries} entries hold together; {} records and {} revisions are as they say",
        count("records"),
        count("revisions")
    ))?;
    Ok(terminal.line(format_args!("{entries}:{}", head["digest"].as_str().unwrap_or_default()))?)
}

fn list(args: &List, terminal: &Terminal) -> Result<(), CliError> {
    let entries = match &args.of.data_dir {
        Some(folder) => {
            let read = open(folder)?.audit(args.from, args.limit).map_err(|source| failed(folder, source))?;
            serde_json::to_value(read).expect("numbers and texts")
        }
        None => {
            let path = format!("/admin/audit?from={}&limit={}", args.from, args.limit);
            args.of.remote.ask("GET", &path, None)?["entries"].take()
        }
    };
    let mut table =
        Table::new(&[Align::Right, Align::Right, Align::Left, Align::Left, Align::Left, Align::Left]);
    table.row([&"entry", &"unix ms", &"who", &"what", &"of", &"detail"]);
    for entry in entries.as_array().into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let number = |key: &str| entry[key].as_u64().unwrap_or_default();
        let of = format!("{} {}", text("kind"), text("name"));
        let [sequence, at] = [number("sequence"), number("at_unix_ms")];
        table.row([&sequence, &at, &text("who"), &text("action"), &of, &text("detail")]);
    }
    Ok(terminal.line(format_args!("{table}"))?)
}

/// The store of a folder that is one already.
fn open(folder: &Path) -> Result<Store, CliError> {
    if !folder.join("state.redb").is_file() {
        return Err(CliError::NoStore { folder: folder.to_owned() });
    }
    Store::open(folder).map_err(|source| failed(folder, source))
}

fn failed(folder: &Path, source: StoreError) -> CliError {
    let folder = folder.to_owned();
    match source {
        StoreError::InUse(_) => CliError::StoreInUse { folder },
        source => CliError::Store { folder, source: Box::new(source) },
    }
}

fn anchor(text: &str) -> Result<Anchor, String> {
    let (sequence, digest) = text.split_once(':').ok_or("must be NUMBER:DIGEST")?;
    let sequence = sequence.parse().map_err(|_| format!("{sequence:?} is no number"))?;
    let digest = digest.parse().map_err(|error| format!("{digest:?} is {error}"))?;
    Ok(Anchor { sequence, digest })
}
