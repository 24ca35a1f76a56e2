//! The models of this server as one group: when each of them runs its next step.
//!
//! The rules are those of [`scheduler::conductor`]; here is what they need in a running server: a clock, one lock that
//! is held for a decision or an event and never across a step, and a bell for each decode loop. Plans are made by a task
//! of their own, away from the loops. Models come and go, so the conductor's numbers for them are known here alone:
//! everybody else names a model by its [`ModelIx`].

mod bell;
mod report;
mod seats;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::ModelSpec;
use journey::JourneyId;
use scheduler::Share;
use scheduler::conductor::{Bounds, Decision, GroupPlan, Mode, Step, Until};
use scheduler::law::Load;
use tokio::sync::Notify;

pub(super) use bell::{Bell, Inbox};
use seats::Seats;

use super::catalog::ModelIx;
use crate::config::Scheduling;

/// When the models of the server run.
#[derive(Debug)]
pub(super) struct Group {
    seats: Mutex<Seats>,
    begun: Instant,
    /// A plan is due.
    due: Notify,
    /// Plans made.
    plans: AtomicU64,
}

/// A model as its scheduling needs to know it.
pub(super) struct Seating<'a> {
    pub(super) name: &'a str,
    pub(super) spec: &'a ModelSpec,
    /// Models of the same number share a device.
    pub(super) device: usize,
    pub(super) rows_max: usize,
    /// Whether its steps are computed by the cores of this machine.
    pub(super) on_cores: bool,
}

/// What a decode loop does next.
pub(super) enum Next {
    /// A step of these rows; it counts as begun.
    Run(Vec<Share>),
    /// Sleep until the bell rings, at most so long.
    Wait(Option<Duration>),
}

/// What became of a row of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    /// Whether it gave a token that was kept.
    pub(super) token: bool,
    pub(super) next: Whereto,
}

/// Where a row goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whereto {
    Stays,
    Leaves(ModelIx),
    Ends,
}

impl Group {
    /// A group without models.
    pub(super) fn new(scheduling: &Scheduling) -> Self {
        Self {
            seats: Mutex::new(Seats::new(scheduling)),
            begun: Instant::now(),
            due: Notify::new(),
            plans: AtomicU64::new(0),
        }
    }

    /// A model is in the group from now on. Gives what its decode loop sleeps by.
    pub(super) fn join(&self, model: ModelIx, seating: &Seating<'_>) -> Arc<Bell> {
        self.lock().join(model, seating)
    }

    /// A model is in the group no more.
    pub(super) fn leave(&self, model: ModelIx) {
        let mut seats = self.lock();
        seats.leave(model);
        // Somebody may have waited for it.
        seats.wake(None);
    }

    /// Other rules from now on.
    pub(super) fn reschedule(&self, scheduling: &Scheduling) {
        let mut seats = self.lock();
        seats.reschedule(scheduling);
        seats.wake(None);
        self.plan_if_due(&seats);
    }

    /// A journey is ready at a model, for a visit of so many tokens if that is known.
    ///
    /// `bounds` are those of its route.
    pub(super) fn arrived(
        &self,
        journey: JourneyId,
        (at, visit_left): (ModelIx, Option<u32>),
        bounds: Bounds,
    ) {
        let (mut seats, now) = self.lock_now();
        let Some(at) = seats.member(at) else { return };
        let conductor = &mut seats.conductor;
        // At every hop: one look where nothing was promised.
        if bounds != Bounds::default() {
            conductor.promise(journey, bounds);
        }
        conductor.arrived(journey, at, now, visit_left);
        self.plan_if_due(&seats);
    }

    /// A journey is over, has no memory for now, or is on its way without having been in a step.
    pub(super) fn gone(&self, journey: JourneyId) {
        let mut seats = self.lock();
        seats.conductor.gone(journey);
        // It may have been the one that others waited for.
        seats.wake(None);
    }

    /// Whether a model runs now; the rows are chosen under the same lock, so that a model of the same device is not let
    /// go at the same time.
    pub(super) fn next(&self, model: ModelIx, choose: impl FnOnce() -> (Vec<Share>, Load)) -> Next {
        let (mut seats, now) = self.lock_now();
        let Some(member) = seats.member(model) else { return Next::Wait(None) };
        match seats.conductor.decide(member, now) {
            Decision::Go => {
                let (shares, load) = choose();
                if shares.is_empty() {
                    return Next::Wait(None);
                }
                seats.conductor.began(member, now, Step { rows: &journeys(&shares), load });
                Next::Run(shares)
            }
            Decision::Wait { until, by_s } => {
                // Whoever is waited for has to know that it is its turn: what has changed since it last asked may not
                // have rung.
                if let Until::StepOf(other) = until
                    && other != member
                {
                    seats.ring(other);
                }
                Next::Wait(by_s.map(|by_s| Duration::from_secs_f64((by_s - now).max(SHORTEST_WAIT_S))))
            }
        }
    }

    /// A step has ended, with what became of its rows.
    pub(super) fn ended(&self, model: ModelIx, rows: &[(JourneyId, Fate)]) {
        let (mut seats, now) = self.lock_now();
        let Some(member) = seats.member(model) else { return };
        let rows: Vec<_> = rows.iter().map(|(journey, fate)| (*journey, seats.fate(*fate))).collect();
        seats.conductor.ended(member, now, &rows);
        seats.wake(Some(member));
        self.plan_if_due(&seats);
    }

    /// What became of a row of an earlier step whose journey was gone from the group since then.
    pub(super) fn decided(&self, model: ModelIx, fate: Fate) {
        let mut seats = self.lock();
        let Some(member) = seats.member(model) else { return };
        let fate = seats.fate(fate);
        seats.conductor.decided(member, fate);
    }

    /// A step came to nothing; its rows are ready again.
    pub(super) fn failed(&self, model: ModelIx, rows: &[Share]) {
        let (mut seats, now) = self.lock_now();
        let Some(member) = seats.member(model) else { return };
        seats.conductor.failed(member, now, &journeys(rows));
        seats.wake(Some(member));
    }

    /// Makes plans when they are due, for ever.
    pub(super) async fn make_plans(self: Arc<Self>) {
        loop {
            self.due.notified().await;
            let begun = Instant::now();
            let planner = self.lock().conductor.planner();
            // The paper's chain can take seconds; the others take well below one millisecond.
            let Ok(plan) = tokio::task::spawn_blocking(move || planner.make()).await else {
                tracing::error!("making a plan panicked; the last one stays in force");
                continue;
            };
            // Counted first: whoever sees the plan sees it counted.
            self.plans.fetch_add(1, Ordering::Relaxed);
            self.adopt(plan);
            tokio::time::sleep(PLANS_APART.max(REST * begun.elapsed())).await;
        }
    }

    fn adopt(&self, plan: GroupPlan) {
        let mut seats = self.lock();
        seats.conductor.adopt(plan);
        seats.wake(None);
    }

    fn plan_if_due(&self, seats: &Seats) {
        if matches!(seats.mode, Mode::Ours | Mode::PaperDtmc) && seats.conductor.is_stale() {
            self.due.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the lock the times of events are in their order: read before it, a later event could have an earlier time.
    fn lock_now(&self) -> (MutexGuard<'_, Seats>, f64) {
        let seats = self.lock();
        (seats, self.begun.elapsed().as_secs_f64())
    }
}

fn journeys(shares: &[Share]) -> Vec<JourneyId> {
    shares.iter().map(|share| share.journey).collect()
}

/// A wait that is over when it is asked for is asked for again a little later.
const SHORTEST_WAIT_S: f64 = 50e-6;

/// Least time from plan to plan.
const PLANS_APART: Duration = Duration::from_millis(50);

/// So many times as long as a plan took, none is made: what plans cost stays below a hundredth of one core.
const REST: u32 = 100;
