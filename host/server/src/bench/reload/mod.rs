//! A policy file that is saved over and over while requests run: does every answer come, does new content serve soon,
//! does anything grow.
//!
//! Over HTTP, as traces are what says which revision made an answer. What is saved is a built-in policy with a number
//! beside it, so every save is a revision of its own that decides the same.

mod report;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::Digest;
use serde_json::{Value, json};
use sysinfo::{ProcessesToUpdate, System};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use report::Report;

use super::Folder;
use super::routing::{Connection, RoutingError, Served};
use crate::config::{Config, PolicySource};
use crate::runtime::builtin_policies;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// With the route `pair/entropy`.
    pub config: Config,
    /// Requests at a time.
    pub clients: usize,
    /// How often the file is saved, and how long from one time to the next.
    pub saves: u32,
    /// From save to save.
    pub apart: Duration,
    /// Most tokens of an answer.
    pub tokens: usize,
}

/// What clients and the one who saves tell each other.
#[derive(Default)]
struct Log {
    /// Revisions saved, with when, and when an answer that was asked for later first named them.
    saved: BTreeMap<String, (Instant, Option<Instant>)>,
    answers: u64,
    failed: Vec<String>,
}

/// Saves and asks.
///
/// # Errors
/// [`RoutingError`] where the server does not even start; what goes wrong under load is in the report.
pub async fn run(plan: &Plan, mut progress: impl FnMut(u32)) -> Result<Report, RoutingError> {
    let folder = Folder::new()?;
    let file = folder.path().join("policy.wasm");
    let log = Arc::new(Mutex::new(Log::default()));
    save(&file, 0, &log)?;
    let mut config = plan.config.clone();
    let mut route = config.routes.get(ROUTE).cloned().ok_or(RoutingError::NoRoute(ROUTE))?;
    route.policy = PolicySource::File(file.clone());
    config.routes.insert(ROUTE.to_owned(), route);
    let served = Served::start(config).await?;
    let (stop, mut clients) = (CancellationToken::new(), JoinSet::new());
    for client in 0..plan.clients {
        let (log, address, tokens) = (Arc::clone(&log), served.address(), plan.tokens);
        clients.spawn(stop.clone().run_until_cancelled_owned(async move {
            for number in 0.. {
                let body = ask(client, number, tokens);
                let begun = Instant::now();
                let reply = async { Connection::open(address).await?.ask("/v1/completions", &body).await };
                note(&log, begun, reply.await.map_err(|error| error.to_string()));
            }
        }));
    }
    let mut resident = Vec::new();
    for number in 1..=plan.saves {
        progress(number);
        tokio::time::sleep(plan.apart).await;
        save(&file, number, &log)?;
        resident.push(resident_bytes());
    }
    // The last one has to serve, too.
    let patience = Instant::now() + PATIENCE;
    while !log.lock().unwrap_or_else(PoisonError::into_inner).last_serves() && Instant::now() < patience {
        tokio::time::sleep(GLANCE).await;
    }
    stop.cancel();
    while clients.join_next().await.is_some() {}
    let page = served.runtime().metrics_page();
    served.stop().await;
    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Report::new(&log, resident, &page))
}

/// As editors and deployments do it: the new content appears under the old name at once.
fn save(file: &Path, number: u32, log: &Mutex<Log>) -> Result<(), RoutingError> {
    let mut component =
        builtin_policies().iter().find(|(name, _)| *name == POLICY).map_or(&[][..], |of| of.1).to_vec();
    // Section 0 of nine bytes: a name of four, and the number.
    component.extend([0, 9, 4, b's', b'a', b'v', b'e']);
    component.extend(number.to_le_bytes());
    let new = file.with_extension("new");
    std::fs::write(&new, &component)?;
    let digest = Digest::of(&component).to_string();
    // The clock starts before the content can be seen.
    log.lock().unwrap_or_else(PoisonError::into_inner).saved.insert(digest, (Instant::now(), None));
    Ok(std::fs::rename(new, file)?)
}

fn ask(client: usize, number: usize, tokens: usize) -> Value {
    let prompt: Vec<u32> = (0..PROMPT).map(|at| ((7 * client + 3 * number + at) % 40) as u32 + 5).collect();
    json!({
        "model": ROUTE, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
        "route_trace": true,
    })
}

/// Takes an answer in: it must have come, and name one saved revision that served it to the end.
fn note(log: &Mutex<Log>, begun: Instant, reply: Result<impl AsRef<[u8]>, String>) {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.answers += 1;
    let answer = reply
        .and_then(|reply| serde_json::from_slice::<Value>(reply.as_ref()).map_err(|error| error.to_string()));
    let trace = match answer {
        Ok(answer) => answer["route_trace"].clone(),
        Err(error) => return log.failed.push(error),
    };
    if !trace["fell_back"].is_null() {
        return log.failed.push(trace["fell_back"].to_string());
    }
    let revision = trace["revision"].as_str().unwrap_or_default().to_owned();
    match log.saved.get_mut(&revision) {
        None => log.failed.push(format!("an answer names the revision {revision:?}, which nobody saved")),
        Some((_, first)) => *first = Some(first.map_or(begun, |first| first.min(begun))),
    }
}

impl Log {
    fn last_serves(&self) -> bool {
        self.saved.values().max_by_key(|(saved, _)| *saved).is_some_and(|(_, first)| first.is_some())
    }
}

/// Of this process, clients of the benchmark included.
fn resident_bytes() -> u64 {
    let Ok(me) = sysinfo::get_current_pid() else { return 0 };
    let Ok(mut system) = System::new() else { return 0 };
    system.refresh_processes(ProcessesToUpdate::Some(&[me]), true);
    system.process(me).map_or(0, sysinfo::Process::memory)
}

const ROUTE: &str = "pair/entropy";
const POLICY: &str = "entropy";
const PROMPT: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(5);
