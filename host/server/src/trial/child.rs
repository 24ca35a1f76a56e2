//! Tries an uploaded component in a process of its own, before it may serve.
//!
//! What every policy must stand takes thousands of calls, each bounded by fuel and all together by nothing. So they are made
//! in a child of the server, at a low priority, which ends at its bounds. The child is this executable again: what it is to
//! try comes in through a pipe, what it found goes out as JSON.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use policy::compile_child::{ask, bound_to_data};
use policy::{ChildLimits, Limits, PolicyError, PolicyHost, Revision};
use serde::{Deserialize, Serialize};

use super::conformance::{Verdict, bounds, verdicts};
use super::{Given, Line, asked, session, with_causes};

/// The first argument of a child, which no person gives.
pub const ARGUMENT: &str = "try-policy-as-child";

/// What is to be tried beside the component.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// Of the route that it is for.
    pub models: usize,
    /// The manifest's.
    pub settings: BTreeMap<String, f64>,
    /// Where the component may be compiled already.
    pub cache: Option<PathBuf>,
    /// The server's bounds of an instance, in bytes.
    pub memory_bytes: usize,
    /// The server's bounds of a call.
    pub fuel_per_call: u64,
}

impl Task {
    /// For a route of so many models, under the limits of a host.
    #[must_use]
    pub fn on(host: &PolicyHost, models: usize, settings: BTreeMap<String, f64>) -> Self {
        let Limits { memory_bytes, fuel_per_call, .. } = *host.limits();
        // The child is elsewhere.
        let cache = host.cache_directory().and_then(|folder| std::path::absolute(folder).ok());
        Self { models, settings, cache, memory_bytes, fuel_per_call }
    }
}

/// What a child found.
#[derive(Debug, Serialize, Deserialize)]
enum Found {
    /// It stands everything.
    Good,
    /// It does not.
    Failed(Failed),
}

/// What a component does not stand.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{case}: {why}")]
pub struct Failed {
    /// What was tried.
    pub case: String,
    /// What it did.
    pub why: String,
}

/// Why a component cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// It does not stand what every policy must.
    #[error(transparent)]
    Failed(#[from] Failed),
    /// It took too much, or could not be tried.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

/// Has a child try a component.
///
/// # Errors
/// What it does not stand, or that it took too long.
pub fn tried(component: &[u8], task: &Task, limits: &ChildLimits) -> Result<(), TrialError> {
    let head = serde_json::to_vec(task).expect("a task has only texts and numbers");
    let length = (head.len() as u32).to_le_bytes();
    let told = ask(ARGUMENT, &[&length, &head[..], component].concat(), limits)?;
    match serde_json::from_slice(&told) {
        Ok(Found::Good) => Ok(()),
        Ok(Found::Failed(failed)) => Err(failed.into()),
        Err(error) => {
            // A child that is ours answers in JSON; another executable was started.
            let why = format!("its answer is not understood: {error}");
            Err(PolicyError::CompileBounds { why }.into())
        }
    }
}

/// The life of a child. To be called first of all in an executable whose first argument is [`ARGUMENT`].
#[must_use]
pub fn main() -> ExitCode {
    let found = bound_to_data().and_then(|()| read()).map(|(task, component)| found(&component, &task));
    let told = match found {
        Ok(found) => serde_json::to_vec(&found).map_err(io::Error::other),
        Err(complaint) => Err(io::Error::other(complaint)),
    };
    match told.and_then(|told| io::stdout().lock().write_all(&told)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match write!(io::stderr(), "{error}") {
            Ok(()) | Err(_) => ExitCode::FAILURE,
        },
    }
}

fn read() -> Result<(Task, Vec<u8>), String> {
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input).map_err(|error| format!("reading: {error}"))?;
    let cut = || "the task is cut off".to_owned();
    let (length, rest) = input.split_first_chunk().ok_or_else(cut)?;
    let (head, component) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(cut)?;
    let task = serde_json::from_slice(head).map_err(|error| format!("the task: {error}"))?;
    Ok((task, component.to_vec()))
}

fn found(component: &[u8], task: &Task) -> Found {
    let loaded = host(task).and_then(|host| Ok((host.load(component)?, host)));
    let failed = match loaded {
        Ok((revision, host)) => failed(&revision, host.limits(), task),
        Err(error) => Some(Failed { case: "it loads".to_owned(), why: with_causes(&error) }),
    };
    failed.map_or(Found::Good, Found::Failed)
}

fn host(task: &Task) -> Result<PolicyHost, PolicyError> {
    let limits = Limits {
        memory_bytes: task.memory_bytes,
        fuel_per_call: task.fuel_per_call,
        sessions: SESSIONS,
        ..Limits::default()
    };
    match &task.cache {
        None => PolicyHost::new(bounds(&limits)),
        Some(folder) => PolicyHost::with_cache(bounds(&limits), Path::new(folder)),
    }
}

/// The first thing that it does not stand.
fn failed(revision: &Arc<Revision>, limits: &Limits, task: &Task) -> Option<Failed> {
    let failed = |case: &str, why| Failed { case: case.to_owned(), why };
    if let Err(why) = dry_run(revision, task) {
        return Some(failed("a recorded journey", why));
    }
    let fails = |Verdict { case, outcome }: Verdict| outcome.err().map(|why| failed(case, why));
    verdicts(revision, limits).find_map(fails)
}

/// Every step of a recorded journey, with the settings and the number of models that it is to serve with.
fn dry_run(revision: &Arc<Revision>, task: &Task) -> Result<(), String> {
    let given = Given { settings: &task.settings, models: task.models, seed: 0, tenant: 0 };
    let settings = revision.settings(&task.settings).map_err(|error| error.to_string())?;
    let rules = revision.descriptor().rules(&settings);
    let mut session = session(revision, &given).map_err(|error| error.to_string())?;
    let lines = Line::parse(JOURNEY).map_err(|error| error.to_string())?;
    for (number, line) in lines.iter().filter(|line| line.is_for(revision, task.models)).enumerate() {
        asked(&mut session, &rules, line).map_err(|fault| format!("step {number}: {fault}"))?;
    }
    Ok(())
}

/// An answer of the embedded small model, step by step.
const JOURNEY: &str = include_str!("journey.jsonl");
/// Sessions alive at the same time; trials need a few.
const SESSIONS: u32 = 16;
