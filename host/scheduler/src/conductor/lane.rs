//! Which models exclude each other, and whose turn it is among them.
//!
//! A lane is a set of models of which one runs at a time: all models where one order is kept over all of them, those of
//! a device where the device is shared exclusively, otherwise each model by itself.

use super::{Conductor, Decision, Mode, Source, Until};
use crate::Member;
use crate::plan::Order;

impl Conductor {
    /// What this model should do now.
    #[must_use]
    pub fn decide(&self, member: Member, now_s: f64) -> Decision {
        if self.stations[member.0].running.is_some() {
            return Decision::Wait { until: Until::StepOf(member), by_s: None };
        }
        if self.stations[member.0].ready == 0 {
            return Decision::Wait { until: Until::Arrival, by_s: None };
        }
        if let Some(busy) = self.lane(member).find(|other| self.stations[other.0].running.is_some()) {
            return Decision::Wait { until: Until::StepOf(busy), by_s: None };
        }
        match self.pick(member, now_s) {
            Some(next) if next == member => Decision::Go,
            Some(next) => Decision::Wait { until: Until::StepOf(next), by_s: None },
            None => self.wants(member, now_s),
        }
    }

    /// The model of an idle lane that runs next; `None` if all of it waits for somebody outside.
    fn pick(&self, member: Member, now_s: f64) -> Option<Member> {
        let lane = || self.lane(member).filter(|other| self.stations[other.0].ready > 0);
        let is_shared = self.lane(member).count() > 1;
        let feeder = self.feeder();
        if is_shared && self.settings.mode == Mode::ModelSync {
            return self.one_model_at_a_time(lane());
        }
        if is_shared && let Some(next) = self.by_turns(lane(), now_s) {
            return Some(next);
        }
        let others = || lane().filter(|other| *other != feeder);
        // A cohort in the middle of its visits goes on together: the burst that the plan has counted.
        let burst = others().filter(|_| is_shared).max_by_key(|other| self.stations[other.0].residents);
        if let Some(burst) = burst.filter(|burst| self.stations[burst.0].residents > 0) {
            return Some(burst);
        }
        let willing = others().filter(|other| self.wants(*other, now_s) == Decision::Go);
        let fullness = |m: &Member| self.stations[m.0].ready as f64 / self.threshold(*m) as f64;
        if let Some(fullest) = willing.max_by(|a, b| fullness(a).total_cmp(&fullness(b))) {
            return Some(fullest);
        }
        if lane().any(|other| other == feeder) && self.wants(feeder, now_s) == Decision::Go {
            return Some(feeder);
        }
        // Nobody wants to, and nobody runs, is under way, or is about to run in another lane who could change that. A
        // feeder with anybody ready is: it only ever waits for a step that runs.
        let feeds = self.stations[feeder.0].ready > 0 && !self.lane(member).any(|other| other == feeder);
        let is_quiet = !feeds && !self.stations.iter().any(super::station::Station::is_active);
        lane().filter(|_| is_quiet).max_by_key(|other| self.stations[other.0].ready)
    }

    /// Whether a model would go if it were alone in its lane.
    pub(super) fn wants(&self, member: Member, now_s: f64) -> Decision {
        match &self.settings.mode {
            Mode::StepSync | Mode::ModelSync | Mode::EagerAsync => Decision::Go,
            Mode::FixedB(thresholds) => self.fixed(member, now_s, thresholds),
            Mode::PaperDtmc => self.by_threshold(member),
            Mode::Ours if member == self.feeder() => self.feed_or_wait(member, now_s),
            Mode::Ours => self.delayed(member, now_s),
        }
    }

    /// The models that exclude this one, itself among them.
    pub(super) fn lane(&self, member: Member) -> impl Iterator<Item = Member> + Clone + use<'_> {
        let all = self.order() == Order::Exclusive && self.is_one_lane();
        let by_device = self.excludes_by_device();
        let device = self.settings.device(member);
        (0..self.stations.len()).map(Member).filter(move |other| {
            *other == member || all || (by_device && self.settings.device(*other) == device)
        })
    }

    /// Who may run at the same time; before there is a plan, one model at a time on a shared device.
    fn order(&self) -> Order {
        if self.is_probing() {
            return Order::Parallel;
        }
        if let Some(plan) = &self.plan {
            return if self.is_refreshing() { Order::Exclusive } else { plan.order };
        }
        match &self.settings.mode {
            Mode::StepSync | Mode::ModelSync => Order::Exclusive,
            Mode::FixedB(thresholds) => thresholds.order,
            Mode::EagerAsync | Mode::PaperDtmc => Order::Parallel,
            Mode::Ours if self.devices == 1 => Order::Exclusive,
            Mode::Ours => Order::Parallel,
        }
    }

    /// Whether an exclusive order is over all models, not device by device.
    fn is_one_lane(&self) -> bool {
        self.settings.mode != Mode::Ours || !self.is_mixed()
    }

    /// With some models on a device of their own and others sharing one, those that share always take turns.
    fn excludes_by_device(&self) -> bool {
        self.settings.mode == Mode::Ours && self.is_mixed()
    }

    /// Whether models of a shared device are let overlap for some steps, to measure what that costs.
    pub(super) fn is_probing(&self) -> bool {
        self.learns_overlap() && self.beliefs.are_laws_known() && !self.beliefs.overlap().is_measured()
    }

    /// Whether models that overlap take turns for some steps, with the threshold for that: what a step takes alone is
    /// learnt only then, and overlap is judged by it.
    pub(super) fn is_refreshing(&self) -> bool {
        self.learns_overlap() && self.steps % REFRESH_STEPS < REFRESH_FOR_STEPS
    }

    fn learns_overlap(&self) -> bool {
        let learns = self.settings.beliefs == Source::Learnt && self.settings.overlap.is_none();
        learns && self.settings.mode == Mode::Ours && self.devices == 1 && self.stations.len() > 1
    }

    /// The model whose steps are repeated so that the others' are shared.
    pub(super) fn feeder(&self) -> Member {
        self.plan.as_ref().map_or_else(|| self.beliefs.feeder(), |plan| plan.feeder)
    }

    fn is_mixed(&self) -> bool {
        self.devices > 1 && self.devices < self.settings.members.len()
    }
}

const REFRESH_STEPS: u64 = 2048;
const REFRESH_FOR_STEPS: u64 = 48;
