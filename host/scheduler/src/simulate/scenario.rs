//! What is simulated.

use crate::conductor::{Bounds, MemberSettings, Mode, Settings, Source, Strictness};
use crate::law::{Affine, Load, StepLaw};
use crate::plan::Pair;

/// How long journeys stay at a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// Whether a journey leaves is drawn after every token, with the probabilities of the routing matrix.
    ByChance,
    /// It decodes so many tokens and leaves; where to is drawn in proportion to the routing matrix.
    Tokens(u32),
}

/// One model.
#[derive(Clone, Debug, PartialEq)]
pub struct SimModel {
    /// Its step time.
    pub law: StepLaw,
    /// The device it runs on.
    pub device: usize,
    /// Most rows of a step.
    pub rows_max: usize,
    /// How long journeys stay.
    pub visit: Visit,
    /// Whether the token after which a journey leaves is kept. A proposal that is routed is not.
    pub keeps_routed: bool,
}

/// How journeys come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// So many at any time: when one is over, the next begins.
    Closed(usize),
    /// A Poisson process of this many a second; at most `journeys_max` at a time, others queue before they begin.
    Open {
        /// Arrivals per second.
        per_s: f64,
        /// Most journeys at a time.
        journeys_max: usize,
    },
}

/// Routing that comes in bursts: within a journey the probability changes between `1 + strength` and `1 - strength`
/// times its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Relative change of the probability.
    pub strength: f64,
    /// Mean tokens until it changes.
    pub tokens: f64,
}

/// What the conductor knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Knowledge {
    /// The true laws and routing.
    True,
    /// Nothing but a guess at each model's law.
    Guess {
        /// The guess.
        law: StepLaw,
        /// What is told of the overlap; `None` to have it measured.
        overlap: Option<f64>,
    },
}

/// A group of models, its journeys, and what is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The models; journeys begin at the first.
    pub models: Vec<SimModel>,
    /// `routes[i][j]`: probability per token that a journey at `i` leaves for `j`.
    pub routes: Vec<Vec<f64>>,
    /// Sum of the speeds of two models that run at once on one device.
    pub overlap: f64,
    /// How journeys come.
    pub demand: Demand,
    /// Tokens of an answer.
    pub answer_tokens: u32,
    /// Whether answers differ in length: `1/4 + 3/4 Exp(1)` times the above, at least 8.
    pub answers_differ: bool,
    /// Tokens of a prompt, fed before the first token at each model.
    pub prompt_tokens: u32,
    /// Step times vary by up to this share either way.
    pub jitter: f64,
    /// Batches cost as much as the next multiple of this many rows; 0 or 1 for no such steps.
    pub tile_rows: usize,
    /// Routing in bursts.
    pub burst: Option<Burst>,
    /// Each journey's probability of being routed differs from the mean by up to this share.
    pub spread: f64,
    /// Factors on the probability of being routed from a time on: (seconds, factor), in order of time.
    pub drift: Vec<(f64, f64)>,
    /// Whether the conductor is told the drift as it happens.
    pub tells_drift: bool,
    /// Seconds that a handoff is under way.
    pub handoff_s: f64,
    /// Tokens to measure, after a tenth as many that are not.
    pub tokens: u64,
    /// What all randomness follows from.
    pub seed: u64,
    /// What the conductor knows.
    pub knowledge: Knowledge,
    /// Window of the routing estimate, tokens.
    pub window_tokens: f64,
    /// Bound on the 99th percentile of the seconds per output token.
    pub slo_tpot_s: Option<f64>,
    /// Bound on the 99th percentile of gaps, seconds.
    pub slo_itl_s: Option<f64>,
    /// How strict the rule for gaps begins.
    pub slo_itl_from: Strictness,
}

impl Scenario {
    /// Two models: `share` of the first one's tokens are routed to the second for `visit_tokens` tokens.
    #[must_use]
    pub fn pair(pair: &Pair, shared: bool) -> Self {
        let law = |law: Affine| StepLaw::affine(law.fixed_s, law.row_s);
        let model = |of: Affine, device, visit, keeps_routed| SimModel {
            law: law(of),
            device,
            rows_max: usize::MAX,
            visit,
            keeps_routed,
        };
        let visit = Visit::Tokens(pair.visit_tokens.round().max(1.0) as u32);
        Self {
            models: vec![
                model(pair.small, 0, Visit::ByChance, false),
                model(pair.large, usize::from(!shared), visit, true),
            ],
            routes: vec![vec![0.0, pair.share], vec![1.0, 0.0]],
            overlap: 1.0,
            demand: Demand::Closed(pair.journeys.round().max(1.0) as usize),
            answer_tokens: 256,
            answers_differ: false,
            prompt_tokens: 1,
            jitter: 0.0,
            tile_rows: 0,
            burst: None,
            spread: 0.0,
            drift: Vec::new(),
            tells_drift: false,
            handoff_s: 0.0,
            tokens: 100_000,
            seed: 1,
            knowledge: Knowledge::True,
            window_tokens: crate::traffic::WINDOW_TOKENS,
            slo_tpot_s: None,
            slo_itl_s: None,
            slo_itl_from: Strictness::Soft,
        }
    }

    /// Journeys at a time, at most.
    #[must_use]
    pub fn journeys_max(&self) -> usize {
        match self.demand {
            Demand::Closed(journeys) | Demand::Open { journeys_max: journeys, .. } => journeys.max(1),
        }
    }

    /// Probability per token that a journey leaves, with routing multiplied by `factor`, for a conductor to be told.
    pub(super) fn shares(&self, factor: f64) -> Vec<Vec<f64>> {
        let lines = self.models.iter().zip(&self.routes);
        lines
            .map(|(model, routes)| match model.visit {
                Visit::ByChance => routes.iter().map(|share| (share * factor).min(1.0)).collect(),
                Visit::Tokens(tokens) => {
                    let total: f64 = routes.iter().sum();
                    routes.iter().map(|share| share / total / f64::from(tokens)).collect()
                }
            })
            .collect()
    }

    /// The settings of a conductor for this scenario.
    #[must_use]
    pub fn settings(&self, mode: Mode) -> Settings {
        let (learns, overlap) = match self.knowledge {
            Knowledge::True => (false, Some(self.overlap)),
            Knowledge::Guess { overlap, .. } => (true, overlap),
        };
        let members = self.models.iter().map(|model| MemberSettings {
            device: model.device,
            rows_max: model.rows_max,
            law: match self.knowledge {
                Knowledge::True => model.law,
                Knowledge::Guess { law, .. } => law,
            },
        });
        Settings {
            bounds: Bounds { tpot_s: self.slo_tpot_s, itl_s: self.slo_itl_s },
            slo_itl_from: self.slo_itl_from,
            answer_tokens: f64::from(self.answer_tokens),
            beliefs: if learns { Source::Learnt } else { Source::Told(self.shares(1.0)) },
            overlap,
            window_tokens: self.window_tokens,
            mode,
            ..Settings::learning(members.collect())
        }
    }

    /// How long a step takes alone, without jitter.
    pub(super) fn step_s(&self, model: usize, load: Load) -> f64 {
        let tile = self.tile_rows.max(1);
        let padded = load.rows.div_ceil(tile) * tile;
        let law = &self.models[model].law;
        law.step_s(load) + law.row_s * (padded - load.rows) as f64
    }
}
