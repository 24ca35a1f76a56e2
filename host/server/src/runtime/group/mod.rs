//! The models of this server as one group: when each of them runs its next step.
//!
//! The rules are those of [`scheduler::conductor`]; here is what they need in a running server: a clock, one lock that
//! is held for a decision or an event and never across a step, and a bell for each decode loop. Plans are made by a task
//! of their own, away from the loops.

mod bell;
mod report;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::ModelSpec;
use journey::JourneyId;
use scheduler::conductor::{
    Bounds, Conductor, Decision, Fate, GroupPlan, MemberSettings, Mode, Settings, Step, Until,
};
use scheduler::law::{Load, StepLaw};
use scheduler::{Member, Share};
use tokio::sync::Notify;

pub(super) use bell::{Bell, Inbox};

use crate::config::Scheduling;

/// When the models of the server run.
#[derive(Debug)]
pub(super) struct Group {
    conductor: Mutex<Conductor>,
    bells: Vec<Arc<Bell>>,
    names: Vec<String>,
    mode: Mode,
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

impl Group {
    /// A group of models in which nobody is yet.
    pub(super) fn new(models: &[Seating<'_>], scheduling: &Scheduling) -> Self {
        let members = models.iter().map(|model| MemberSettings {
            device: model.device,
            rows_max: model.rows_max,
            law: guess(model.spec),
        });
        let mode = scheduling.mode_for(models.iter().map(|model| model.name));
        let settings = Settings {
            mode: mode.clone(),
            bounds: scheduling.bounds(),
            ..Settings::learning(members.collect())
        };
        Self {
            conductor: Mutex::new(Conductor::new(settings)),
            bells: bells(models),
            names: models.iter().map(|model| model.name.to_owned()).collect(),
            mode,
            begun: Instant::now(),
            due: Notify::new(),
            plans: AtomicU64::new(0),
        }
    }

    /// What the decode loop of a model sleeps by.
    pub(super) fn bell(&self, member: Member) -> &Arc<Bell> {
        &self.bells[member.0]
    }

    /// A journey is ready at a model, for a visit of so many tokens if that is known.
    ///
    /// `bounds` are those of its route.
    pub(super) fn arrived(
        &self,
        journey: JourneyId,
        (at, visit_left): (Member, Option<u32>),
        bounds: Bounds,
    ) {
        let now = self.now_s();
        let mut conductor = self.lock();
        // At every hop: one look where nothing was promised.
        if bounds != Bounds::default() {
            conductor.promise(journey, bounds);
        }
        conductor.arrived(journey, at, now, visit_left);
        self.plan_if_due(&conductor);
    }

    /// A journey is over, has no memory for now, or is on its way without having been in a step.
    pub(super) fn gone(&self, journey: JourneyId) {
        let mut conductor = self.lock();
        conductor.gone(journey);
        // It may have been the one that others waited for.
        self.wake(&conductor, None);
    }

    /// Whether a model runs now; the rows are chosen under the same lock, so that a model of the same device is not let
    /// go at the same time.
    pub(super) fn next(&self, member: Member, choose: impl FnOnce() -> (Vec<Share>, Load)) -> Next {
        let now = self.now_s();
        let mut conductor = self.lock();
        match conductor.decide(member, now) {
            Decision::Go => {
                let (shares, load) = choose();
                if shares.is_empty() {
                    return Next::Wait(None);
                }
                conductor.began(member, now, Step { rows: &journeys(&shares), load });
                Next::Run(shares)
            }
            Decision::Wait { until, by_s } => {
                self.make_sure_of(member, until);
                Next::Wait(by_s.map(|by_s| Duration::from_secs_f64((by_s - now).max(SHORTEST_WAIT_S))))
            }
        }
    }

    /// Whoever is waited for has to know that it is its turn: what has changed since it last asked may not have rung.
    fn make_sure_of(&self, member: Member, until: Until) {
        match until {
            Until::StepOf(other) if other != member => self.bells[other.0].ring(),
            Until::StepOf(_) | Until::Arrival => {}
        }
    }

    /// A step has ended, with what became of its rows.
    pub(super) fn ended(&self, member: Member, rows: &[(JourneyId, Fate)]) {
        let now = self.now_s();
        let mut conductor = self.lock();
        conductor.ended(member, now, rows);
        self.wake(&conductor, Some(member));
        self.plan_if_due(&conductor);
    }

    /// What became of a row of an earlier step whose journey was gone from the group since then.
    pub(super) fn decided(&self, member: Member, fate: Fate) {
        self.lock().decided(member, fate);
    }

    /// A step came to nothing; its rows are ready again.
    pub(super) fn failed(&self, member: Member, rows: &[Share]) {
        let now = self.now_s();
        let mut conductor = self.lock();
        conductor.failed(member, now, &journeys(rows));
        self.wake(&conductor, Some(member));
    }

    /// Makes plans when they are due, for ever.
    pub(super) async fn make_plans(self: Arc<Self>) {
        loop {
            self.due.notified().await;
            let begun = Instant::now();
            let planner = self.lock().planner();
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
        let mut conductor = self.lock();
        conductor.adopt(plan);
        self.wake(&conductor, None);
    }

    fn plan_if_due(&self, conductor: &Conductor) {
        if matches!(self.mode, Mode::Ours | Mode::PaperDtmc) && conductor.is_stale() {
            self.due.notify_one();
        }
    }

    /// Wakes those who have somebody ready; who has nobody is woken by an arrival.
    fn wake(&self, conductor: &Conductor, except: Option<Member>) {
        for (at, bell) in self.bells.iter().enumerate() {
            if except != Some(Member(at)) && conductor.ready(Member(at)) > 0 {
                bell.ring();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Conductor> {
        self.conductor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

/// Loops stay awake for a moment only where that takes nothing from a model.
fn bells(models: &[Seating<'_>]) -> Vec<Arc<Bell>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let spare = cores > 1 && models.iter().all(|model| !model.on_cores);
    let bell = if spare { Bell::watchful } else { Bell::default };
    models.iter().map(|_| Arc::new(bell())).collect()
}

fn journeys(shares: &[Share]) -> Vec<JourneyId> {
    shares.iter().map(|share| share.journey).collect()
}

/// What a step costs before any was seen: in proportion to the weights.
fn guess(spec: &ModelSpec) -> StepLaw {
    let read_s = spec.parameters as f64 / PARAMETERS_PER_S;
    StepLaw::affine(read_s, read_s / ROWS_PER_READ)
}

/// A wait that is over when it is asked for is asked for again a little later.
const SHORTEST_WAIT_S: f64 = 50e-6;

/// Least time from plan to plan.
const PLANS_APART: Duration = Duration::from_millis(50);

/// So many times as long as a plan took, none is made: what plans cost stays below a hundredth of one core.
const REST: u32 = 100;

/// Parameters read per second, and rows that cost as much as reading them: a first guess only.
const PARAMETERS_PER_S: f64 = 2e10;
const ROWS_PER_READ: f64 = 16.0;
