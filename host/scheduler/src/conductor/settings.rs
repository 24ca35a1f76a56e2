//! What a conductor is told when it is made.

use super::{Bounds, Strictness};
use crate::Member;
use crate::law::StepLaw;
use crate::plan::Order;

/// How it is decided who runs when.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// A barrier after every step over all models: whoever is away is waited for before the feeder goes on.
    StepSync,
    /// One model at a time, until nobody is left there.
    ModelSync,
    /// Every model goes as soon as anybody is ready; on a shared device the steps slow each other.
    EagerAsync,
    /// Thresholds that somebody chose.
    FixedB(Thresholds),
    /// Thresholds by the Markov chain of the TokenRouter paper, every model on its own.
    PaperDtmc,
    /// Order, thresholds and look-ahead by the plans of this crate.
    Ours,
}

impl Mode {
    /// Its name, as configurations, tables and JSON have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::StepSync => "step-sync",
            Self::ModelSync => "model-sync",
            Self::EagerAsync => "eager-async",
            Self::FixedB(_) => "fixed-B",
            Self::PaperDtmc => "paper-dtmc",
            Self::Ours => "ours",
        }
    }
}

/// Thresholds and timers, for each model.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Ready journeys with which each model starts.
    pub batch: Vec<usize>,
    /// Seconds after which it starts with fewer; infinite for never.
    pub wait_s: Vec<f64>,
    /// Who may run at the same time.
    pub order: Order,
}

impl Thresholds {
    /// Thresholds without timers.
    #[must_use]
    pub fn without_timers(batch: Vec<usize>, order: Order) -> Self {
        let wait_s = vec![f64::INFINITY; batch.len()];
        Self { batch, wait_s, order }
    }
}

/// One model of the group.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSettings {
    /// The device it runs on; models with the same number share it.
    pub device: usize,
    /// Most rows of one of its steps.
    pub rows_max: usize,
    /// Its step law: the truth where nothing is learnt, otherwise a first guess.
    pub law: StepLaw,
}

/// Everything a conductor is told in advance.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The models of the group.
    pub members: Vec<MemberSettings>,
    /// How it decides.
    pub mode: Mode,
    /// Bounds of the group; those promised to journeys hold beside them.
    pub bounds: Bounds,
    /// Where the rule for the bound on gaps begins: softly, watched by a guard that makes it strict when needed, or strictly for good.
    pub slo_itl_from: Strictness,
    /// Tokens of a typical answer.
    pub answer_tokens: f64,
    /// Where beliefs about steps and routing come from.
    pub beliefs: Source,
    /// Speed of two models of a shared device that run at once, relative to one alone: `None` measures it.
    pub overlap: Option<f64>,
    /// Tokens over which routing is averaged.
    pub window_tokens: f64,
}

/// Where beliefs about step times and routing come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// They are told: `shares[i][j]` is the probability per token of `i` that the journey goes to `j`.
    Told(Vec<Vec<f64>>),
    /// They are learnt from the events; until enough was seen nothing is delayed.
    Learnt,
}

impl Settings {
    /// Our own mode with everything learnt, without bounds.
    #[must_use]
    pub fn learning(members: Vec<MemberSettings>) -> Self {
        Self {
            members,
            mode: Mode::Ours,
            bounds: Bounds::default(),
            slo_itl_from: Strictness::Soft,
            answer_tokens: 256.0,
            beliefs: Source::Learnt,
            overlap: None,
            window_tokens: crate::traffic::WINDOW_TOKENS,
        }
    }

    pub(super) fn device(&self, member: Member) -> usize {
        self.members[member.0].device
    }
}
