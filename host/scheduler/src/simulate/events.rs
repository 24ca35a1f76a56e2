//! The event loop of the simulation.

use std::collections::BTreeMap;

use journey::JourneyId;
use journey::random::{Purpose, uniform};

use super::outcome::{Meter, Outcome};
use super::scenario::{Demand, Scenario};
use super::world::{Next, Traveller};
use crate::Member;
use crate::conductor::{Conductor, Decision, Fate, Mode, Step};
use crate::law::Load;

/// A step under way.
struct Running {
    rows: Vec<usize>,
    /// Seconds of work left if it had the device to itself.
    left_s: f64,
    began_s: f64,
    work_s: f64,
}

/// One model as the simulation keeps it.
#[derive(Default)]
struct Place {
    /// Slots of the journeys that are ready, those that have waited longest first.
    ready: Vec<usize>,
    running: Option<Running>,
}

/// A scenario being played.
pub(super) struct Simulation<'a> {
    scenario: &'a Scenario,
    conductor: Conductor,
    now_s: f64,
    places: Vec<Place>,
    slots: Vec<Option<Traveller>>,
    generations: Vec<u64>,
    free: Vec<usize>,
    /// Handoffs under way: (arrival in order, slot) to the model.
    under_way: BTreeMap<(u64, usize), usize>,
    /// When journeys came that do not fit in yet.
    queue: std::collections::VecDeque<f64>,
    next_arrival_s: f64,
    arrivals: u64,
    steps: u64,
    drift: (usize, f64),
    given: u64,
    meter: Meter,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(scenario: &'a Scenario, mode: Mode) -> Self {
        let slots = scenario.journeys_max();
        let scale_s = scenario.step_s(0, Load::decoding(1));
        let mut simulation = Self {
            scenario,
            conductor: Conductor::new(scenario.settings(mode)),
            now_s: 0.0,
            places: scenario.models.iter().map(|_| Place::default()).collect(),
            slots: vec![None; slots],
            generations: vec![0; slots],
            free: (0..slots).rev().collect(),
            under_way: BTreeMap::new(),
            queue: std::collections::VecDeque::new(),
            next_arrival_s: f64::INFINITY,
            arrivals: 0,
            steps: 0,
            drift: (0, 1.0),
            given: 0,
            meter: Meter::new(scenario.models.len(), scale_s),
        };
        match scenario.demand {
            Demand::Closed(_) => {
                simulation.free.clear();
                for slot in 0..slots {
                    simulation.seat(Traveller::new(scenario, slot, 0).started_before(), slot);
                }
            }
            Demand::Open { .. } => simulation.plan_arrival(),
        }
        simulation
    }

    pub(super) fn play(mut self) -> Outcome {
        let warm_up = self.scenario.tokens / 10;
        let (mut is_stuck, mut is_overrun) = (false, false);
        while self.meter.tokens() < self.scenario.tokens {
            self.conductor.recompute();
            let ask_again_s = self.let_go();
            let Some(next_s) = self.next_event_s(ask_again_s) else {
                is_stuck = true;
                break;
            };
            self.advance(next_s);
            self.deliver();
            if self.queue.len() > 20 * self.slots.len() {
                is_overrun = true;
                break;
            }
            if !self.meter.is_on() && self.given >= warm_up {
                self.meter.start(self.now_s);
            }
        }
        let plan = self.conductor.plan();
        let batch = plan.map(|plan| plan.batch.clone()).unwrap_or_default();
        let predicted_tokens_per_s = plan.and_then(|plan| plan.tokens_per_s);
        let outcome = self.meter.outcome(self.now_s);
        Outcome { batch, predicted_tokens_per_s, is_stuck, is_overrun, ..outcome }
    }

    /// Asks every model until none goes; returns when to ask again at the latest.
    fn let_go(&mut self) -> f64 {
        loop {
            let mut ask_again_s = f64::INFINITY;
            let mut went = false;
            for model in 0..self.places.len() {
                match self.conductor.decide(Member(model), self.now_s) {
                    Decision::Go => {
                        self.begin(model);
                        went = true;
                    }
                    Decision::Wait { by_s, .. } => {
                        ask_again_s = ask_again_s.min(by_s.unwrap_or(f64::INFINITY));
                    }
                }
            }
            if !went {
                return ask_again_s;
            }
        }
    }

    fn begin(&mut self, model: usize) {
        let take = self.places[model].ready.len().min(self.scenario.models[model].rows_max);
        let rows: Vec<usize> = self.places[model].ready.drain(..take).collect();
        let mut load = Load { rows: take, ..Load::default() };
        let mut ids = Vec::with_capacity(take);
        for traveller in rows.iter().filter_map(|slot| self.slots[*slot].as_ref()) {
            load.tokens += traveller.unseen(model) as usize;
            load.context += traveller.length as usize;
            ids.push(traveller.id);
        }
        self.steps += 1;
        let noise = 2.0 * uniform(self.scenario.seed, self.steps, Purpose::Accept, 0) - 1.0;
        let work_s = self.scenario.step_s(model, load) * (1.0 + self.scenario.jitter * noise);
        self.conductor.began(Member(model), self.now_s, Step { rows: &ids, load });
        self.places[model].running = Some(Running { rows, left_s: work_s, began_s: self.now_s, work_s });
    }

    /// How fast a model's step goes: on a shared device the speeds of all that run add up to the overlap.
    fn speed(&self, model: usize) -> f64 {
        let device = self.scenario.models[model].device;
        let running = self.places.iter().zip(&self.scenario.models);
        let beside = running.filter(|(place, of)| place.running.is_some() && of.device == device).count();
        if beside > 1 { self.scenario.overlap / beside as f64 } else { 1.0 }
    }

    fn next_event_s(&self, ask_again_s: f64) -> Option<f64> {
        let mut next_s = self.next_arrival_s;
        for (model, place) in self.places.iter().enumerate() {
            if let Some(running) = &place.running {
                next_s = next_s.min(self.now_s + running.left_s.max(0.0) / self.speed(model));
            }
        }
        if let Some(((arrives, _), _)) = self.under_way.first_key_value() {
            next_s = next_s.min(f64::from_bits(*arrives));
        }
        // To be asked again at once would be to be asked for ever.
        if ask_again_s > self.now_s {
            next_s = next_s.min(ask_again_s);
        }
        next_s.is_finite().then_some(next_s)
    }

    fn advance(&mut self, to_s: f64) {
        let speeds: Vec<f64> = (0..self.places.len()).map(|model| self.speed(model)).collect();
        for (place, speed) in self.places.iter_mut().zip(speeds) {
            if let Some(running) = &mut place.running {
                running.left_s -= (to_s - self.now_s) * speed;
            }
        }
        self.meter.journeys(self.conductor.journeys(), to_s);
        self.now_s = to_s;
        while let Some((_, factor)) =
            self.scenario.drift.get(self.drift.0).filter(|(from_s, _)| *from_s <= to_s)
        {
            self.drift = (self.drift.0 + 1, *factor);
            if self.scenario.tells_drift {
                self.conductor.tell_routing(self.scenario.shares(*factor));
            }
        }
    }

    /// Performs everything that is due.
    fn deliver(&mut self) {
        for model in 0..self.places.len() {
            let due = self.places[model].running.take_if(|running| running.left_s <= DUE * running.work_s);
            if let Some(running) = due {
                self.end(model, &running);
            }
        }
        while let Some(entry) = self.under_way.first_entry() {
            if f64::from_bits(entry.key().0) > self.now_s {
                break;
            }
            let ((_, slot), model) = entry.remove_entry();
            self.arrive(slot, model);
        }
        if self.next_arrival_s <= self.now_s {
            let came_s = self.next_arrival_s;
            self.queue.push_back(came_s);
            self.plan_arrival();
            if let Some(slot) = self.free.pop() {
                self.fill(slot);
            }
        }
    }

    fn end(&mut self, model: usize, running: &Running) {
        self.meter.step(model, running.rows.len(), self.now_s - running.began_s);
        let mut fates: Vec<(JourneyId, Fate)> = Vec::with_capacity(running.rows.len());
        let mut moves = Vec::new();
        for &slot in &running.rows {
            let Some(traveller) = &mut self.slots[slot] else { continue };
            let next = traveller.step(self.scenario, model, self.drift.1);
            let token = !matches!(next, Next::Leaves { token: false, .. });
            if token {
                self.given += 1;
                let gap_s = traveller.emitted_s.map(|before_s| self.now_s - before_s);
                let first_s =
                    if gap_s.is_none() { traveller.came_s.map(|came| self.now_s - came) } else { None };
                traveller.emitted_s = Some(self.now_s);
                self.meter.token(gap_s, first_s);
            }
            let fate = match next {
                Next::Stays => {
                    self.places[model].ready.push(slot);
                    Fate::Stays { token }
                }
                Next::Leaves { to, .. } => {
                    moves.push((slot, Some(to)));
                    Fate::Leaves { to: Member(to), token }
                }
                Next::Ends => {
                    moves.push((slot, None));
                    Fate::Ends { token }
                }
            };
            fates.push((traveller.id, fate));
        }
        self.conductor.ended(Member(model), self.now_s, &fates);
        for (slot, to) in moves {
            match to {
                Some(to) if self.scenario.handoff_s > 0.0 => {
                    let arrives_s = self.now_s + self.scenario.handoff_s;
                    self.under_way.insert((arrives_s.to_bits(), slot), to);
                }
                Some(to) => self.arrive(slot, to),
                None => self.finish(slot),
            }
        }
    }

    fn arrive(&mut self, slot: usize, model: usize) {
        let Some(traveller) = &mut self.slots[slot] else { return };
        traveller.arrive(self.scenario, model);
        self.conductor.arrived(traveller.id, Member(model), self.now_s, traveller.visit_left);
        self.places[model].ready.push(slot);
    }

    fn finish(&mut self, slot: usize) {
        if let Some(traveller) = self.slots[slot].take()
            && let Some(came_s) = traveller.came_s
        {
            self.meter.answer(came_s, self.now_s, traveller.answer_tokens);
        }
        match self.scenario.demand {
            Demand::Closed(_) => {
                self.queue.push_back(self.now_s);
                self.fill(slot);
            }
            Demand::Open { .. } if self.queue.is_empty() => self.free.push(slot),
            Demand::Open { .. } => self.fill(slot),
        }
    }

    /// The journey that has queued longest takes a slot.
    fn fill(&mut self, slot: usize) {
        let Some(came_s) = self.queue.pop_front() else { return };
        self.generations[slot] += 1;
        let mut traveller = Traveller::new(self.scenario, slot, self.generations[slot]);
        traveller.came_s = Some(came_s);
        self.seat(traveller, slot);
    }

    fn seat(&mut self, traveller: Traveller, slot: usize) {
        self.slots[slot] = Some(traveller);
        self.arrive(slot, 0);
    }

    fn plan_arrival(&mut self) {
        let Demand::Open { per_s, .. } = self.scenario.demand else { return };
        self.arrivals += 1;
        let share = 1.0 - uniform(self.scenario.seed, self.arrivals, Purpose::Residual, 0);
        let from_s = if self.next_arrival_s.is_finite() { self.next_arrival_s } else { 0.0 };
        self.next_arrival_s = from_s - share.ln() / per_s;
    }
}

/// Share of a step's work that may be left for it to count as done.
const DUE: f64 = 1e-9;
