//! Simulated experiments: how often a conclusion is wrong where arms are alike, and how soon a real effect is seen.
//!
//! Everything but the answers is the real thing: keys get arms from an [`Assigner`], answers go into [`Tallies`], and
//! after *every* answer one looks. Randomness is an argument. `cargo run --release -p experiment --example false_positives`
//! prints all of this table, of 2,000 experiments a line (500 where there is an effect), with fixed seeds:
//!
//! | arms alike, level 5 % | concluded | true rate at most (95 %) |
//! |---|---|---|
//! | errors or quality, each request on its own | 0 % | 0.1 % |
//! | TTFT, each request on its own; a tenth treated | 1.5 %; 2.3 % | 2.0 %; 2.9 % |
//! | errors, 1,000 users | 1.4 % | 1.9 % |
//! | TTFT, 1,000 users; a tenth treated | 1.2 %; 3.2 % | 1.7 %; 3.9 % |
//! | sample ratio, each request on its own; 1,000 users, a tenth treated | 3.5 %; 1.8 % | 4.3 %; 2.4 % |
//! | guardrails on errors and on p99 of TTFT, with and without users | 0 % | 0.1 % |
//! | readout of three metrics, any verdict; with 1,000 users | 0.1 %; 0.5 % | 0.3 %; 0.9 % |
//! | *not done:* a test for one fixed number of answers at each look | 30.9 % | 32.6 % |
//!
//! | a real effect, 2,000 answers | seen | median answers of both arms |
//! |---|---|---|
//! | errors 3 % -> 10 % | 84 % | 1,419 |
//! | guardrail: errors 3 % -> 30 % | 100 % | 240 |
//! | quality 0.60 -> 0.65; with 1,000 users | 83 %; 100 % | 1,400; 643 |
//! | TTFT + 20 %; with 1,000 users | 93 %; 41 % | 968; more than 2,000 |
//! | guardrail: p99 of TTFT doubles | 27 % | more than 2,000 |
//!
//! Guardrails, and errors and quality of requests on their own, compare two sequences that each hold: their false rate is
//! far below the level, and that is paid for in answers. The lines on TTFT and those with users rest on a limit theorem. They
//! are measured for these worlds only, in which `evidence.answers_min` was chosen too: with longer tails or fewer users they
//! can be above the level.

mod world;

use crate::assign::{Assigner, Unit};
use crate::definition::{Arm, Definition, Evidence, Sticky, WHOLE_BP};
use crate::evidence::asymptotic::Clusters;
use crate::guardrail::{self, Guardrail};
use crate::lifecycle::Experiment;
use crate::metric::Metric;
use crate::readout::{self, Verdict};
use crate::tally::Tallies;

pub use world::{Keys, World};

/// What is looked at after every answer, and what counts as a conclusion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// The sequence of a metric's difference at the full level of error; a conclusion is that 0 is outside.
    Sequence(Metric),
    /// A guardrail; a conclusion is that it fires.
    Guardrail(Guardrail),
    /// The sample ratio, at the level of the sequences; a conclusion is an alarm.
    Ratio,
    /// The readout; a conclusion is any verdict.
    Readout,
    /// What is *not* done: a test for one fixed number of answers, each on its own, with 1.96 standard errors.
    FixedTest(Metric),
}

/// Experiments that are alike but for their keys and answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// What the arms do.
    pub world: World,
    /// The treatment's part of the keys, in basis points.
    pub treatment_bp: u16,
    /// What is looked at.
    pub look: Look,
    /// Answers of an experiment.
    pub answers: u32,
}

/// What came of many experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Experiments.
    pub runs: u32,
    /// After how many answers each of those concluded that did, in ascending order.
    pub concluded_at: Vec<u32>,
}

impl Outcome {
    /// Part of the experiments that came to a conclusion.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.concluded_at.len() as f64 / f64::from(self.runs)
    }

    /// An upper bound on the true rate at the confidence `1 - alpha`: the rate at which so few conclusions would have the
    /// chance alpha (Clopper and Pearson 1934).
    ///
    /// ```
    /// # use experiment::study::Outcome;
    /// let none = Outcome { runs: 100, concluded_at: Vec::new() };
    /// // (1 - p)^100 = 0.05 at p = 1 - 0.05^(1/100) = 0.029513
    /// assert!((none.rate_at_most(0.05) - 0.029513).abs() < 1e-6);
    /// ```
    #[must_use]
    pub fn rate_at_most(&self, alpha: f64) -> f64 {
        let (mut low, mut high) = (self.rate(), 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if binomial_cdf(self.concluded_at.len(), self.runs, middle) > alpha {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// Answers after which half of *all* experiments had concluded, if half did.
    #[must_use]
    pub fn median_answers(&self) -> Option<u32> {
        self.concluded_at.get(self.runs as usize / 2).copied()
    }
}

/// Runs experiments; `uniform` draws from [0, 1).
pub fn simulate(plan: &Plan, runs: u32, uniform: &mut dyn FnMut() -> f64) -> Outcome {
    let mut concluded_at: Vec<u32> = (0..runs).filter_map(|run| one(plan, run, uniform)).collect();
    concluded_at.sort_unstable();
    Outcome { runs, concluded_at }
}

/// After how many answers one experiment concludes.
fn one(plan: &Plan, run: u32, uniform: &mut dyn FnMut() -> f64) -> Option<u32> {
    let (experiment, _) = Experiment::create(plan.definition(run)).expect("a plan's definition is sound");
    let assigner = Assigner::new(&experiment);
    let mut tallies = Tallies::new(&experiment);
    let mut answers = plan.world.answers(uniform);
    (1..=plan.answers).find(|_| {
        let drawn = answers.next(uniform);
        let assignment = assigner.assign(Some(&[&drawn.key.to_le_bytes()]));
        let unit = assignment.unit.expect("it runs, and there is a key");
        tallies.assigned(assignment.arm, unit);
        drawn.tell(&mut tallies, assignment.arm, plan.counted(unit, drawn.number));
        plan.concludes(&experiment, &tallies)
    })
}

impl Plan {
    fn definition(&self, run: u32) -> Definition {
        let guardrails = match self.look {
            Look::Guardrail(guardrail) => vec![guardrail],
            _ => Vec::new(),
        };
        Definition {
            name: "study".to_owned(),
            route: "pair".to_owned(),
            seed: format!("seed of the run {run:08}"),
            sticky: if self.world.keys == Keys::Fresh { Sticky::Request } else { Sticky::User },
            arms: vec![
                Arm::plain("control", WHOLE_BP - self.treatment_bp),
                Arm::plain("treatment", self.treatment_bp),
            ],
            shadows: Vec::new(),
            evidence: Evidence {
                metrics: [Metric::Errors, Metric::Quality, Metric::TtftS].into(),
                horizon: self.answers.max(100),
                ..Evidence::default()
            },
            guardrails,
        }
    }

    /// Where an answer is counted; a fixed test takes each as a key of its own.
    fn counted(&self, unit: Unit, number: u32) -> Unit {
        match self.look {
            Look::FixedTest(_) => {
                Unit { cluster: (number % u32::from(crate::assign::CLUSTERS)) as u16, ..unit }
            }
            _ => unit,
        }
    }

    fn concludes(&self, experiment: &Experiment, tallies: &Tallies) -> bool {
        let definition = &experiment.definition;
        match self.look {
            Look::Sequence(metric) => {
                let arms = (&tallies.arms[1], &tallies.arms[0]);
                !readout::compare(definition, metric, arms, definition.evidence.alpha).0.contains(0.0)
            }
            Look::Guardrail(_) => guardrail::check(experiment, tallies).is_some(),
            Look::Ratio => readout::read(experiment, tallies)
                .is_some_and(|readout| readout.ratio.p_value <= definition.evidence.alpha),
            Look::Readout => {
                let Some(readout) = readout::read(experiment, tallies) else { return false };
                let verdict =
                    |verdict| matches!(verdict, Verdict::Better | Verdict::Worse | Verdict::Untrusted);
                readout.comparisons.iter().any(|comparison| verdict(comparison.verdict))
            }
            Look::FixedTest(metric) => {
                let mean = |arm: usize| tallies.arms[arm].mean(metric).and_then(Clusters::mean);
                let Some((one, zero)) = mean(1).zip(mean(0)) else { return false };
                let enough = one.count.min(zero.count) >= 100;
                enough && (one.mean - zero.mean).abs() > 1.96 * (one.variance + zero.variance).sqrt()
            }
        }
    }
}

fn binomial_cdf(successes: usize, runs: u32, p: f64) -> f64 {
    let n = f64::from(runs);
    let ln_choose = |k: f64| libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
    let term = |k: f64| (ln_choose(k) + k * p.ln() + (n - k) * (-p).ln_1p()).exp();
    (0..=successes).map(|k| term(k as f64)).sum()
}
