//! Limits on what a treatment may do to those it serves. Crossing one rolls the experiment back, with the reason kept.
//!
//! A guardrail fires when the whole confidence sequence of what it watches is beyond its limit, so it may be checked
//! after every answer; [`Evidence::guard_alpha`](crate::definition::Evidence::guard_alpha) is shared by all guardrails,
//! treatments and phases. Bounded metrics are judged by what was served
//! ([`bernstein`](crate::evidence::bernstein)), which needs no assumption on keys: one tenant whose answers all
//! fail is reason enough. Where the limit compares with the control, each side's sequence gets half of the level.

use serde::{Deserialize, Serialize};

use crate::definition::Evidence;
use crate::evidence::asymptotic::{self, Clusters};
use crate::evidence::bernstein::Bernstein;
use crate::evidence::quantile::ranks;
use crate::evidence::{Interval, asymptotic::CLUSTERS_MIN};
use crate::lifecycle::{Action, Experiment, State};
use crate::metric::Metric;
use crate::tally::{Tallies, Tally};

/// A limit on every treatment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guardrail {
    /// What is watched.
    pub metric: Metric,
    /// Which number of it.
    pub of: Statistic,
    /// What it must not be.
    pub limit: Limit,
}

/// A number that says something of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The mean; a rate, where values are 0 and 1.
    Mean,
    /// What 99 % are at most.
    P99,
}

/// What a treatment must not be, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Above this.
    Above(f64),
    /// Below this.
    Below(f64),
    /// Worse than the control by more than this, on the metric's bad side.
    WorseBy(f64),
}

/// A guardrail that fired.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossed {
    /// Which.
    pub guardrail: Guardrail,
    /// The treatment.
    pub arm: String,
    /// Its sequence, or that of its difference from the control.
    pub measured: Interval,
}

impl Limit {
    pub(crate) fn is_sound(self) -> bool {
        match self {
            Self::Above(limit) | Self::Below(limit) => limit.is_finite(),
            Self::WorseBy(margin) => margin.is_finite() && margin >= 0.0,
        }
    }
}

impl Crossed {
    /// What to do about it: roll back, for this reason.
    #[must_use]
    pub fn action(&self) -> Action {
        let Guardrail { metric, of, limit } = self.guardrail;
        let of = match of {
            Statistic::Mean => "mean",
            Statistic::P99 => "p99",
        };
        let said = match limit {
            Limit::Above(limit) => format!("above {limit}"),
            Limit::Below(limit) => format!("below {limit}"),
            Limit::WorseBy(margin) => format!("worse than the control by more than {margin}"),
        };
        let Interval { low, high } = self.measured;
        let reason =
            format!("guardrail: {of} {metric} of {:?} is {said}: from {low:.4} to {high:.4}", self.arm);
        Action::RollBack { reason }
    }
}

/// The first guardrail that a running experiment has crossed, if any.
#[must_use]
pub fn check(experiment: &Experiment, tallies: &Tallies) -> Option<Crossed> {
    let definition = &experiment.definition;
    if experiment.state != State::Running || tallies.phase != experiment.phase {
        return None;
    }
    let judged = definition.guardrails.len() * (definition.arms.len() - 1);
    let alpha = experiment.alpha(definition.evidence.guard_alpha) / judged.max(1) as f64;
    let control = tallies.arms.first()?;
    definition.guardrails.iter().find_map(|guardrail| {
        let judge = Judge { guardrail: *guardrail, evidence: &definition.evidence, alpha };
        let treatments = definition.arms.iter().zip(&tallies.arms).skip(1);
        treatments.into_iter().find_map(|(arm, tally)| {
            let measured = judge.crossing(tally, control)?;
            Some(Crossed { guardrail: *guardrail, arm: arm.name.clone(), measured })
        })
    })
}

struct Judge<'a> {
    guardrail: Guardrail,
    evidence: &'a Evidence,
    alpha: f64,
}

impl Judge<'_> {
    /// The sequence that lies beyond the limit, if it does.
    fn crossing(&self, treatment: &Tally, control: &Tally) -> Option<Interval> {
        let measured = match self.guardrail.limit {
            Limit::Above(_) | Limit::Below(_) => self.sequence(treatment, self.alpha),
            Limit::WorseBy(_) => {
                self.sequence(treatment, self.alpha / 2.0).minus(self.sequence(control, self.alpha / 2.0))
            }
        };
        let crossed = match self.guardrail.limit {
            Limit::Above(limit) => measured.low > limit,
            Limit::Below(limit) => measured.high < limit,
            Limit::WorseBy(margin) if self.guardrail.metric.less_is_better() => measured.low > margin,
            Limit::WorseBy(margin) => measured.high < -margin,
        };
        crossed.then_some(measured)
    }

    fn sequence(&self, tally: &Tally, alpha: f64) -> Interval {
        let (metric, horizon) = (self.guardrail.metric, f64::from(self.evidence.horizon));
        match self.guardrail.of {
            Statistic::P99 => p99(tally, metric, horizon, alpha),
            Statistic::Mean if metric.is_bounded() => {
                let unknown = Interval { low: 0.0, high: 1.0 };
                tally.bounded(metric).map_or(unknown, |sums: &Bernstein| sums.interval(alpha))
            }
            Statistic::Mean => self.mean(tally, metric, alpha).unwrap_or(Interval::EVERYTHING),
        }
    }

    fn mean(&self, tally: &Tally, metric: Metric, alpha: f64) -> Option<Interval> {
        let mean = tally.mean(metric).and_then(Clusters::mean)?;
        let enough = mean.count >= u64::from(self.evidence.answers_min) && mean.clusters >= CLUSTERS_MIN;
        let horizon = f64::from(self.evidence.horizon);
        let errors = asymptotic::standard_errors(mean.count as f64, horizon, alpha);
        enough.then(|| Interval::around(mean.mean, errors * mean.variance.sqrt()))
    }
}

/// The sequence of the p99 of a metric.
pub(crate) fn p99(tally: &Tally, metric: Metric, horizon: f64, alpha: f64) -> Interval {
    let Some(sketch) = tally.quantiles(metric) else { return Interval::EVERYTHING };
    let ranks = ranks(sketch.count(), 0.99, horizon, alpha);
    Interval { low: sketch.at_rank(ranks.low).0, high: sketch.at_rank(ranks.high).1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assign::Unit;
    use crate::definition::tests::with_weights;
    use crate::tally::{Answer, Ended};

    fn guarded(metric: Metric, of: Statistic, limit: Limit) -> (Experiment, Tallies) {
        let mut definition = with_weights(&[5000]);
        definition.guardrails = vec![Guardrail { metric, of, limit }];
        let (experiment, _) = Experiment::create(definition).unwrap();
        let tallies = Tallies::new(&experiment);
        (experiment, tallies)
    }

    fn answer(failed: bool, ttft_s: f64) -> Answer<'static> {
        let ended = if failed { Ended::Failed } else { Ended::Stop };
        Answer { ended, fell_back: false, ttft_s: Some(ttft_s), gaps_s: &[], usage: &[], cost: 0.0 }
    }

    fn serve(tallies: &mut Tallies, answers: u16, of: impl Fn(usize, u16) -> Answer<'static>) {
        for at in 0..answers {
            (0..2).for_each(|arm| {
                tallies.record(arm, Unit { phase: 1, cluster: at % 128, cell: at }, &of(arm, at));
            });
        }
    }

    #[test]
    fn errors_of_a_treatment_roll_it_back_with_the_reason() {
        let (experiment, mut tallies) = guarded(Metric::Errors, Statistic::Mean, Limit::WorseBy(0.02));
        serve(&mut tallies, 400, |arm, at| answer(arm == 1 && at % 3 == 0, 0.1));
        let crossed = check(&experiment, &tallies).unwrap();
        let (after, described) = experiment.apply(&crossed.action()).unwrap();
        let said = "guardrail: mean errors of \"t1\" is worse than the control by more than 0.02: from 0.";
        assert!(described.detail.starts_with(said), "{}", described.detail);
        assert_eq!(after.state, State::RolledBack { reason: described.detail });
        assert_eq!(check(&after, &tallies), None, "it is rolled back once");
    }

    #[test]
    fn a_slow_tail_crosses_what_a_slow_mean_does_not() {
        let slow =
            |arm: usize, at: u16| answer(false, if arm == 1 && at.is_multiple_of(20) { 2.0 } else { 0.1 });
        let (experiment, mut tallies) = guarded(Metric::TtftS, Statistic::P99, Limit::Above(1.0));
        serve(&mut tallies, 2000, slow);
        assert!(check(&experiment, &tallies).unwrap().measured.low > 1.9);
        let (experiment, mut tallies) = guarded(Metric::TtftS, Statistic::Mean, Limit::Above(1.0));
        serve(&mut tallies, 2000, slow);
        assert_eq!(check(&experiment, &tallies), None);
    }

    #[test]
    fn less_quality_is_worse_and_more_is_not() {
        for (better, expected) in [(0, true), (1, false)] {
            let (experiment, mut tallies) = guarded(Metric::Quality, Statistic::Mean, Limit::WorseBy(0.1));
            for at in 0..500 {
                let score = |arm: usize| if arm == better { 0.9 } else { 0.4 };
                (0..2).for_each(|arm| {
                    tallies.feedback(arm, Unit { phase: 1, cluster: at, cell: at }, score(arm));
                });
            }
            assert_eq!(check(&experiment, &tallies).is_some(), expected);
        }
    }

    #[test]
    fn equal_arms_cross_nothing() {
        let (experiment, mut tallies) = guarded(Metric::Errors, Statistic::Mean, Limit::WorseBy(0.0));
        serve(&mut tallies, 1000, |_, at| answer(at % 10 == 0, 0.1));
        assert_eq!(check(&experiment, &tallies), None);
    }
}
