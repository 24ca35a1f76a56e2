//! Threads that call slow policies, so that no step waits for them.
//!
//! A journey whose policy is slow leaves the batch for the time of a call, as it does for another model: its KV stays
//! where it is, and what came of the call returns through the inbox of the decode loop. Which policies are slow is
//! decided by [`policy::lane`]; nothing here changes what a call answers. Nobody ever waits for these threads but the
//! journeys in them, so they run at the lowest priority: what they burn is what the engine leaves.

mod queues;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use journey::{Consult, Effect};
use policy::{Digest, Lane, Revision, Session, Start};
use tokio::sync::Notify;

use super::answer::{Event, SHUTTING_DOWN};
use super::group::Inbox;
use super::subserver::{Decided, Inbound, Peers};
use super::traveller::{Place, Traveller};
use queues::Queues;

/// The threads; there is one of these in a runtime, and it joins them.
pub(super) struct LaneThreads {
    handle: LaneHandle,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Gives them jobs. Cheap to clone; travels with every journey.
#[derive(Clone)]
pub(super) struct LaneHandle(Arc<Shared>);

struct Shared {
    /// At most two jobs for each place of a journey: what it asks, and the end of the session before.
    jobs: Mutex<Jobs>,
    come: Condvar,
    /// A job has come for whoever lets go of those that nobody wants any more.
    looked_through: Notify,
}

#[derive(Default)]
struct Jobs {
    queues: Queues<Whose, Job>,
    is_closed: bool,
}

/// What a policy is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A token that a step drew.
    Draw,
    /// What a journey came with.
    Arrival,
}

/// Who takes turns: the tenants of every revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Whose {
    revision: Option<Digest>,
    tenant: u64,
}

/// What is too slow for a step.
enum Job {
    /// A journey is to get a session, and then to arrive where that says.
    Begin(Box<Traveller>, Arc<Revision>, Start, Arc<Peers>),
    /// A journey's policy is to be asked.
    Ask(Box<Traveller>, Consult, Source, Inbox<Inbound>),
    /// A session has ended. It holds its journey's place until it is gone.
    End(Session, Place),
}

impl LaneThreads {
    /// Starts so many.
    pub(super) fn start(count: usize) -> io::Result<Self> {
        let shared =
            Arc::new(Shared { jobs: Mutex::default(), come: Condvar::new(), looked_through: Notify::new() });
        let lanes = Self { handle: LaneHandle(Arc::clone(&shared)), threads: Mutex::default() };
        for number in 0..count {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(format!("lane-{number}")).spawn(move || {
                yield_to_everybody();
                shared.work();
            })?;
            lanes.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(lanes)
    }

    /// For those who have jobs.
    pub(super) fn handle(&self) -> &LaneHandle {
        &self.handle
    }

    /// Ends the threads, and the journeys that wait for one; blocks for the time of a call.
    pub(super) fn join(&self) {
        self.handle.0.lock().is_closed = true;
        self.handle.0.come.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread for slow policies panicked");
            }
        }
    }
}

impl Drop for LaneThreads {
    fn drop(&mut self) {
        self.join();
    }
}

impl LaneHandle {
    /// Has a session begun; the journey then arrives at the model where it begins.
    pub(super) fn begin(
        &self,
        traveller: Box<Traveller>,
        revision: Arc<Revision>,
        start: Start,
        peers: &Arc<Peers>,
    ) {
        self.0.add(Job::Begin(traveller, revision, start, Arc::clone(peers)));
    }

    /// Has a journey's policy asked; what follows comes through the inbox.
    pub(super) fn ask(
        &self,
        traveller: Box<Traveller>,
        (consult, source): (Consult, Source),
        inbox: &Inbox<Inbound>,
    ) {
        self.0.add(Job::Ask(traveller, consult, source, inbox.clone()));
    }

    /// Lets go of journeys whose client has left, for ever: their turn may be long in coming, and they hold memory.
    pub(super) async fn let_go(self) {
        loop {
            self.0.looked_through.notified().await;
            while self.0.let_go() {
                tokio::time::sleep(LOOKS_APART).await;
            }
        }
    }

    /// Ends a session: here, or where slow ones are ended.
    pub(super) fn end(&self, session: Session, place: &Place) {
        match session.lane() {
            Lane::InStep => drop(session),
            Lane::Own => self.0.add(Job::End(session, place.clone())),
        }
    }
}

impl Shared {
    fn add(&self, job: Job) {
        let whose = job.whose();
        let mut jobs = self.lock();
        if jobs.is_closed {
            drop(jobs);
            return job.give_up();
        }
        jobs.queues.add(whose, job);
        drop(jobs);
        self.come.notify_one();
        self.looked_through.notify_one();
    }

    /// Whether jobs are left.
    fn let_go(&self) -> bool {
        let mut jobs = self.lock();
        let gone = jobs.queues.extract(Job::is_gone);
        let are_left = !jobs.queues.is_empty();
        drop(jobs);
        // No policy is called for them.
        gone.into_iter().for_each(Job::run);
        are_left
    }

    fn work(&self) {
        while let Some((whose, job, is_closed)) = self.next() {
            let lost = job.if_lost();
            let work = move || if is_closed { job.give_up() } else { job.run() };
            // The journey is lost, and its stream ends with it; the queue behind it goes on.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                tracing::error!("a job of a slow policy panicked; please report this");
                if let Some((inbox, message)) = lost {
                    give(&inbox, message);
                }
            }
            self.lock().queues.done(whose);
            // Its next job, if it has one, may be for a thread that sleeps.
            self.come.notify_one();
        }
    }

    /// The next job, and whether it is too late for it; `None` at the end.
    fn next(&self) -> Option<(Whose, Job, bool)> {
        let mut jobs = self.lock();
        loop {
            if let Some((whose, job)) = jobs.queues.take() {
                return Some((whose, job, jobs.is_closed));
            }
            if jobs.is_closed {
                return None;
            }
            jobs = self.come.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        // Nothing is called under the lock that could leave it half written.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn whose(&self) -> Whose {
        let (revision, tenant) = match self {
            Self::Begin(traveller, revision, ..) => (Some(revision.digest()), traveller.tenant().0),
            Self::Ask(traveller, ..) => (traveller.revision(), traveller.tenant().0),
            Self::End(session, _) => (Some(session.revision().digest()), session.tenant()),
        };
        Whose { revision, tenant }
    }

    /// Whether its client has left.
    fn is_gone(&self) -> bool {
        match self {
            Self::Begin(traveller, ..) | Self::Ask(traveller, ..) => traveller.is_gone(),
            Self::End(..) => false,
        }
    }

    /// What the decode loop is told if a panic takes the journey: to let go of its KV.
    fn if_lost(&self) -> Option<(Inbox<Inbound>, Inbound)> {
        let Self::Ask(traveller, _, _, inbox) = self else { return None };
        Some((inbox.clone(), Inbound::Release(traveller.id(), traveller.place.clone())))
    }

    fn run(self) {
        match self {
            Self::Begin(mut traveller, revision, start, peers) => {
                if !traveller.is_gone() {
                    traveller.begin(&revision, revision.session(start));
                }
                if let Err(lost) = peers.give(traveller.here(), Inbound::Arrive(traveller)) {
                    lost.give_up();
                }
            }
            Self::Ask(mut traveller, consult, source, inbox) => {
                let before = traveller.journey.position();
                // Of one whose client has gone nothing follows; the decode loop lets it go.
                let gone = traveller.is_gone();
                let effect = if gone { Effect::Decode } else { traveller.follow_in_lane(consult) };
                let token = traveller.journey.position() > before;
                let decided = Decided { effect, token: (source == Source::Draw && !gone).then_some(token) };
                give(&inbox, Inbound::Decided(traveller, decided));
            }
            Self::End(session, place) => {
                drop(session);
                drop(place);
            }
        }
    }

    /// The server shuts down.
    fn give_up(self) {
        match self {
            Self::Begin(traveller, ..) | Self::Ask(traveller, ..) => {
                traveller.end(Event::Failed { message: SHUTTING_DOWN.to_owned() });
            }
            Self::End(..) => {}
        }
    }
}

/// The inbox has room for every journey; a loop that has ended takes none.
fn give(inbox: &Inbox<Inbound>, message: Inbound) {
    match inbox.put(message) {
        Ok(()) => inbox.ring(),
        Err(error) => error.into_inner().give_up(),
    }
}

/// Lets every other thread of the machine go first.
#[cfg(target_os = "linux")]
pub(crate) fn yield_to_everybody() {
    // There the priority is a thread's own, and the calling one is process 0.
    if let Err(error) = rustix::process::setpriority_process(None, LOWEST_PRIORITY) {
        tracing::warn!(%error, "threads for slow policies run at the priority of all others");
    }
}

/// Elsewhere a priority is the whole process's.
#[cfg(not(target_os = "linux"))]
pub(crate) fn yield_to_everybody() {}

#[cfg(target_os = "linux")]
const LOWEST_PRIORITY: i32 = 19;

const LOOKS_APART: Duration = Duration::from_millis(200);
