//! What every policy must stand, whoever wrote it.
//!
//! Each case answers with what it found, in numbers where there are any, or with why the policy fails it. They are run
//! by authors (`tokenrouter policy test --conformance`) and by our own tests, against the same component that would serve.

mod journeys;
mod resources;

use std::sync::Arc;
use std::time::Duration;

use policy::{Limits, PolicyError, PolicyHost, Revision};

/// A case and what came of it.
#[derive(Debug)]
pub struct Verdict {
    /// What was tried.
    pub case: &'static str,
    /// What was found, or why it fails.
    pub outcome: Result<String, String>,
}

/// Loads a component under these limits and tries it in every case; tells each as it is done.
///
/// # Errors
/// What keeps the component from being loaded at all.
pub fn run(
    component: &[u8],
    limits: &Limits,
    mut told: impl FnMut(&Verdict),
) -> Result<Vec<Verdict>, PolicyError> {
    let host = PolicyHost::new(bounds(limits))?;
    let revision = host.load(component)?;
    let mut all = Vec::new();
    for verdict in verdicts(&revision, host.limits()) {
        told(&verdict);
        all.push(verdict);
    }
    Ok(all)
}

/// The limits under which cases are tried, where these are the server's.
#[must_use]
pub fn bounds(limits: &Limits) -> Limits {
    // All sessions of a case are in one instance, and it is never given up: that is where they could meet.
    // Fuel bounds a call here as everywhere; time on a machine that others use says nothing about a policy.
    let deadline = Duration::from_secs(60);
    Limits { shards: 1, sessions_served_most: u32::MAX, deadline, ..limits.clone() }
}

/// Tries a revision in one case after the other; it runs under [`bounds`].
pub fn verdicts<'a>(
    revision: &'a Arc<Revision>,
    limits: &'a Limits,
) -> impl Iterator<Item = Verdict> + use<'a> {
    CASES.into_iter().map(move |(case, attempt)| Verdict { case, outcome: attempt(revision, limits) })
}

type Attempt = fn(&Arc<Revision>, &Limits) -> Result<String, String>;

/// In the order in which they are run.
pub const CASES: [(&str, Attempt); 8] = [
    ("the descriptor is sane", descriptor),
    ("journeys reach their end", journeys::whole),
    ("the same is decided again", journeys::again),
    ("no handoff without progress", journeys::progress),
    ("interleaved sessions do not meet", journeys::interleaved),
    ("extreme inputs are survived", journeys::extreme),
    ("fuel of a call", resources::fuel),
    ("memory over 10,000 sessions", resources::memory),
];

fn descriptor(revision: &Arc<Revision>, _: &Limits) -> Result<String, String> {
    let descriptor = revision.descriptor();
    let name = &descriptor.name;
    let is_word =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_word {
        return Err(format!("the name {name:?} is no word of small letters, digits and hyphens"));
    }
    let is_line = |doc: &str| !doc.trim().is_empty() && !doc.contains('\n');
    if !is_line(&descriptor.doc) {
        return Err("the doc is not one line".to_owned());
    }
    if let Some(parameter) = descriptor.parameters.iter().find(|parameter| !is_line(&parameter.doc)) {
        return Err(format!("the doc of parameter {} is not one line", parameter.key));
    }
    let (parameters, guards) = (descriptor.parameters.len(), descriptor.guards.len());
    Ok(format!("{name}: {parameters} parameters, {guards} guards"))
}
