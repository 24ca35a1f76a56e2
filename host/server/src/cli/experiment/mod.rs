//! `tokenrouter experiment`: experiments on the routes of a running server.

mod show;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Subcommand;
use serde_json::{Value, json};

use super::CliError;
use super::remote::{Body, Remote, encoded};
use crate::terminal::{Align, Table, Terminal};

/// Begin, watch and end experiments on the routes of a running server.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter experiment create share experiment.toml
  tokenrouter experiment show share
  tokenrouter experiment weights share margin=30
  tokenrouter experiment promote share margin --reason \"better answers at the same price\"")]
pub(super) enum Experiment {
    /// All experiments.
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// One experiment: its arms, what may be concluded, and how surely.
    Show {
        /// Its name.
        name: String,
        /// As the server gives it.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        remote: Remote,
    },
    /// Begin one.
    Create {
        /// Its name.
        name: String,
        /// TOML with the keys of a table [experiments.NAME].
        file: PathBuf,
        #[command(flatten)]
        remote: Remote,
    },
    /// Give arms other weights; the control takes what they leave.
    Weights {
        /// Its name.
        name: String,
        /// ARM=PERCENT of the keys, e.g. margin=12.5
        #[arg(required = true, value_name = "ARM=PERCENT", value_parser = weight)]
        weights: Vec<(String, u16)>,
        #[command(flatten)]
        remote: Remote,
    },
    /// The control serves everybody for a while.
    Pause(Because),
    /// End a pause.
    Resume {
        /// Its name.
        name: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// One arm serves everybody from now on.
    Promote {
        /// Its name.
        name: String,
        /// The arm.
        arm: String,
        /// Why, for the audit log.
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// The control serves everybody from now on.
    Rollback(Because),
}

#[derive(Debug, clap::Args)]
pub(super) struct Because {
    /// Its name.
    name: String,
    /// Why, for the audit log.
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    remote: Remote,
}

pub(super) fn experiment(command: &Experiment, terminal: &Terminal) -> Result<(), CliError> {
    let act = |remote: &Remote, name: &str, action: &str, body: &Value| {
        let path = format!("/admin/experiments/{}/{action}", encoded(name));
        let shown = remote.ask("POST", &path, Some(Body::json(body)))?;
        show::show(&shown, terminal)
    };
    match command {
        Experiment::List { remote } => list(&remote.ask("GET", "/admin/experiments", None)?, terminal),
        Experiment::Show { name, json, remote } => {
            let shown = remote.ask("GET", &format!("/admin/experiments/{}", encoded(name)), None)?;
            if *json {
                return Ok(terminal.line(format_args!("{shown:#}"))?);
            }
            show::show(&shown, terminal)
        }
        Experiment::Create { name, file, remote } => {
            let text = std::fs::read_to_string(file)
                .map_err(|source| CliError::Read { file: file.clone(), source })?;
            let body: Value = toml::from_str(&text)
                .map_err(|source| CliError::Definition { file: file.clone(), source: Box::new(source) })?;
            let path = format!("/admin/experiments/{}", encoded(name));
            show::show(&remote.ask("PUT", &path, Some(Body::json(&body)))?, terminal)
        }
        Experiment::Weights { name, weights, remote } => {
            let weights: BTreeMap<_, _> = weights.iter().cloned().collect();
            act(remote, name, "weights", &json!({"weights_bp": weights}))
        }
        Experiment::Pause(Because { name, reason, remote }) => {
            act(remote, name, "pause", &json!({"reason": reason}))
        }
        Experiment::Resume { name, remote } => act(remote, name, "resume", &json!({})),
        Experiment::Promote { name, arm, reason, remote } => {
            act(remote, name, "promote", &json!({"arm": arm, "reason": reason}))
        }
        Experiment::Rollback(Because { name, reason, remote }) => {
            act(remote, name, "rollback", &json!({"reason": reason}))
        }
    }
}

fn list(all: &Value, terminal: &Terminal) -> Result<(), CliError> {
    let experiments = all["experiments"].as_array().map(Vec::as_slice).unwrap_or_default();
    if experiments.is_empty() {
        return Ok(terminal.line(format_args!("no experiments"))?);
    }
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Left, Align::Left]);
    for of in experiments {
        let text = |key: &str| of[key].as_str().unwrap_or_default().to_owned();
        table.row([&text("name"), &text("state"), &text("route"), &show::weights(of)]);
    }
    Ok(terminal.line(format_args!("{table}"))?)
}

/// `ARM=PERCENT` in basis points.
fn weight(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("{text:?} is not of the form ARM=PERCENT, from 0 to 100 in steps of 0.01");
    let (arm, percent) = text.split_once('=').ok_or_else(wrong)?;
    let percent: f64 = percent.trim_end_matches('%').parse().map_err(|_| wrong())?;
    let points = percent * 100.0;
    let is_whole = (points - points.round()).abs() < 1e-6;
    if !(0.0..=10_000.0).contains(&points) || !is_whole {
        return Err(wrong());
    }
    Ok((arm.to_owned(), points.round() as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_given_in_percent() {
        assert_eq!(weight("new=12.5"), Ok(("new".to_owned(), 1250)));
        assert_eq!(weight("new=100%"), Ok(("new".to_owned(), 10_000)));
        for wrong in ["new", "new=x", "new=100.1", "new=-1", "new=0.001"] {
            assert!(weight(wrong).unwrap_err().contains("ARM=PERCENT"), "{wrong}");
        }
    }
}
