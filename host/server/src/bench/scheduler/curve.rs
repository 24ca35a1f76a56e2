//! One situation in every mode, over the number of requests at a time.

use scheduler::conductor::Mode;
use scheduler::law::Affine;
use scheduler::plan::Pair;
use scheduler::simulate::Scenario;
use scheduler::study::{self, CurvePoint};
use serde_json::json;

use super::{modes, picture};
use crate::bench::plot::Plot;
use crate::terminal::{Align, Table};

/// Two models and how requests go between them.
#[derive(Clone, Debug)]
pub struct Situation {
    /// A step of the small model: fixed cost and cost of a row, seconds.
    pub small: Affine,
    /// A step of the large model.
    pub large: Affine,
    /// Share of the small model's tokens that are routed.
    pub share: f64,
    /// Tokens of a visit to the large model.
    pub visit_tokens: u32,
    /// Whether both run on one device.
    pub is_shared: bool,
    /// Requests at a time; one run for each, in each mode.
    pub journeys: Vec<usize>,
}

/// What the runs gave.
#[derive(Clone, Debug)]
pub struct Curve {
    pub(super) situation: Situation,
    pub(super) points: Vec<CurvePoint>,
}

impl Situation {
    /// How many runs it takes.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.journeys.len() * modes().len()
    }

    /// Runs all; `progress` is told how many are done.
    pub fn run(self, mut progress: impl FnMut(usize)) -> Curve {
        let Self { small, large, share, .. } = self;
        let pair = Pair { journeys: 1.0, share, visit_tokens: f64::from(self.visit_tokens), small, large };
        let scenario = Scenario::pair(&pair, self.is_shared);
        let journeys = self.journeys.iter().copied();
        let points = study::throughput_curve(&scenario, journeys, &modes(), |done, _| progress(done));
        Curve { situation: self, points }
    }
}

impl Curve {
    /// The situation, on one line.
    #[must_use]
    pub fn title(&self) -> String {
        let Situation { small, large, share, visit_tokens, is_shared, .. } = &self.situation;
        let law = |law: &Affine| format!("{:.1} + {:.2} b ms", law.fixed_s * 1e3, law.row_s * 1e3);
        let devices = if *is_shared { "one shared device" } else { "a device each" };
        format!(
            "simulated: steps of {} and {}, {:.0} % of tokens routed for {visit_tokens}, {devices}",
            law(small),
            law(large),
            share * 100.0
        )
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let row = |point: &CurvePoint| {
            let outcome = &point.outcome;
            json!({
                "mode": point.mode.name(),
                "n": point.journeys,
                "tokens_per_s": outcome.tokens_per_s,
                "tpot_p50_ms": outcome.tpot_p50_s * 1e3,
                "tpot_p99_ms": outcome.tpot_p99_s * 1e3,
                "itl_p99_ms": outcome.itl_p99_s * 1e3,
                "ttft_p50_ms": outcome.ttft_p50_s * 1e3,
                "mean_batch": outcome.rows,
                "b_star": threshold(point),
                "predicted_tokens_per_s": predicted(point),
            })
        };
        json!({ "engine": "sim", "rows": self.points.iter().map(row).collect::<Vec<_>>() })
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[Align::Right; 10]);
        table.row([
            &"N",
            &"mode",
            &"tokens/s",
            &"of step-sync",
            &"TPOT p50",
            &"p99 ms",
            &"rows small",
            &"large",
            &"B*",
            &"predicted",
        ]);
        for point in &self.points {
            let outcome = &point.outcome;
            let base = self.of(point.journeys).map_or(f64::NAN, |point| point.outcome.tokens_per_s);
            let rows = |at: usize| format!("{:.1}", outcome.rows.get(at).copied().unwrap_or_default());
            let batch = outcome.batch.get(1).map_or_else(String::new, usize::to_string);
            let predicted = outcome
                .predicted_tokens_per_s
                .map_or_else(String::new, |predicted| format!("{predicted:.1}"));
            table.row([
                &point.journeys,
                &point.mode.name(),
                &format!("{:.1}", outcome.tokens_per_s),
                &format!("{:.2}", outcome.tokens_per_s / base),
                &format!("{:.1}", outcome.tpot_p50_s * 1e3),
                &format!("{:.1}", outcome.tpot_p99_s * 1e3),
                &rows(0),
                &rows(1),
                &batch,
                &predicted,
            ]);
        }
        table
    }

    /// Throughput against the speed that one request sees.
    #[must_use]
    pub fn plot(&self) -> Plot {
        picture::plot(self)
    }

    /// The first mode of the table with so many requests.
    fn of(&self, journeys: usize) -> Option<&CurvePoint> {
        self.points.iter().find(|point| point.journeys == journeys)
    }
}

/// The large model's threshold, where the mode has one.
fn threshold(point: &CurvePoint) -> Option<usize> {
    let has_one = matches!(point.mode, Mode::FixedB(_) | Mode::PaperDtmc | Mode::Ours);
    point.outcome.batch.get(1).copied().filter(|_| has_one)
}

/// What the plan that was followed promises.
fn predicted(point: &CurvePoint) -> Option<f64> {
    point.outcome.predicted_tokens_per_s.filter(|_| point.mode == Mode::Ours)
}
