//! Decides when each model of a group runs its next step. One state machine for the runtime and for the simulator.
//!
//! A conductor is told what happens (a journey arrives, a step begins, a step ends, a journey is gone) with the time it
//! happened, and answers [`Conductor::decide`] for one model: go with everybody who is ready, or wait until a known
//! event. It never asks for the time and sets no timers; an event and a decision cost `O(log journeys)` for each row
//! concerned. What is expensive, making a plan, is separate: [`Conductor::is_stale`] says when one is due,
//! [`Conductor::planner`] gives what it is made from, and [`Conductor::adopt`] takes it in.
//!
//! A decode loop uses it so, with the conductor behind one lock for the group:
//!
//! 1. tell what arrived; `decide(me, now)`;
//! 2. on [`Decision::Go`]: choose the rows and call [`Conductor::began`] under the same lock, or another model of the
//!    device may be let go too; run the step without the lock; call [`Conductor::ended`] and wake the other loops;
//! 3. on [`Decision::Wait`]: sleep until anything is told to the conductor, at the latest until `by_s`; ask again.
//!
//! Whoever waits does so for somebody who runs, is about to, or is under way; where there is nobody, nobody waits.

mod baseline;
mod beliefs;
mod bounds;
mod deadline;
mod delay;
mod lane;
mod planner;
mod seating;
mod settings;
mod station;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use journey::JourneyId;

pub use beliefs::{Beliefs, Overlap};
pub use bounds::Bounds;
pub use deadline::{Gaps, Strictness};
pub use planner::{GroupPlan, Planner};
pub use seating::Seated;
pub use settings::{MemberSettings, Mode, Settings, Source, Thresholds};

use crate::Member;
use crate::law::Load;
use bounds::Promises;
use station::{Running, Seat, State, Station};

/// What a model should do now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Run a step with everybody who is ready.
    Go,
    /// Do nothing until something happens.
    Wait {
        /// What is waited for.
        until: Until,
        /// Time at which to ask again if nothing has happened by then, seconds. A safeguard and the bound of a
        /// deadline, not a timer that a plan relies on; absent where nobody waits here.
        by_s: Option<f64>,
    },
}

/// The event that a model waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Nobody is ready: a journey has to arrive.
    Arrival,
    /// A step of this model has to end, or to be made.
    StepOf(Member),
}

/// A step that begins.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Journeys in it; all were ready here.
    pub rows: &'a [JourneyId],
    /// What it carries.
    pub load: Load,
}

/// What became of a row of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays; `token` says whether it gave one (a piece of a prompt gives none).
    Stays {
        /// Whether a token was given.
        token: bool,
    },
    /// It goes to another model; `token` says whether the token was kept.
    Leaves {
        /// Where to.
        to: Member,
        /// Whether a token was given.
        token: bool,
    },
    /// It is over.
    Ends {
        /// Whether a token was given.
        token: bool,
    },
}

impl Fate {
    fn gave_token(self) -> bool {
        let (Self::Stays { token } | Self::Leaves { token, .. } | Self::Ends { token }) = self;
        token
    }
}

/// The state machine; see the module.
#[derive(Clone, Debug)]
pub struct Conductor {
    settings: Settings,
    /// Devices that the models run on.
    devices: usize,
    beliefs: Beliefs,
    stations: Vec<Station>,
    seats: BTreeMap<JourneyId, Seat>,
    plan: Option<GroupPlan>,
    /// Plans made from the same beliefs for other numbers of journeys.
    plans: BTreeMap<usize, GroupPlan>,
    gaps: Gaps,
    promises: Promises,
    /// When the last step ended, if it left work behind on an idle device.
    work_since_s: Option<f64>,
    /// The model that ran last where one runs at a time.
    current: Member,
    steps_since_plan: u32,
    /// Counts the changes of the group's models: a plan is for one of them.
    seating: u32,
    /// Steps that have ended.
    steps: u64,
}

impl Conductor {
    /// A conductor of a group without journeys.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let models = settings.members.len();
        let devices: BTreeSet<usize> = settings.members.iter().map(|member| member.device).collect();
        Self {
            devices: devices.len(),
            beliefs: Beliefs::new(&settings),
            stations: vec![Station::default(); models],
            seats: BTreeMap::new(),
            plan: None,
            plans: BTreeMap::new(),
            gaps: Gaps::new(settings.bounds.itl_s, settings.slo_itl_from),
            promises: Promises::default(),
            work_since_s: None,
            current: Member(0),
            steps_since_plan: 0,
            seating: 0,
            steps: 0,
            settings,
        }
    }

    /// A journey is ready at a model. `visit_left` is how many tokens it will decode here before it leaves, if known.
    ///
    /// A journey that is somewhere else is taken from there.
    pub fn arrived(&mut self, journey: JourneyId, at: Member, now_s: f64, visit_left: Option<u32>) {
        let before = self.vacate(journey);
        let seat = Seat {
            at,
            state: State::Fresh,
            since_s: now_s,
            emitted_s: before.map_or(now_s, |seat| seat.emitted_s),
            has_emitted: before.is_some_and(|seat| seat.has_emitted),
            visit_left,
        };
        self.stations[at.0].admit(journey, &seat);
        self.beliefs.observe_visit(at, visit_left.is_some());
        self.seats.insert(journey, seat);
    }

    /// A journey was promised bounds, until it is gone; the group's own hold beside them.
    pub fn promise(&mut self, journey: JourneyId, bounds: Bounds) {
        self.promises.keep(journey, bounds);
        self.gaps.set_bound(self.bounds().itl_s);
    }

    /// The bounds that hold now: the strictest of the group's own and of those promised to journeys that are there.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.settings.bounds.and(self.promises.strictest())
    }

    /// A journey was cancelled, evicted, or has left the group for good; unknown ones are ignored.
    pub fn gone(&mut self, journey: JourneyId) {
        self.vacate(journey);
        self.release(journey);
    }

    /// A step begins. Rows that are not ready here are ignored.
    pub fn began(&mut self, member: Member, now_s: f64, step: Step<'_>) {
        // Rows of which it is known that their visit ends with this step, and rows of which nothing is known.
        let (mut ending, mut unknown) = (0.0, 0.0);
        for journey in step.rows {
            let Some(seat) = self.seats.get_mut(journey) else { continue };
            if seat.at != member || matches!(seat.state, State::Running | State::Coming) {
                continue;
            }
            self.stations[member.0].withdraw(*journey, seat);
            seat.state = State::Running;
            match seat.visit_left {
                Some(1) => ending += 1.0,
                Some(_) => {}
                None => unknown += 1.0,
            }
        }
        if let Some(since_s) = self.work_since_s.take().filter(|_| self.current != member) {
            self.beliefs.observe_switch(now_s - since_s);
        }
        let leaving = self.beliefs.leaving(member).max(1e-9);
        let rows = ending / leaving + unknown;
        let returning =
            (0..self.stations.len()).map(|to| rows * self.beliefs.share(member, Member(to))).collect();
        let beside = self.mark_overlap(member, now_s);
        let wall = if beside { 2.0 / self.beliefs.overlap().value() } else { 1.0 };
        let lasts_s = self.beliefs.law(member).step_s(step.load) * wall;
        self.stations[member.0].running = Some(Running {
            began_s: now_s,
            expected_s: now_s + lasts_s,
            load: step.load,
            returning,
            overlapped_s: 0.0,
            seen_s: now_s,
        });
        self.current = member;
    }

    /// The step that ran has ended, with what became of each of its rows.
    pub fn ended(&mut self, member: Member, now_s: f64, rows: &[(JourneyId, Fate)]) {
        self.mark_overlap(member, now_s);
        let running = self.stations[member.0].running.take();
        self.stations[member.0].idle_since_s = now_s;
        if let Some(running) = running {
            let lasted_s = now_s - running.began_s;
            self.beliefs.observe_step(member, running.load, lasted_s, running.overlapped_s);
        }
        let (mut drawn, mut kept) = (0, 0);
        for (journey, fate) in rows {
            // A token that was drawn and then dropped because it was routed counts: routing is per draw.
            drawn += usize::from(!matches!(fate, Fate::Stays { token: false }));
            kept += usize::from(fate.gave_token());
            self.settle(member, now_s, *journey, *fate);
        }
        self.beliefs.observe_kept(drawn, kept);
        let leaving = rows.iter().filter_map(|(_, fate)| match fate {
            Fate::Leaves { to, .. } => Some(*to),
            _ => None,
        });
        self.beliefs.observe_routing(member, drawn, leaving);
        self.steps_since_plan += 1;
        self.steps += 1;
        let is_idle = self.devices == 1 && self.stations.iter().all(|station| station.running.is_none());
        let has_work = self.stations.iter().any(|station| station.ready > 0 || station.coming > 0);
        self.work_since_s = Some(now_s).filter(|_| is_idle && has_work);
    }

    /// What became of a row of an earlier step: it was not known when that ended, and the journey was gone meanwhile. Only
    /// routing is learnt from it.
    pub fn decided(&mut self, member: Member, fate: Fate) {
        let drawn = usize::from(!matches!(fate, Fate::Stays { token: false }));
        self.beliefs.observe_kept(drawn, usize::from(fate.gave_token()));
        let to = match fate {
            Fate::Leaves { to, .. } => Some(to),
            Fate::Stays { .. } | Fate::Ends { .. } => None,
        };
        self.beliefs.observe_routing(member, drawn, to);
    }

    /// The step that ran came to nothing: its rows are ready again and nothing is learnt from it.
    pub fn failed(&mut self, member: Member, now_s: f64, rows: &[JourneyId]) {
        self.mark_overlap(member, now_s);
        self.stations[member.0].running = None;
        self.stations[member.0].idle_since_s = now_s;
        for journey in rows {
            self.settle(member, now_s, *journey, Fate::Stays { token: false });
        }
    }

    /// Tells the routing anew, for a conductor that is told what to believe.
    pub fn tell_routing(&mut self, shares: Vec<Vec<f64>>) {
        self.beliefs.tell(shares);
        self.plans.clear();
        self.plan = None;
    }

    /// Journeys of the group.
    #[must_use]
    pub fn journeys(&self) -> usize {
        self.seats.len()
    }

    /// Journeys that could take part in a step of this model now.
    #[must_use]
    pub fn ready(&self, member: Member) -> usize {
        self.stations[member.0].ready
    }

    /// What is believed of steps and routing, for metrics.
    #[must_use]
    pub fn beliefs(&self) -> &Beliefs {
        &self.beliefs
    }

    /// What is known of the gaps between tokens, for metrics.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// The plan in force; `None` while too little is known, and nothing is delayed then.
    #[must_use]
    pub fn plan(&self) -> Option<&GroupPlan> {
        self.plan.as_ref()
    }

    /// Moves one row of a step to where it goes.
    fn settle(&mut self, member: Member, now_s: f64, journey: JourneyId, fate: Fate) {
        let Some(seat) = self.seats.get_mut(&journey) else { return };
        if seat.at != member || seat.state != State::Running {
            return;
        }
        if fate.gave_token() {
            if seat.has_emitted {
                self.gaps.note(now_s - seat.emitted_s);
            }
            (seat.emitted_s, seat.has_emitted) = (now_s, true);
            seat.visit_left = seat.visit_left.map(|left| left.saturating_sub(1)).filter(|left| *left > 0);
        }
        match fate {
            Fate::Stays { .. } => {
                seat.state = State::Resident;
                self.stations[member.0].admit(journey, seat);
            }
            Fate::Leaves { to, .. } => {
                (seat.at, seat.state, seat.since_s) = (to, State::Coming, now_s);
                self.stations[to.0].coming += 1;
            }
            Fate::Ends { .. } => {
                self.seats.remove(&journey);
                self.release(journey);
            }
        }
    }

    /// What was promised to a journey no longer counts.
    fn release(&mut self, journey: JourneyId) {
        self.promises.release(journey);
        self.gaps.set_bound(self.bounds().itl_s);
    }

    /// Takes a journey from where it is.
    fn vacate(&mut self, journey: JourneyId) -> Option<Seat> {
        let seat = self.seats.remove(&journey)?;
        let station = &mut self.stations[seat.at.0];
        match seat.state {
            State::Coming => station.coming -= 1,
            State::Fresh | State::Resident => station.withdraw(journey, &seat),
            // The row stays in the step that runs; its fate finds no seat.
            State::Running => {}
        }
        Some(seat)
    }

    /// Brings the overlap of the steps on a model's device up to date; whether another one runs there.
    fn mark_overlap(&mut self, member: Member, now_s: f64) -> bool {
        let device = self.settings.device(member);
        let on_device: Vec<usize> = (0..self.stations.len())
            .filter(|other| self.settings.device(Member(*other)) == device)
            .filter(|other| self.stations[*other].running.is_some())
            .collect();
        let many = on_device.len() > 1;
        for &other in &on_device {
            if let Some(running) = &mut self.stations[other].running {
                running.overlapped_s += if many { now_s - running.seen_s } else { 0.0 };
                running.seen_s = now_s;
            }
        }
        on_device.iter().any(|other| *other != member.0)
    }
}
