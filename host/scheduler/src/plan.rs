//! What delay is worth, worked out before it is used: pure formulas, and the plan made from them.
//!
//! [`shared`] is for two models on one device, [`separate`] for a device each, [`chain`] for few journeys on separate
//! devices; [`turns`] for any number of models that share a device, [`network`] for any number with a device each;
//! [`paper`] is the model of the TokenRouter paper, one of the baselines. [`Plan::make`] chooses between running one model
//! at a time and both at once, and says why. Nothing here knows of time or of single journeys.

pub mod chain;
pub mod network;
mod numbers;
pub mod paper;
pub mod separate;
pub mod shared;
pub mod turns;

use std::fmt;

use crate::law::Affine;

/// Two models between which journeys pass: what the formulas are about.
///
/// The small model decodes; each of its tokens is routed with probability `share`, and the journey then visits the large
/// one for `visit_tokens` tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Journeys in the system (`N`).
    pub journeys: f64,
    /// Probability that a token of the small model is routed (`p`), in (0, 1).
    pub share: f64,
    /// Tokens of a visit to the large model (`k`), at least 1.
    pub visit_tokens: f64,
    /// Step time of the small model (`S`).
    pub small: Affine,
    /// Step time of the large model (`L`).
    pub large: Affine,
}

impl Pair {
    /// `lambda = -ln(1 - p)`: rate per step at which a journey leaves the small model.
    #[must_use]
    pub fn lambda(&self) -> f64 {
        -(-self.share).ln_1p()
    }

    /// `kappa = lambda k a_L / a_S`: what decides the threshold on a shared device.
    #[must_use]
    pub fn kappa(&self) -> f64 {
        self.lambda() * self.visit_tokens * self.large.fixed_s / self.small.fixed_s
    }

    /// Tokens per visit, a constant whatever is decided: `(1 - p + p k) / p`, as the routed proposal is dropped.
    #[must_use]
    pub fn tokens_per_visit(&self) -> f64 {
        (1.0 - self.share + self.share * self.visit_tokens) / self.share
    }

    /// `y = p T_L / T_S`: how busy the large model is, relative to the small one, where delay on separate devices pays.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.share * self.visit_tokens * self.large.step_s(1.0) / self.small.step_s(1.0)
    }

    /// A small model whose steps cost a second, a large one of `large_s`; a row adds a two-hundredth.
    #[cfg(test)]
    fn of_tests(journeys: f64, share: f64, visit_tokens: f64, large_s: f64) -> Self {
        let one = |fixed_s: f64| Affine { fixed_s, row_s: fixed_s / 200.0 };
        Self { journeys, share, visit_tokens, small: one(1.0), large: one(large_s) }
    }

    fn fixed_of_cycle_s(&self, steps: f64) -> f64 {
        steps * self.small.fixed_s + self.visit_tokens * self.large.fixed_s
    }

    /// The pair within the range in which the formulas hold.
    fn bounded(mut self) -> Self {
        self.journeys = self.journeys.max(1.0);
        self.share = self.share.clamp(SHARE_MIN, SHARE_MAX);
        self.visit_tokens = self.visit_tokens.clamp(1.0, VISIT_MAX);
        (self.small, self.large) = (self.small.possible(), self.large.possible());
        self
    }
}

/// Where the two models run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Devices {
    /// Each on its own device: neither slows the other.
    Separate,
    /// Both on one device. `overlap` is the sum of the two models' speeds when both run, relative to each alone: 1 is
    /// plain time slicing, 2 as good as separate (`eta`).
    Shared {
        /// See above; measured by [`crate::conductor::Overlap`].
        overlap: f64,
        /// Seconds from a step of one model to one of the other where one runs at a time: who is to go on has to be woken.
        switch_s: f64,
    },
}

impl Devices {
    /// How many times longer a step takes while the other model runs too.
    fn wall(self) -> f64 {
        match self {
            Self::Separate => 1.0,
            Self::Shared { overlap, .. } => 2.0 / overlap.clamp(0.1, 2.0),
        }
    }

    fn switch_s(self) -> f64 {
        match self {
            Self::Separate => 0.0,
            Self::Shared { switch_s, .. } => switch_s,
        }
    }
}

/// Who may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One model at a time.
    Exclusive,
    /// Every model whenever it wants to.
    Parallel,
}

/// What a plan has to satisfy besides throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aims {
    /// Bound on the 99th percentile over answers of the seconds per output token.
    pub tempo_s: Option<f64>,
    /// Bound on the 99th percentile of the gap between two tokens of a journey, seconds.
    pub gap_s: Option<f64>,
    /// Tokens of a typical answer; the percentile of the tempo depends on it.
    pub answer_tokens: Option<f64>,
    /// Most rows of a large-model step.
    pub rows_max: Option<usize>,
}

/// Why a plan is what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// One journey: nobody to wait for.
    OneJourney,
    /// Overlap is so low that running one model at a time is always better.
    NoOverlap,
    /// Of the two orders this one is predicted to be faster.
    FasterOrder,
    /// Each model has its own device.
    OwnDevices,
    /// The bound on gaps is shorter than a small step and two large ones: admission that is not aligned breaks it.
    TightGap,
    /// Waiting is not predicted to gain anything that matters.
    DelayDoesNotPay,
    /// The threshold is the one for most tokens per second.
    Throughput,
    /// The threshold is lower than the one for throughput, for the sake of slow answers.
    SlowAnswers,
    /// The threshold is cut to the rows a step can hold.
    RowsMax,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneJourney => "one journey: nobody to wait for",
            Self::NoOverlap => "no overlap: one model at a time is always better",
            Self::FasterOrder => "this order is predicted to be faster",
            Self::OwnDevices => "each model has its own device",
            Self::TightGap => "the bound on gaps is too tight for models that run on their own",
            Self::DelayDoesNotPay => "delay does not pay",
            Self::Throughput => "most tokens per second",
            Self::SlowAnswers => "a lower threshold for the sake of slow answers",
            Self::RowsMax => "cut to the rows of a step",
        })
    }
}

/// A threshold with everything that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What it was made from.
    pub pair: Pair,
    /// Where the models run.
    pub devices: Devices,
    /// What it has to satisfy.
    pub aims: Aims,
    /// Who may run at the same time.
    pub order: Order,
    /// Waiting journeys with which the large model starts (`B*`); 1 is no delay.
    pub batch: usize,
    /// The threshold for most tokens per second one model at a time, whatever the order.
    pub exclusive_batch: usize,
    /// Predicted tokens per second.
    pub tokens_per_s: f64,
    /// Predicted tokens per second one model at a time; absent where the bound on gaps decided.
    pub exclusive_tokens_per_s: Option<f64>,
    /// Predicted tokens per second with both at once; absent where that was not worth a look.
    pub parallel_tokens_per_s: Option<f64>,
    /// Predicted seconds of a cycle, gathering and a large-model burst; at least a step of each with everybody.
    pub cycle_s: f64,
    /// Fixed seconds per visit, the price of a visit (`gamma`).
    pub price_s: f64,
    /// Why.
    pub reasons: Vec<Reason>,
}

impl Plan {
    /// Chooses order and threshold. A few microseconds on a shared device, up to some hundred on separate ones.
    ///
    /// ```
    /// use scheduler::law::Affine;
    /// use scheduler::plan::{Aims, Devices, Order, Pair, Plan};
    /// let one = |fixed_s| Affine { fixed_s, row_s: fixed_s / 200.0 };
    /// let pair = Pair { journeys: 64.0, share: 0.05, visit_tokens: 1.0, small: one(1.0), large: one(10.0) };
    /// let plan = Plan::make(pair, Devices::Shared { overlap: 1.0, switch_s: 0.0 }, Aims::default());
    /// assert_eq!((plan.order, plan.batch), (Order::Exclusive, 37));
    /// // (1 / p) / (m* a_S ... ): X* = 20 / (0.725 + 0.1 + 0.05) = 22.9
    /// assert!((plan.tokens_per_s - 22.86).abs() < 0.05);
    /// ```
    #[must_use]
    pub fn make(pair: Pair, devices: Devices, aims: Aims) -> Self {
        let pair = pair.bounded();
        let mut plan = Self::blank(pair, devices, aims);
        plan.choose_order();
        match plan.order {
            Order::Exclusive => plan.delay_exclusive(),
            Order::Parallel => plan.delay_parallel(),
        }
        if let Some(rows_max) = aims.rows_max.filter(|rows| *rows < plan.batch) {
            plan.batch = rows_max.max(1);
            plan.reasons.push(Reason::RowsMax);
        }
        let visits_per_s = (plan.tokens_per_s / pair.tokens_per_visit()).max(f64::MIN_POSITIVE);
        let steps_s = pair.small.step_s(pair.journeys) + pair.visit_tokens * pair.large.step_s(pair.journeys);
        plan.cycle_s = steps_s.max(plan.batch as f64 / visits_per_s);
        plan
    }

    fn blank(pair: Pair, devices: Devices, aims: Aims) -> Self {
        Self {
            pair,
            devices,
            aims,
            order: Order::Parallel,
            batch: 1,
            exclusive_batch: shared::batch(&in_turns(pair, devices)),
            tokens_per_s: 0.0,
            exclusive_tokens_per_s: None,
            parallel_tokens_per_s: None,
            cycle_s: 0.0,
            price_s: 0.0,
            reasons: Vec::new(),
        }
    }

    fn choose_order(&mut self) {
        let batch = self.exclusive_batch;
        let in_turns = in_turns(self.pair, self.devices);
        let shortest_s = self.pair.small.step_s(1.0) + 2.0 * self.pair.large.step_s(1.0);
        let tight = self.aims.gap_s.is_some_and(|gap_s| gap_s < shortest_s);
        match self.devices {
            Devices::Separate if tight => self.exclude(Reason::TightGap),
            Devices::Separate => {
                let alone = shared::tokens_per_s(&in_turns, batch);
                let both = separate::best(&self.pair, 1.0).tokens_per_s;
                (self.exclusive_tokens_per_s, self.parallel_tokens_per_s) = (Some(alone), Some(both));
                // One-token visits fragment nothing: where alignment looks faster there, the estimates are at fault.
                let align = self.pair.visit_tokens > 1.5 && alone > ALIGN_MARGIN * both;
                self.order = if align { Order::Exclusive } else { Order::Parallel };
                self.reasons.push(if align { Reason::FasterOrder } else { Reason::OwnDevices });
            }
            Devices::Shared { .. } if tight => self.exclude(Reason::TightGap),
            Devices::Shared { overlap, .. } if overlap <= NO_OVERLAP && self.switching_is_cheap() => {
                self.exclude(Reason::NoOverlap);
            }
            Devices::Shared { .. } => {
                let alone = shared::tokens_per_s(&in_turns, batch);
                let both = separate::best(&self.pair, self.devices.wall()).tokens_per_s;
                (self.exclusive_tokens_per_s, self.parallel_tokens_per_s) = (Some(alone), Some(both));
                self.order = if alone > both { Order::Exclusive } else { Order::Parallel };
                self.reasons.push(Reason::FasterOrder);
            }
        }
    }

    fn exclude(&mut self, reason: Reason) {
        self.order = Order::Exclusive;
        self.reasons.push(reason);
    }

    /// Whether changing models costs next to nothing beside their steps.
    fn switching_is_cheap(&self) -> bool {
        let steps_s = self.pair.small.step_s(1.0) + self.pair.visit_tokens * self.pair.large.step_s(1.0);
        2.0 * self.devices.switch_s() <= CHEAP_SWITCH * steps_s
    }

    fn delay_exclusive(&mut self) {
        let pair = &in_turns(self.pair, self.devices);
        let most = self.exclusive_batch;
        let gain = shared::tokens_per_s(pair, most) / shared::tokens_per_s(pair, 1);
        let (batch, reason) = match (self.aims.tempo_s, self.aims.answer_tokens) {
            _ if pair.journeys < 1.5 => (1, Reason::OneJourney),
            _ if gain < DELAY_MARGIN => (1, Reason::DelayDoesNotPay),
            (Some(_), answer_tokens) => {
                let batch = shared::batch_for_tempo(pair, answer_tokens.unwrap_or(ANSWER_TOKENS));
                (batch, if batch < most { Reason::SlowAnswers } else { Reason::Throughput })
            }
            (None, _) => (most, Reason::Throughput),
        };
        self.batch = batch;
        self.tokens_per_s = shared::tokens_per_s(pair, batch);
        self.price_s = shared::price_s(pair, batch as f64);
        self.exclusive_tokens_per_s = Some(self.tokens_per_s);
        self.reasons.push(reason);
    }

    fn delay_parallel(&mut self) {
        let forecast = separate::best(&self.pair, self.devices.wall());
        self.batch = forecast.batch;
        self.tokens_per_s = forecast.tokens_per_s;
        self.price_s = shared::price_s(&self.pair, forecast.batch as f64);
        self.parallel_tokens_per_s = Some(forecast.tokens_per_s);
        self.reasons.push(match forecast.batch {
            1 if self.pair.journeys < 1.5 => Reason::OneJourney,
            1 => Reason::DelayDoesNotPay,
            _ => Reason::Throughput,
        });
    }
}

/// The pair as it costs one model at a time: a cycle has two changes of model, which the burst pays.
fn in_turns(pair: Pair, devices: Devices) -> Pair {
    let fixed_s = pair.large.fixed_s + 2.0 * devices.switch_s() / pair.visit_tokens;
    Pair { large: Affine { fixed_s, ..pair.large }, ..pair }
}

const SHARE_MIN: f64 = 0.001;
const SHARE_MAX: f64 = 0.95;
const VISIT_MAX: f64 = 4096.0;
/// Overlap up to which one model at a time is better on every instance that was tried.
const NO_OVERLAP: f64 = 1.05;
/// Share of the shortest cycle that changes of model may cost where overlap alone decides.
const CHEAP_SWITCH: f64 = 0.02;
/// Predicted gain below which delay is left off: gaps grow, and the estimates are no better than that.
const DELAY_MARGIN: f64 = 1.002;
/// How much faster one model at a time must be predicted to be on separate devices, where long visits fragment the large
/// model's batches.
const ALIGN_MARGIN: f64 = 1.03;
const ANSWER_TOKENS: f64 = 256.0;

#[cfg(test)]
mod tests;
