//! What was uploaded to a running server: look at it, have another revision serve, give it up.

use serde_json::{Value, json};

use crate::cli::CliError;
use crate::cli::remote::{Body, Remote, encoded};
use crate::terminal::{Align, Table, Terminal, size};

/// A policy on a server.
#[derive(Debug, clap::Args)]
pub(super) struct Of {
    /// Its name.
    name: String,
    /// The tenant whose it is, with an admin's key; without it, the key's own.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter policy list --key-file key
  tokenrouter policy list --tenant '*' --server https://models.example --key-file admin-key")]
pub(in crate::cli) struct List {
    /// The tenant whose they are, with an admin's key; '*' is everybody.
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tokenrouter policy show doubt --key-file key")]
pub(in crate::cli) struct Show {
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tokenrouter policy activate doubt 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)]
pub(in crate::cli) struct Activate {
    #[command(flatten)]
    of: Of,
    /// SHA-256 of the revision, as `policy show` prints it.
    revision: String,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Again and again leads further back.\n\nExample:\n  tokenrouter policy rollback doubt --key-file key"
)]
pub(in crate::cli) struct Rollback {
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Answers that run are finished.\n\nExample:\n  tokenrouter policy delete doubt --key-file key"
)]
pub(in crate::cli) struct Delete {
    #[command(flatten)]
    of: Of,
}

pub(in crate::cli) fn list(args: &List, terminal: &Terminal) -> Result<(), CliError> {
    let query = query(args.tenant.as_deref(), &[]);
    let list = args.remote.ask("GET", &format!("/v1/policies{query}"), None)?;
    let mut table = Table::new(&[Align::Left; 5]);
    table.row([&"policy", &"tenant", &"like", &"active", &"state"]);
    for policy in list["data"].as_array().into_iter().flatten() {
        let state = policy["broken"].as_str().unwrap_or("serving");
        let active = text(&policy["active"]).chars().take(SHORT).collect::<String>();
        table.row([
            &text(&policy["name"]),
            &text(&policy["owner"]),
            &text(&policy["route"]),
            &active,
            &state,
        ]);
    }
    Ok(terminal.line(format_args!("{table}"))?)
}

pub(in crate::cli) fn show(args: &Show, terminal: &Terminal) -> Result<(), CliError> {
    answered(&args.of.ask("GET", "", &[], None)?, terminal)
}

pub(in crate::cli) fn activate(args: &Activate, terminal: &Terminal) -> Result<(), CliError> {
    let body = Body::json(&json!({ "revision": args.revision }));
    answered(&args.of.ask("POST", "/activate", &[], Some(body))?, terminal)
}

pub(in crate::cli) fn roll_back(args: &Rollback, terminal: &Terminal) -> Result<(), CliError> {
    answered(&args.of.ask("POST", "/rollback", &[], None)?, terminal)
}

pub(in crate::cli) fn delete(args: &Delete, terminal: &Terminal) -> Result<(), CliError> {
    args.of.ask("DELETE", "", &[], None)?;
    Ok(terminal.line(format_args!("{} is gone", args.of.name))?)
}

impl Of {
    /// Asks about the policy.
    pub(super) fn ask(
        &self,
        method: &str,
        below: &str,
        more: &[(&str, &str)],
        body: Option<Body>,
    ) -> Result<Value, CliError> {
        let query = query(self.tenant.as_deref(), more);
        self.remote.ask(method, &format!("/v1/policies/{}{below}{query}", encoded(&self.name)), body)
    }
}

/// A policy and its revisions.
pub(super) fn answered(policy: &Value, terminal: &Terminal) -> Result<(), CliError> {
    let mut head = Table::new(&[Align::Left, Align::Left]);
    head.row([&"policy", &text(&policy["name"])]);
    head.row([&"ask for", &text(&policy["model"])]);
    head.row([&"of tenant", &text(&policy["owner"])]);
    head.row([&"like route", &text(&policy["route"])]);
    head.row([&"settings", &policy["settings"].to_string()]);
    head.row([&"state", &policy["broken"].as_str().unwrap_or("serving")]);
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Left, Align::Left]);
    table.row([&"", &"revision", &"size", &"by key", &"calls itself"]);
    for revision in policy["revisions"].as_array().into_iter().flatten() {
        let mark = if revision["active"] == json!(true) { "*" } else { "" };
        let bytes = size(revision["bytes"].as_u64().unwrap_or_default());
        let (digest, by) = (text(&revision["revision"]), text(&revision["uploaded_by"]));
        table.row([&mark, &digest, &bytes, &by, &text(&revision["policy"])]);
    }
    Ok(terminal.line(format_args!("{head}\n\n{table}"))?)
}

fn query(tenant: Option<&str>, more: &[(&str, &str)]) -> String {
    let given = tenant.map(|tenant| ("tenant", tenant)).into_iter().chain(more.iter().copied());
    let pairs: Vec<String> = given.map(|(key, value)| format!("{key}={}", encoded(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Digits of a digest that tell revisions apart.
const SHORT: usize = 12;
