//! What a decision costs: a native closure, a guard that the host looks at itself, a compiled guest, and guests in other
//! languages, all in one run on one thread.
//!
//! Every figure is the median of samples of about 2 ms on the wall clock, with the smallest beside it: on a busy machine
//! the smallest is the nearer to the truth.

mod cases;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use policy::{Limits, PolicyError, PolicyHost, Revision};

pub use report::Report;

/// A component to be measured.
#[derive(Clone, Debug)]
pub struct Guest {
    /// What it is called in the table.
    pub name: String,
    /// Its bytes.
    pub component: Vec<u8>,
}

/// A case and its figures.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was measured.
    pub case: String,
    /// Nanoseconds a decision: the median of the samples.
    pub ns: f64,
    /// The smallest sample.
    pub ns_least: f64,
    /// What it is meant to stay below.
    pub goal_ns: Option<f64>,
}

/// What is measured beside the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Native code, the host's own look at guards, and the `entropy` of this binary.
    Everything,
    /// The guests alone, beside a native closure.
    GuestsOnly,
}

/// A component that does not serve.
#[derive(Debug, thiserror::Error)]
#[error("measuring {guest}")]
pub struct GuestError {
    guest: String,
    source: Box<PolicyError>,
}

/// Measures; tells each row before it begins.
///
/// # Errors
/// [`GuestError`] of the first component that does not serve.
pub fn run(guests: &[Guest], scope: Scope, mut begins: impl FnMut(&str)) -> Result<Report, GuestError> {
    let of = |guest: &str| {
        let guest = guest.to_owned();
        move |source| GuestError { guest, source: Box::new(source) }
    };
    let host = PolicyHost::new(Limits::default()).map_err(of("policies"))?;
    let mut rows = vec![cases::native(&mut begins)];
    if scope == Scope::Everything {
        rows.extend(ours(&host, &mut begins).map_err(of("Rust"))?);
    }
    for Guest { name, component } in guests {
        begins(&format!("{name}: compiling"));
        let revision = host.load(component).map_err(of(name))?;
        let goals = if component.len() > INTERPRETER_BYTES { &INTERPRETED } else { &COMPILED };
        rows.extend(cases::guest(name, &revision, goals, &mut begins).map_err(of(name))?);
    }
    Ok(Report { rows })
}

/// The host's own part, and the `entropy` of this binary.
fn ours(host: &PolicyHost, begins: &mut impl FnMut(&str)) -> Result<Vec<Row>, PolicyError> {
    let revision = host.load(ENTROPY)?;
    let mut rows = cases::guarded(&revision, begins)?.to_vec();
    rows.extend(cases::guest("Rust", &revision, &COMPILED, begins)?);
    Ok(rows)
}

/// How many rows a run has.
#[must_use]
pub fn rows(guests: usize, scope: Scope) -> usize {
    1 + 5 * guests + if scope == Scope::Everything { 2 + 4 } else { 0 }
}

/// What the cases of a guest are meant to stay below, in nanoseconds: design/wasm.md 4.7.
struct Goals {
    route: Option<f64>,
    candidates: Option<f64>,
    crowd: Option<f64>,
    session: Option<f64>,
}

const COMPILED: Goals =
    Goals { route: Some(350.0), candidates: Some(900.0), crowd: Some(350.0), session: Some(1000.0) };
const INTERPRETED: Goals = Goals { route: Some(10_000.0), candidates: None, crowd: None, session: None };
/// No compiled guest comes near it, and no interpreter is smaller.
const INTERPRETER_BYTES: usize = 512 << 10;

/// Runs the body in samples.
fn measure(case: String, goal_ns: Option<f64>, mut body: impl FnMut()) -> Row {
    let began = Instant::now();
    let mut runs = 0_u32;
    while began.elapsed() < SAMPLE {
        body();
        runs += 1;
    }
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..runs {
                body();
            }
            began.elapsed().as_secs_f64() * 1e9 / f64::from(runs)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    Row { case, ns: samples[SAMPLES / 2], ns_least: samples[0], goal_ns }
}

/// A session's beginning under the default settings.
fn start(revision: &Arc<Revision>) -> Result<policy::Start, PolicyError> {
    let allowed = &revision.descriptor().models;
    let models = 2.clamp(*allowed.start(), *allowed.end());
    let model =
        |role| policy::ModelInfo { name: format!("model-{role}"), vocabulary: 151_936, context: 32_768 };
    Ok(policy::Start {
        journey: journey::JourneyId(1),
        tenant: 0,
        models: (0..models).map(model).collect(),
        settings: revision.settings(&BTreeMap::new())?,
        prompt_tokens: 100,
        max_tokens: 1000,
        prompt: String::new(),
        seed: 1,
    })
}

const SAMPLE: Duration = Duration::from_millis(2);
const SAMPLES: usize = 101;
/// What a bar over a run shows.
pub const PROGRESS: &str = "measuring  {bar:32} {pos}/{len}  {msg}";

/// The built-in policy that every other row is compared with.
const ENTROPY: &[u8] = include_bytes!("../../../../../policies/prebuilt/entropy.wasm");
