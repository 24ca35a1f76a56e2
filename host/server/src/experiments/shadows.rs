//! Shadow arms: asked afterwards about answers that others gave.
//!
//! A shadow's policy sees the tokens of the entry model at which the arm that answered could have left it, one after the
//! other, with their signals, and says what it would have done. That happens on a thread of its own, at the lowest priority, once
//! the answer is over and in a session that no journey shares: no step, no answer and no policy's health knows of it. Where
//! more answers end than shadows can be asked about, some are skipped, and that is counted.
//!
//! Only policies that decide by signals can be shadows: what a head, candidates, texts, distributions or visits would show is
//! not there afterwards. The split says which ([`crate::runtime::Split`]).

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use experiment::Unit;
use experiment::tally::Replayed;
use journey::{Considered, Decision, Handoff, JourneyId, Parcel, Role, Sampled, Step, Trigger};
use policy::{PolicyError, Revision, Settings, Start};

use super::book::Book;
use crate::runtime::{Route, can_shadow, yield_to_everybody};

/// An answer that shadows are to be asked about.
pub(super) struct Job {
    pub(super) book: Arc<Book>,
    pub(super) unit: Unit,
    /// Index and route of each.
    pub(super) shadows: Vec<(usize, Arc<Route>)>,
    pub(super) considered: Vec<Considered>,
    pub(super) facts: Facts,
}

/// What of a request a policy is told when its session begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// On whose behalf it runs.
    pub tenant: u64,
    /// Key of its random numbers.
    pub seed: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Most tokens of the answer.
    pub max_tokens: u32,
}

/// The thread that asks shadows; joined when this is dropped.
pub(super) struct Shadows {
    door: Door,
    thread: Option<JoinHandle<()>>,
}

/// Where answers are given to the thread; closed when that ends, whoever still has one.
#[derive(Clone)]
pub(super) struct Door(Arc<Mutex<Option<SyncSender<Job>>>>);

impl Shadows {
    /// Starts it. Without a thread every answer is skipped.
    pub(super) fn start() -> Self {
        let (jobs, coming) = sync_channel(JOBS_MAX);
        let thread = thread::Builder::new().name("shadows".to_owned()).spawn(move || work(&coming));
        let thread = thread.inspect_err(|error| {
            tracing::error!(%error, "shadow arms are not asked: their thread cannot be started");
        });
        Self { door: Door(Arc::new(Mutex::new(Some(jobs)))), thread: thread.ok() }
    }

    pub(super) fn door(&self) -> &Door {
        &self.door
    }
}

impl Door {
    /// Gives an answer to the thread, if it has room for one more.
    pub(super) fn give(&self, job: Job) {
        let given = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.try_send(job),
            None => Err(TrySendError::Disconnected(job)),
        };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) = given {
            job.shadows.iter().for_each(|(shadow, _)| job.book.skipped(*shadow));
        }
    }
}

impl Drop for Shadows {
    fn drop(&mut self) {
        self.door.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of shadow arms panicked");
        }
    }
}

fn work(jobs: &Receiver<Job>) {
    yield_to_everybody();
    while let Ok(job) = jobs.recv() {
        for (shadow, route) in &job.shadows {
            let Some(replayed) = replay(route, &job) else { continue };
            job.book.shadowed(*shadow, job.unit, &replayed);
        }
    }
}

/// What a shadow says of an answer. None where its route has no policy, or a newer revision that looks at more than signals.
fn replay(route: &Route, job: &Job) -> Option<Replayed> {
    let revision = route.policy_revision().filter(|revision| can_shadow(revision.descriptor()))?;
    let mut replayed = Replayed { visits: vec![0; route.models.len()], ..Replayed::default() };
    let asked = settings(route, &revision).and_then(|settings| {
        let vocabulary = route.tokenizer.vocabulary().len();
        let rules = revision.descriptor().rules(&settings);
        let triggers: Vec<_> = rules.guards_of(Role::ENTRY).map(|(index, on)| (index, on.clone())).collect();
        let mut session = revision.shadow(start(route, settings, job.facts))?;
        job.considered.iter().try_for_each(|of| {
            replayed.asked += 1;
            let step = step(of);
            let fired = fired(&triggers, &step, vocabulary);
            let decision = match fired {
                None => Decision::Stay,
                Some(fired) => session.route(of.position, &Step { fired, ..step })?,
            };
            let Decision::Handoff(handoff) = decision else {
                replayed.agreed += u64::from(!of.left);
                return Ok(());
            };
            replayed.agreed += u64::from(of.left);
            let parcel = session.send(of.position, &handoff)?;
            leave(&mut replayed, &handoff, parcel);
            Ok(())
        })
    });
    if let Err(error) = asked {
        tracing::debug!(%error, route = route.name, "a shadow arm failed");
        replayed.failed = true;
    }
    Some(replayed)
}

fn settings(route: &Route, revision: &Revision) -> Result<Settings, PolicyError> {
    revision.settings(&route.settings_with(&Default::default()))
}

fn start(route: &Route, settings: Settings, facts: Facts) -> Start {
    Start {
        journey: JourneyId(0),
        tenant: facts.tenant,
        models: Arc::clone(&route.model_infos),
        settings,
        prompt_tokens: facts.prompt_tokens,
        max_tokens: facts.max_tokens,
        prompt: String::new(),
        seed: facts.seed,
    }
}

fn step(of: &Considered) -> Step {
    let Considered { index, run, at_eos, token, logprob, signals, .. } = *of;
    let sampled = Sampled { token, logprob, signals, ..Sampled::default() };
    let (tail, answers) = (String::new(), Vec::new());
    Step { index, run, role: Role::ENTRY, at_eos, fired: None, sampled, tail, answers }
}

/// Whether `route` is asked about a token, and which guard fired, if the model has any.
fn fired(triggers: &[(u32, Trigger)], step: &Step, vocabulary: usize) -> Option<Option<u32>> {
    if triggers.is_empty() {
        return Some(None);
    }
    let fires = |trigger: &Trigger| match trigger {
        Trigger::Above(signal, value) => signal.of(&step.sampled, vocabulary) > *value,
        Trigger::Below(signal, value) => signal.of(&step.sampled, vocabulary) < *value,
        Trigger::Start => step.index == 0,
        Trigger::End => step.at_eos,
        // No shadow has such a guard.
        Trigger::Text(_) | Trigger::AfterText(_) => false,
    };
    triggers.iter().find(|(_, trigger)| fires(trigger)).map(|(index, _)| Some(*index))
}

/// It would have left for another model here.
fn leave(replayed: &mut Replayed, handoff: &Handoff, parcel: Parcel) {
    replayed.left += 1;
    // The entry model's token stays in the answer, before the visit.
    replayed.visits[0] += u64::from(parcel.keep_held);
    match (handoff.run, replayed.visits.get_mut(handoff.to.index())) {
        (Some(run), Some(visits)) if handoff.until.is_empty() => *visits += u64::from(run.get()),
        _ => replayed.is_unbounded = true,
    }
}

/// Answers whose shadows wait.
const JOBS_MAX: usize = 64;
