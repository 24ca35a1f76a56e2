//! Decode loop: owns the engine, steps the batch, and performs what follows for each journey.
//!
//! It runs on a thread of its own, because a step is pure computation. Between two steps it takes in what has arrived,
//! lets go of journeys whose client has left, and asks the scheduler for the next batch.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Engine, EngineError, Interpreter, Row};
use journey::{Consult, Draw, Effect, JourneyId, Sampled};
use scheduler::memory::{Aside, Relief};
use scheduler::{Scheduler, Share};
use tokio::sync::mpsc;

use super::cross_model::Outgoing;
use super::rows::{choose, drawn_after, fate, resident, row};
use super::thread::panic_message;
use super::{Decided, Inbound, Powered, Shared};
use crate::runtime::answer::Event;
use crate::runtime::catalog::ModelIx;
use crate::runtime::group::{Bell, Fate, Group, Next};
use crate::runtime::lane::{LaneHandle, Source};
use crate::runtime::traveller::{Follows, Traveller};
use crate::telemetry::{Meter, Metrics};

pub(super) struct DecodeLoop {
    here: ModelIx,
    /// When this model runs beside the others.
    group: Arc<Group>,
    /// What it sleeps by.
    bell: Arc<Bell>,
    engine: Interpreter,
    scheduler: Scheduler,
    /// Journeys whose turn it is here.
    residents: BTreeMap<JourneyId, Box<Traveller>>,
    /// Those of them that go without memory for now.
    aside: Aside,
    /// Somebody who held memory has ended.
    has_freed: bool,
    /// Journeys that are away and whose KV is kept.
    parked: BTreeSet<JourneyId>,
    inbox: mpsc::Receiver<Inbound>,
    outgoing: Outgoing,
    /// Where slow policies are called.
    lane: LaneHandle,
    meter: Arc<Meter>,
    metrics: Arc<Metrics>,
    stopped: bool,
}

impl DecodeLoop {
    pub(super) fn new(
        powered: Powered,
        (inbox, bell): (mpsc::Receiver<Inbound>, Arc<Bell>),
        outgoing: Outgoing,
        (here, shared): (ModelIx, &Shared),
    ) -> Self {
        Self {
            here,
            group: Arc::clone(&shared.group),
            bell,
            engine: powered.engine,
            scheduler: Scheduler::new(powered.limits),
            residents: BTreeMap::new(),
            aside: Aside::default(),
            has_freed: false,
            parked: BTreeSet::new(),
            inbox,
            outgoing,
            meter: powered.meter,
            metrics: Arc::clone(&shared.metrics),
            lane: shared.lane.clone(),
            stopped: false,
        }
    }

    /// Steps until it is told to stop.
    pub(super) fn run(&mut self) {
        while self.take_in() {
            self.drop_the_gone();
            self.bring_back();
            self.outgoing.send();
            self.meter.set_journeys(self.residents.len(), self.parked.len(), self.engine.kv());
            let (scheduler, residents) = (&mut self.scheduler, &self.residents);
            match self.group.next(self.here, || choose(scheduler, residents)) {
                Next::Run(shares) => self.step(&shares),
                Next::Wait(at_most) => self.wait(at_most),
            }
        }
        for (_, traveller) in std::mem::take(&mut self.residents) {
            Inbound::Arrive(traveller).give_up();
        }
        // Nobody can put a message in any more that nobody takes out.
        self.inbox.close();
        while let Ok(late) = self.inbox.try_recv() {
            late.give_up();
        }
        self.meter.set_journeys(0, 0, self.engine.kv());
    }

    /// Nobody rings when a client leaves; so whoever has journeys here looks for that now and then.
    fn wait(&self, at_most: Option<Duration>) {
        let is_empty = self.residents.is_empty() && self.parked.is_empty();
        let glance = (!is_empty).then_some(GLANCES_APART);
        self.bell.wait(at_most.into_iter().chain(glance).min());
    }

    /// Takes in everything that has arrived. False when the loop must end.
    fn take_in(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(inbound) => self.handle(inbound),
                Err(mpsc::error::TryRecvError::Empty) => return !self.stopped,
                Err(mpsc::error::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn handle(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Arrive(mut traveller) => {
                if let Some(translation) = traveller.translation() {
                    self.engine.interpret(traveller.id(), translation);
                }
                match traveller.arrive() {
                    Follows::Settled(effect) => self.settle(traveller, effect),
                    Follows::InLane(consult) => self.ask_in_lane(traveller, (consult, Source::Arrival)),
                }
            }
            Inbound::Decided(traveller, Decided { effect, token }) => {
                if let Some(token) = token {
                    self.group.decided(self.here, fate(&traveller, effect, token));
                }
                self.settle(traveller, effect);
            }
            Inbound::Release(journey, place) => {
                self.parked.remove(&journey);
                self.engine.release(journey);
                self.has_freed = true;
                drop(place);
            }
            Inbound::Stop => self.stopped = true,
        }
    }

    /// A journey is here, and this is what follows.
    fn settle(&mut self, traveller: Box<Traveller>, effect: Effect) {
        let (id, visit_left) = (traveller.id(), traveller.journey.visit_left());
        self.parked.remove(&id);
        if traveller.is_gone() {
            return self.cancel(&traveller);
        }
        let visit = (self.here, visit_left);
        match effect {
            Effect::Decode => self.group.arrived(id, visit, traveller.route.bounds),
            Effect::Leave { .. } | Effect::Finish(_) => self.group.gone(id),
        }
        self.perform(traveller, effect);
    }

    /// The journey leaves the batch until its policy has answered, as if for another model: it counts as away, so its KV
    /// may be taken if there is no other.
    fn ask_in_lane(&mut self, mut traveller: Box<Traveller>, ask: (Consult, Source)) {
        traveller.emit();
        let id = traveller.id();
        self.scheduler.remove(id);
        self.group.gone(id);
        self.parked.insert(id);
        self.engine.park(id);
        self.lane.ask(traveller, ask, self.outgoing.own_inbox());
    }

    /// One look at an atomic per resident and step; a cancelled journey is gone before the next step.
    fn drop_the_gone(&mut self) {
        let gone: Vec<JourneyId> =
            self.residents.iter().filter(|(_, traveller)| traveller.is_gone()).map(|(&id, _)| id).collect();
        for id in gone {
            if let Some(traveller) = self.residents.remove(&id) {
                self.cancel(&traveller);
            }
        }
    }

    fn cancel(&mut self, traveller: &Traveller) {
        traveller.span.in_scope(|| tracing::debug!(journey = %traveller.id(), "the client has gone"));
        self.let_go(traveller);
        self.metrics.journey_cancelled();
    }

    /// Tries one of those that go without memory again, once there may be some.
    fn bring_back(&mut self) {
        let freed = std::mem::take(&mut self.has_freed);
        let active = self.residents.len() - self.aside.len();
        let brought = self.aside.bring_back(freed, active, self.parked.first().copied());
        let Some(traveller) = brought.and_then(|id| self.residents.get(&id)) else { return };
        let journey = &traveller.journey;
        self.scheduler.set_pending(journey.id(), traveller.behalf, journey.pending().1.len());
        let visit = (self.here, journey.visit_left());
        self.group.arrived(journey.id(), visit, traveller.route.bounds);
    }

    /// KV of journeys that were away, or set aside, may have been taken meanwhile; it is fed again. What grammars allow is
    /// worked out.
    fn make_ready(&mut self, shares: &[Share]) {
        for share in shares {
            if let Some(traveller) = self.residents.get_mut(&share.journey) {
                traveller.journey.holds(self.engine.held(share.journey));
                traveller.steps(&self.meter);
                let positions = drawn_after(&traveller.journey, *share);
                traveller.journey.constrain(positions);
            }
        }
    }

    fn step(&mut self, shares: &[Share]) {
        self.make_ready(shares);
        let travellers: Vec<&Traveller> =
            shares.iter().map(|share| resident(&self.residents, *share)).collect();
        let both = || shares.iter().zip(&travellers);
        let counts: Vec<usize> = both().map(|(share, of)| drawn_after(&of.journey, *share).len()).collect();
        let draws: Vec<Draw<'_>> = both()
            .flat_map(|(share, of)| {
                let after = drawn_after(&of.journey, *share);
                after.map(|position| of.journey.draw(position))
            })
            .collect();
        let mut left = draws.as_slice();
        let rows: Vec<Row<'_>> = both()
            .zip(&counts)
            .map(|((share, of), count)| {
                let (own, rest) = left.split_at(*count);
                left = rest;
                row(of, *share, own)
            })
            .collect();
        let (engine, begun) = (&mut self.engine, Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| engine.step(&rows)));
        let tokens = rows.iter().map(|row| row.tokens.len()).sum();
        self.meter.step(rows.len(), (tokens, draws.len()), begun.elapsed());
        match outcome {
            Ok(Ok(sampled)) => {
                let mut sampled = sampled.into_iter();
                let mut fates = Vec::with_capacity(shares.len());
                for (share, count) in shares.iter().zip(counts) {
                    let drawn = sampled.by_ref().take(count);
                    fates.extend(self.advance(*share, drawn).map(|fate| (share.journey, fate)));
                }
                self.group.ended(self.here, &fates);
                self.outgoing.send();
            }
            Ok(Err(error)) => self.step_failed(shares, &error),
            Err(panic) => {
                self.group.failed(self.here, shares);
                let journeys: Vec<JourneyId> = shares.iter().map(|share| share.journey).collect();
                self.fail(&journeys, &format!("the engine panicked: {}", panic_message(panic.as_ref())));
            }
        }
    }

    /// Takes one row on; what became of it.
    fn advance(&mut self, share: Share, mut drawn: impl Iterator<Item = Sampled>) -> Option<Fate> {
        let mut traveller = self.residents.remove(&share.journey)?;
        traveller.journey.fed(share.tokens);
        let before = traveller.journey.position();
        let follows = traveller.advance(&mut drawn);
        // What nobody waited for is not the next row's.
        let left = drawn.count();
        debug_assert_eq!(left, 0, "draws that nobody waited for");
        let effect = match follows {
            Follows::Settled(effect) => effect,
            Follows::InLane(consult) => {
                self.ask_in_lane(traveller, (consult, Source::Draw));
                return None;
            }
        };
        let token = traveller.journey.position() > before;
        let fate = fate(&traveller, effect, token);
        self.perform(traveller, effect);
        Some(fate)
    }

    fn perform(&mut self, mut traveller: Box<Traveller>, effect: Effect) {
        traveller.emit();
        match effect {
            Effect::Decode => {
                let id = traveller.id();
                self.scheduler.set_pending(id, traveller.behalf, traveller.journey.pending().1.len());
                self.residents.insert(id, traveller);
            }
            Effect::Leave { to } => {
                let id = traveller.id();
                self.scheduler.remove(id);
                self.parked.insert(id);
                self.engine.park(id);
                traveller.leaves((self.here, &self.meter), to);
                let to = traveller.route.models[to.index()];
                self.outgoing.add(to, Inbound::Arrive(traveller));
            }
            Effect::Finish(reason) => {
                self.let_go(&traveller);
                traveller.end(Event::Finished(reason));
            }
        }
    }

    /// Where the engine names the journey that it could not serve, the others of the step are fed again without it; where
    /// there was no memory for it, without the youngest.
    fn step_failed(&mut self, shares: &[Share], error: &EngineError) {
        self.group.failed(self.here, shares);
        let ended = match error {
            EngineError::KvFull { journey, .. } => {
                match self.aside.make_room(*journey, self.residents.keys().copied()) {
                    Relief::SetAside(journey) => {
                        self.set_aside(journey);
                        Vec::new()
                    }
                    Relief::Refuse => vec![*journey],
                }
            }
            // Of a journey in other tokens than the model's nobody knows beforehand how many it takes.
            EngineError::NotFinite { journey } | EngineError::ContextFull { journey, .. } => vec![*journey],
            _ => shares.iter().map(|share| share.journey).collect(),
        };
        self.fail(&ended, &error.to_string());
        for share in shares {
            if let Some(traveller) = self.active(share.journey) {
                let (behalf, pending) = (traveller.behalf, traveller.journey.pending().1.len());
                self.scheduler.set_pending(share.journey, behalf, pending);
            }
        }
    }

    /// Lets the memory of a journey be taken; it stays, and is in no step until it is brought back.
    fn set_aside(&mut self, journey: JourneyId) {
        tracing::debug!(%journey, model = self.engine.spec().name, "no memory: the youngest is set aside");
        self.scheduler.remove(journey);
        self.group.gone(journey);
        self.engine.park(journey);
        self.meter.preempted();
    }

    /// A resident that is not set aside.
    fn active(&self, journey: JourneyId) -> Option<&Traveller> {
        let is_aside = self.aside.contains(journey);
        self.residents.get(&journey).filter(|_| !is_aside).map(|traveller| &**traveller)
    }

    /// The engine could not do the step: it is the end of these journeys, and of no others.
    fn fail(&mut self, journeys: &[JourneyId], error: &str) {
        for journey in journeys {
            if let Some(traveller) = self.residents.remove(journey) {
                let model = &self.engine.spec().name;
                traveller.span.in_scope(|| tracing::error!(%journey, model, error, "a step failed"));
                self.let_go(&traveller);
                traveller.end(Event::Failed { message: error.to_owned() });
            }
        }
    }

    /// Forgets a journey here and has its KV released elsewhere.
    fn let_go(&mut self, traveller: &Traveller) {
        let id = traveller.id();
        self.scheduler.remove(id);
        self.aside.remove(id);
        self.has_freed = true;
        self.group.gone(id);
        self.engine.release(id);
        for at in traveller.traces_elsewhere(self.here) {
            self.outgoing.add(at, Inbound::Release(id, traveller.place.clone()));
        }
    }
}

/// How long a journey whose client has gone may wait for others to come to its batch.
const GLANCES_APART: Duration = Duration::from_millis(200);
