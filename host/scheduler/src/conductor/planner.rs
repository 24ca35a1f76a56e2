//! Plans for a group, made away from the decisions.

use std::collections::BTreeSet;

use super::beliefs::Beliefs;
use super::settings::{Mode, Settings};
use super::{Bounds, Conductor, Member};
use crate::law::Affine;
use crate::plan::network::Network;
use crate::plan::paper::Chain;
use crate::plan::turns::Turns;
use crate::plan::{Aims, Devices, Order, Plan, Reason};

/// What is decided in advance for a group, with everything that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupPlan {
    /// The number of journeys it is for.
    pub journeys: usize,
    /// The model whose steps are repeated so that the others' are shared.
    pub feeder: Member,
    /// Who may run at the same time.
    pub order: Order,
    /// Ready journeys with which each model starts; 1 where turns decide.
    pub batch: Vec<usize>,
    /// For each model but the feeder, how its threshold was found; empty for modes that make no plan.
    pub pairs: Vec<(Member, Plan)>,
    /// The rule for turns, where a threshold for each pair is not enough.
    pub turns: Option<Turns>,
    /// Predicted tokens per second of the group; absent for more than two models of which some share a device and others
    /// do not, or that wait for thresholds.
    pub tokens_per_s: Option<f64>,
    /// Share of the draws whose token is kept, as believed when it was made.
    pub kept: f64,
    /// Longest that anybody is made to wait, seconds.
    pub wait_max_s: f64,
    /// The bounds that it was made for.
    pub bounds: Bounds,
    /// Which of the group's changes of models it was made after.
    pub seating: u32,
}

/// What a plan is made from: a snapshot, so that it can be made without the conductor.
#[derive(Clone, Debug)]
pub struct Planner {
    settings: Settings,
    beliefs: Beliefs,
    journeys: usize,
    needs_turns: bool,
    seating: u32,
}

impl Planner {
    /// Makes the plan. Well below a millisecond, but for the paper's chain.
    #[must_use]
    pub fn make(&self) -> GroupPlan {
        let feeder = self.beliefs.feeder();
        let others: Vec<Member> =
            (0..self.beliefs.len()).map(Member).filter(|member| *member != feeder).collect();
        let pairs: Vec<(Member, Plan)> =
            others.iter().map(|large| (*large, self.pair_plan(feeder, *large))).collect();
        let turns = self.needs_turns.then(|| self.beliefs.turns());
        let by_turns =
            turns.as_ref().filter(|_| self.shares_a_device()).map(|turns| self.tokens_by_turns(turns));
        let order = self.order(&pairs, by_turns);
        let tokens_per_s = match (order, &pairs[..]) {
            (Order::Exclusive, _) if by_turns.is_some() => by_turns,
            (Order::Parallel, [(_, plan)]) if turns.is_some() => plan.parallel_tokens_per_s,
            (_, [(_, plan)]) => Some(plan.tokens_per_s),
            (Order::Parallel, _) => self.tokens_apart(),
            _ => None,
        };
        let cycle_s: f64 = pairs.iter().map(|(_, plan)| plan.cycle_s).sum();
        GroupPlan {
            journeys: self.journeys,
            feeder,
            order,
            batch: self.batch(&pairs),
            kept: self.beliefs.kept(),
            turns,
            tokens_per_s,
            wait_max_s: WAIT_CYCLES_MAX * cycle_s,
            pairs,
            bounds: self.settings.bounds,
            seating: self.seating,
        }
    }

    fn tokens_by_turns(&self, turns: &Turns) -> f64 {
        turns.rows_per_s(self.journeys as f64, &self.beliefs.shares()) * self.beliefs.kept()
    }

    /// Tokens per second of models that each have a device, and go as soon as anybody is ready; `None` for others.
    fn tokens_apart(&self) -> Option<f64> {
        let devices: BTreeSet<usize> = self.settings.members.iter().map(|member| member.device).collect();
        let at_once = matches!(self.settings.mode, Mode::Ours | Mode::EagerAsync);
        if devices.len() < self.settings.members.len() || !at_once {
            return None;
        }
        let members = || (0..self.beliefs.len()).map(Member);
        let laws: Vec<Affine> = members().map(|member| self.beliefs.per_row(member)).collect();
        let leaving: Vec<f64> = members().map(|member| self.beliefs.leaving(member)).collect();
        let rates = self.beliefs.row_rates();
        let network = Network { laws: &laws, rates: &rates, leaving: &leaving };
        Some(network.rows_per_s(self.journeys as f64) * self.beliefs.kept())
    }

    /// Whether all models are on one device.
    fn shares_a_device(&self) -> bool {
        self.settings.members.iter().all(|member| member.device == self.settings.members[0].device)
    }

    fn order(&self, pairs: &[(Member, Plan)], by_turns: Option<f64>) -> Order {
        let is_exclusive = |plan: &Plan| match plan.devices {
            // Alignment of models on devices of their own is worked out for two and visits of known length; otherwise
            // only the bound on gaps asks for it.
            Devices::Separate if self.needs_turns => plan.reasons.contains(&Reason::TightGap),
            _ => plan.order == Order::Exclusive,
        };
        match (&self.settings.mode, pairs) {
            // Bursts do not empty a model whose visits end by chance: what taking turns gives is what the rule gives.
            (Mode::Ours, [(_, plan)]) if by_turns.is_some() && !plan.reasons.contains(&Reason::TightGap) => {
                let is_slower = by_turns < plan.parallel_tokens_per_s;
                if is_slower { Order::Parallel } else { Order::Exclusive }
            }
            (Mode::Ours, _) if pairs.iter().any(|(_, plan)| is_exclusive(plan)) => Order::Exclusive,
            (Mode::StepSync | Mode::ModelSync, _) => Order::Exclusive,
            (Mode::FixedB(thresholds), _) => thresholds.order,
            (Mode::Ours | Mode::EagerAsync | Mode::PaperDtmc, _) => Order::Parallel,
        }
    }

    fn pair_plan(&self, feeder: Member, large: Member) -> Plan {
        let same = self.settings.device(feeder) == self.settings.device(large);
        let devices = if same {
            Devices::Shared { overlap: self.beliefs.overlap().value(), switch_s: self.beliefs.switch_s() }
        } else {
            Devices::Separate
        };
        let aims = Aims {
            tempo_s: self.settings.bounds.tpot_s,
            gap_s: self.settings.bounds.itl_s,
            answer_tokens: Some(self.settings.answer_tokens),
            rows_max: Some(self.settings.members[large.0].rows_max),
        };
        Plan::make(self.beliefs.pair(feeder, large, self.journeys), devices, aims)
    }

    fn batch(&self, pairs: &[(Member, Plan)]) -> Vec<usize> {
        let mut batch = vec![1; self.beliefs.len()];
        match &self.settings.mode {
            // Where models take turns by the rule, that decides. On a device of its own a threshold is worked out for two
            // models and visits of known length; elsewhere it costs up to a sixth, and looking ahead is all.
            Mode::Ours if self.needs_turns => {}
            Mode::Ours => {
                for (member, plan) in pairs {
                    batch[member.0] = plan.batch;
                }
            }
            Mode::FixedB(thresholds) => batch.clone_from(&thresholds.batch),
            Mode::PaperDtmc => {
                for (member, plan) in pairs {
                    batch[member.0] = paper_batch(plan);
                }
            }
            Mode::StepSync | Mode::ModelSync | Mode::EagerAsync => {}
        }
        batch
    }
}

/// The threshold by the paper's chain, on a grid of a quarter of a small-model step, or coarser where the other model's
/// step would be too long on it: a chain's time grows with that length, and beliefs may be far off at first.
///
/// With more journeys than the chain can hold, the threshold of the largest number that it can, in proportion.
fn paper_batch(plan: &Plan) -> usize {
    let pair = plan.pair;
    let mut held = pair.journeys.round().clamp(1.0, CHAIN_JOURNEYS_MAX);
    let longest_s = pair.small.step_s(pair.journeys).max(pair.large.step_s(pair.journeys));
    let tick_s = (pair.small.step_s(1.0) / 4.0).max(longest_s / CHAIN_TICKS_MAX);
    loop {
        let mut chain = Chain::of_pair(&crate::plan::Pair { journeys: held, ..pair }, tick_s);
        chain.states_max = CHAIN_STATES_MAX;
        match chain.best() {
            Ok(rated) => return ((rated.batch[1] as f64 * pair.journeys / held).round() as usize).max(1),
            Err(_) if held > 1.0 => held = (held * 0.7).floor(),
            Err(_) => return 1,
        }
    }
}

impl Conductor {
    /// Whether a plan is due: there is none, the number of journeys has changed by more than a tenth, or what is
    /// believed has changed.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        let journeys = self.seats.len();
        if journeys == 0 || !self.beliefs.is_known() {
            return false;
        }
        let learns = matches!(self.settings.beliefs, super::Source::Learnt);
        let Some(plan) = &self.plan else { return true };
        let changed = journeys.abs_diff(plan.journeys) * 10 > plan.journeys;
        changed || !self.suits(plan) || (learns && self.steps_since_plan >= STEPS_BETWEEN_PLANS)
    }

    /// Whether a plan follows the rule that is needed now, and still predicts what it says.
    fn suits(&self, plan: &GroupPlan) -> bool {
        // Nothing is decided by the tokens kept, but the prediction is, where turns are taken.
        let kept = plan.pairs.len() < 2 && plan.turns.is_none()
            || (plan.kept - self.beliefs.kept()).abs() <= KEPT_CHANGE;
        plan.turns.is_some() == self.needs_turns() && plan.bounds == self.bounds() && kept
    }

    /// A snapshot from which a plan can be made, at once or on another thread.
    #[must_use]
    pub fn planner(&self) -> Planner {
        Planner {
            settings: Settings { bounds: self.bounds(), ..self.settings.clone() },
            beliefs: self.beliefs.clone(),
            journeys: self.seats.len().max(1),
            needs_turns: self.needs_turns(),
            seating: self.seating,
        }
    }

    /// Takes in a plan, unless it is for other models.
    pub fn adopt(&mut self, plan: GroupPlan) {
        if plan.seating != self.seating {
            return;
        }
        self.steps_since_plan = 0;
        self.plan = Some(plan);
    }

    /// Makes and adopts a plan if one is due. Plans are kept by number of journeys until beliefs have changed.
    pub fn recompute(&mut self) {
        if !self.is_stale() {
            return;
        }
        if self.steps_since_plan >= STEPS_BETWEEN_PLANS {
            self.forget_outdated_plans();
        }
        let journeys = self.seats.len();
        let plan = self.plans.get(&journeys).filter(|plan| self.suits(plan)).cloned();
        let plan = plan.unwrap_or_else(|| self.planner().make());
        if self.plans.len() >= PLANS_KEPT {
            self.plans.clear();
        }
        self.plans.insert(journeys, plan.clone());
        self.adopt(plan);
    }

    /// Drops the plans kept if what they were made from differs from what is believed now.
    fn forget_outdated_plans(&mut self) {
        self.steps_since_plan = 0;
        if matches!(self.settings.beliefs, super::Source::Told(_)) {
            return;
        }
        let outdated = self.plans.values().any(|plan| {
            plan.pairs.iter().any(|(member, made)| {
                let now = self.beliefs.pair(plan.feeder, *member, plan.journeys);
                differs(now.share, made.pair.share)
                    || differs(now.visit_tokens, made.pair.visit_tokens)
                    || differs(now.small.fixed_s, made.pair.small.fixed_s)
                    || differs(now.small.row_s, made.pair.small.row_s)
                    || differs(now.large.fixed_s, made.pair.large.fixed_s)
                    || differs(now.large.row_s, made.pair.large.row_s)
            }) || plan.feeder != self.beliefs.feeder()
        });
        if outdated {
            self.plans.clear();
        }
    }
}

fn differs(a: f64, b: f64) -> bool {
    (a - b).abs() > BELIEF_CHANGE * b.abs().max(1e-12)
}

const STEPS_BETWEEN_PLANS: u32 = 16;
/// Relative change of a belief that makes a plan outdated.
const BELIEF_CHANGE: f64 = 0.01;
const KEPT_CHANGE: f64 = 0.03;
const PLANS_KEPT: usize = 64;
/// Longest wait, in predicted cycles.
const WAIT_CYCLES_MAX: f64 = 4.0;
/// Most journeys and states of the paper's chain: below a tenth of a second for all thresholds.
const CHAIN_JOURNEYS_MAX: f64 = 16.0;
const CHAIN_STATES_MAX: usize = 8000;
/// Longest step on the chain's grid.
const CHAIN_TICKS_MAX: f64 = 128.0;
