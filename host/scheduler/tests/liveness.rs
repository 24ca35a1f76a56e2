//! Claim C9 and what every group has to keep, over random graphs of handoffs, cancels, evictions and arrivals in virtual
//! time: nobody waits for ever, nobody waits long, no journey is lost or counted twice.
//!
//! The world here is plain and independent of the crate's own simulator.

use std::collections::BTreeMap;

use journey::JourneyId;
use journey::random::{Purpose, uniform};
use proptest::prelude::*;
use scheduler::Member;
use scheduler::conductor::{
    Conductor, Decision, Fate, MemberSettings, Mode, Settings, Source, Step, Strictness, Thresholds,
};
use scheduler::law::{Load, StepLaw};
use scheduler::plan::Order;

/// A random group and what happens to it.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    models: usize,
    devices: usize,
    journeys: usize,
    rows_max: usize,
    mode: Mode,
    learns: bool,
    timed: bool,
    slo_itl_s: Option<f64>,
    handoff_s: f64,
    /// Share of steps after which somebody is cancelled, evicted, or comes anew.
    disturbed: f64,
}

#[derive(Clone, Debug)]
struct Traveller {
    left: u32,
    visit_left: Option<u32>,
    at: usize,
    ready_since_step: Option<u64>,
}

struct World {
    case: Case,
    conductor: Conductor,
    now_s: f64,
    travellers: BTreeMap<u64, Traveller>,
    running: Vec<Option<(f64, Vec<u64>)>>,
    under_way: Vec<(f64, u64, usize)>,
    /// Journeys that were evicted and come back at a time.
    away: Vec<(f64, u64)>,
    next_id: u64,
    draws: u64,
    steps: u64,
    tokens: u64,
    owed: u64,
    longest_wait: u64,
}

impl World {
    fn new(case: Case) -> Self {
        let draw = |index: u32| uniform(case.seed, 0, Purpose::Sample, index);
        let members = (0..case.models).map(|model| MemberSettings {
            device: (draw(10 + model as u32) * case.devices as f64) as usize,
            rows_max: case.rows_max,
            law: StepLaw::affine(if model == 0 { 1.0 } else { 1.0 + 20.0 * draw(20 + model as u32) }, 0.05),
        });
        let mut settings = Settings { mode: case.mode.clone(), ..Settings::learning(members.collect()) };
        settings.bounds.itl_s = case.slo_itl_s;
        settings.slo_itl_from = if draw(30) < 0.5 { Strictness::Soft } else { Strictness::Hard };
        let mut world = Self {
            conductor: Conductor::new(settings.clone()),
            now_s: 0.0,
            travellers: BTreeMap::new(),
            running: vec![None; case.models],
            under_way: Vec::new(),
            away: Vec::new(),
            next_id: 0,
            draws: 0,
            steps: 0,
            tokens: 0,
            owed: 0,
            longest_wait: 0,
            case,
        };
        if !world.case.learns {
            settings.beliefs = Source::Told((0..world.case.models).map(|from| world.routes(from)).collect());
            settings.overlap = Some(1.0);
            world.conductor = Conductor::new(settings);
        }
        for _ in 0..world.case.journeys {
            world.come();
        }
        world
    }

    /// Probabilities of leaving a model for each other one; some edges are missing.
    fn routes(&self, from: usize) -> Vec<f64> {
        let models = self.case.models;
        let draw = |index: u32| uniform(self.case.seed, 1 + from as u64, Purpose::Sample, index);
        let mut line: Vec<f64> = (0..models)
            .map(|to| if to == from || draw(to as u32) < 0.4 { 0.0 } else { draw(100 + to as u32) })
            .collect();
        if from != 0 {
            // From everywhere there is a way home.
            line[0] = line[0].max(0.1);
        }
        let total: f64 = line.iter().sum();
        let leaving = if total > 0.0 { 0.05 + 0.9 * draw(50) } else { 0.0 };
        line.iter().map(|share| share / total.max(1e-9) * leaving).collect()
    }

    fn draw(&mut self) -> f64 {
        self.draws += 1;
        uniform(self.case.seed ^ 0xABCD, self.draws, Purpose::Policy, 0)
    }

    fn come(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        let left = 1 + (self.draw() * 30.0) as u32;
        self.owed += u64::from(left);
        self.travellers.insert(id, Traveller { left, visit_left: None, at: 0, ready_since_step: None });
        self.arrive(id, 0);
    }

    fn arrive(&mut self, id: u64, model: usize) {
        let length = 1 + (self.draw() * 3.0) as u32;
        let timed = self.case.timed && model != 0;
        let Some(traveller) = self.travellers.get_mut(&id) else { return };
        traveller.at = model;
        traveller.visit_left = timed.then_some(length);
        traveller.ready_since_step = Some(self.steps);
        self.conductor.arrived(JourneyId(id), Member(model), self.now_s, traveller.visit_left);
    }

    fn ready(&self, model: usize) -> Vec<u64> {
        let here = self.travellers.iter().filter(|(_, t)| t.at == model && t.ready_since_step.is_some());
        let mut ids: Vec<(u64, u64)> =
            here.map(|(id, t)| (t.ready_since_step.unwrap_or_default(), *id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    fn begin(&mut self, model: usize) {
        let rows: Vec<u64> = self.ready(model).into_iter().take(self.case.rows_max).collect();
        let ids: Vec<JourneyId> = rows.iter().map(|id| JourneyId(*id)).collect();
        for id in &rows {
            let traveller = self.travellers.get_mut(id).expect("who is ready is here");
            let since = traveller.ready_since_step.take().expect("is ready");
            self.longest_wait = self.longest_wait.max(self.steps - since);
        }
        let load = Load::decoding(rows.len());
        self.conductor.began(Member(model), self.now_s, Step { rows: &ids, load });
        let lasts_s = (0.5 + self.draw()) * (1.0 + 5.0 * model as f64);
        self.running[model] = Some((self.now_s + lasts_s, rows));
        self.steps += 1;
    }

    fn end(&mut self, model: usize) {
        let (_, rows) = self.running[model].take().expect("a step runs");
        let routes = self.routes(model);
        let mut fates = Vec::new();
        let mut moves = Vec::new();
        for id in rows {
            let (chance, point) = (self.draw(), self.draw());
            // Those that were cancelled meanwhile are still rows of the step, but nobody any more.
            let Some(traveller) = self.travellers.get_mut(&id) else { continue };
            let leaves = match &mut traveller.visit_left {
                Some(left) => {
                    *left -= 1;
                    *left == 0
                }
                None => chance < routes.iter().sum(),
            };
            let token = model != 0 || !leaves;
            traveller.left -= u32::from(token);
            self.tokens += u64::from(token);
            let mut point = point * routes.iter().sum::<f64>();
            let to = routes.iter().position(|share| {
                point -= share;
                point < 0.0
            });
            let fate = match to {
                _ if traveller.left == 0 => Fate::Ends { token },
                Some(to) if leaves => {
                    moves.push((id, to));
                    Fate::Leaves { to: Member(to), token }
                }
                _ => {
                    traveller.ready_since_step = Some(self.steps);
                    Fate::Stays { token }
                }
            };
            if fate == (Fate::Ends { token }) {
                self.travellers.remove(&id);
            }
            fates.push((JourneyId(id), fate));
        }
        self.conductor.ended(Member(model), self.now_s, &fates);
        for (id, to) in moves {
            if self.case.handoff_s > 0.0 {
                self.under_way.push((self.now_s + self.case.handoff_s, id, to));
            } else {
                self.arrive(id, to);
            }
        }
        if self.draw() < self.case.disturbed {
            self.disturb();
        }
    }

    /// Somebody is cancelled wherever they are, or evicted for a while, or comes anew.
    fn disturb(&mut self) {
        let (kind, whom) = (self.draw(), self.draw());
        let id = self.travellers.keys().nth((whom * self.travellers.len() as f64) as usize).copied();
        match id {
            Some(id) if kind < 0.4 => {
                self.owed -= u64::from(self.travellers[&id].left);
                self.travellers.remove(&id);
                self.under_way.retain(|(_, other, _)| *other != id);
                self.away.retain(|(_, other)| *other != id);
                self.conductor.gone(JourneyId(id));
            }
            Some(id) if kind < 0.7 && !self.away.iter().any(|(_, other)| *other == id) => {
                self.travellers.get_mut(&id).expect("is here").ready_since_step = None;
                self.running.iter_mut().flatten().for_each(|(_, rows)| rows.retain(|other| *other != id));
                self.under_way.retain(|(_, other, _)| *other != id);
                self.conductor.gone(JourneyId(id));
                self.away.push((self.now_s + 7.0, id));
            }
            _ if self.next_id < 60 => self.come(),
            _ => {}
        }
    }

    /// Lets everybody go who may; returns when to ask again.
    fn decide(&mut self) -> Result<f64, TestCaseError> {
        let mut again_s = f64::INFINITY;
        let mut went = true;
        while went {
            (went, again_s) = (false, f64::INFINITY);
            // Models ask in any order, as every one has a thread of its own.
            let first = self.draws as usize % self.case.models;
            for at in 0..self.case.models {
                let model = (first + at) % self.case.models;
                prop_assert_eq!(
                    self.conductor.ready(Member(model)),
                    self.ready(model).len(),
                    "ready at {}",
                    model
                );
                match self.conductor.decide(Member(model), self.now_s) {
                    Decision::Go => {
                        prop_assert!(self.running[model].is_none() && !self.ready(model).is_empty());
                        self.begin(model);
                        went = true;
                    }
                    Decision::Wait { by_s, .. } => again_s = again_s.min(by_s.unwrap_or(f64::INFINITY)),
                }
            }
        }
        Ok(again_s)
    }

    fn play(mut self) -> Result<Self, TestCaseError> {
        loop {
            self.conductor.recompute();
            let again_s = self.decide()?;
            if self.travellers.is_empty() {
                return Ok(self);
            }
            prop_assert_eq!(self.conductor.journeys(), self.travellers.len() - self.away.len(), "journeys");
            prop_assert!(self.steps < 40_000, "a finite number of tokens takes a finite number of steps");
            let ends = self.running.iter().flatten().map(|(end_s, _)| *end_s);
            let moves = self.under_way.iter().map(|(at_s, _, _)| *at_s);
            let back = self.away.iter().map(|(at_s, _)| *at_s);
            let events = ends.chain(moves).chain(back).fold(f64::INFINITY, f64::min);
            prop_assert!(
                events.is_finite(),
                "everybody waits although there is work: {:?}",
                (0..self.case.models)
                    .map(|m| self.conductor.decide(Member(m), self.now_s))
                    .collect::<Vec<_>>()
            );
            self.now_s = if again_s > self.now_s { events.min(again_s) } else { events };
            self.happen();
        }
    }

    fn happen(&mut self) {
        for model in 0..self.case.models {
            if self.running[model].as_ref().is_some_and(|(end_s, _)| *end_s <= self.now_s) {
                self.end(model);
            }
        }
        let now_s = self.now_s;
        let (due, later) =
            std::mem::take(&mut self.under_way).into_iter().partition(|(at_s, _, _)| *at_s <= now_s);
        self.under_way = later;
        let due: Vec<(f64, u64, usize)> = due;
        for (_, id, to) in due {
            self.arrive(id, to);
        }
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.away).into_iter().partition(|(at_s, _)| *at_s <= now_s);
        self.away = later;
        for (_, id) in due {
            let at = self.travellers.get(&id).map_or(0, |traveller| traveller.at);
            self.arrive(id, at);
        }
    }
}

fn modes(models: usize) -> impl Strategy<Value = Mode> {
    let order = prop_oneof![Just(Order::Exclusive), Just(Order::Parallel)];
    let fixed = (proptest::collection::vec(1usize..40, models), order)
        .prop_map(|(batch, order)| Mode::FixedB(Thresholds::without_timers(batch, order)));
    prop_oneof![
        6 => Just(Mode::Ours),
        2 => fixed,
        1 => Just(Mode::StepSync),
        1 => Just(Mode::ModelSync),
        1 => Just(Mode::EagerAsync),
        1 => Just(Mode::PaperDtmc),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (1usize..=4, 1usize..=4, 1usize..=14, prop_oneof![Just(usize::MAX), 1usize..6]);
    (any::<u64>(), shape).prop_flat_map(|(seed, (models, devices, journeys, rows_max))| {
        let bound = proptest::option::weighted(0.3, 2.0f64..60.0);
        let handoff = prop_oneof![Just(0.0), 0.1f64..4.0];
        let share = prop_oneof![Just(0.0), 0.0f64..0.5];
        (modes(models), any::<bool>(), any::<bool>(), bound, handoff, share).prop_map(
            move |(mode, learns, timed, slo_itl_s, handoff_s, disturbed)| Case {
                seed,
                models,
                devices: devices.min(models),
                journeys,
                rows_max,
                mode,
                learns,
                timed,
                slo_itl_s,
                handoff_s,
                disturbed,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// All journeys end with exactly the tokens they owe, and nobody waits for more steps than a bound.
    #[test]
    fn c9_nobody_waits_for_ever_and_nothing_is_lost_or_doubled(case in cases()) {
        let (rows_max, journeys) = (case.rows_max, case.journeys as u64);
        let world = World::new(case).play()?;
        prop_assert_eq!(world.tokens, world.owed, "tokens given against tokens owed");
        prop_assert_eq!(world.conductor.journeys(), 0);
        if rows_max == usize::MAX {
            // Cycles are a few dozen steps with so few journeys; a wait of many of them would be starvation.
            prop_assert!(world.longest_wait <= 400 + 40 * journeys, "{} steps", world.longest_wait);
        }
    }
}

fn two_models(mode: Mode, journeys: usize, seed: u64) -> World {
    let world = World::new(Case {
        seed,
        models: 2,
        devices: 2,
        journeys,
        rows_max: usize::MAX,
        mode,
        learns: false,
        timed: true,
        slo_itl_s: None,
        handoff_s: 0.0,
        disturbed: 0.0,
    });
    world.play().expect("it ends")
}

/// One journey: our mode is immediate admission, step for step.
#[test]
fn c9_with_one_journey_ours_is_immediate() {
    for seed in 0..40 {
        let (ours, eager) = (two_models(Mode::Ours, 1, seed), two_models(Mode::EagerAsync, 1, seed));
        assert_eq!(
            (ours.steps, ours.tokens, ours.now_s),
            (eager.steps, eager.tokens, eager.now_s),
            "seed {seed}"
        );
    }
}
