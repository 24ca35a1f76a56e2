//! What people are shown: what each arm did, and which differences are real.
//!
//! The metrics that the definition names share `evidence.alpha` with all treatments and phases, so the chance that *any*
//! verdict is wrong where arms are alike is at most alpha, however often one looks. All others are shown as numbers only:
//! an interval for each would be an invitation to pick one.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::definition::{Definition, Sticky};
use crate::evidence::asymptotic::{CLUSTERS_MIN, Clusters, standard_errors};
use crate::evidence::bernstein::Bernstein;
use crate::evidence::{Interval, ratio};
use crate::lifecycle::Experiment;
use crate::metric::Metric;
use crate::tally::{Ended, Tallies, Tally};

/// An experiment as it looks now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Readout {
    /// The phase that is told of.
    pub phase: u32,
    /// Arms, the control first.
    pub arms: Vec<ArmReadout>,
    /// Whether arms get the keys that their weights say.
    pub ratio: Ratio,
    /// The named metrics, for each treatment against the control.
    pub comparisons: Vec<Comparison>,
}

/// What an arm did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmReadout {
    /// Its name.
    pub name: String,
    /// Answers by how they ended.
    pub ended: BTreeMap<Ended, u64>,
    /// Keys that were drawn for it.
    pub keys: u64,
    /// Means of all metrics that have values.
    pub means: Vec<(Metric, f64)>,
    /// Each role's part of the tokens made, from 0 to 1.
    pub shares: Vec<f64>,
    /// Median and p99 of the time between tokens, seconds.
    pub gap_p50_p99_s: Option<(f64, f64)>,
    /// Median and p99 of the time to the first token, seconds.
    pub ttft_p50_p99_s: Option<(f64, f64)>,
}

/// The sample ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// An always-valid p-value: the chance of evidence this strong at any time, if keys are drawn by the weights.
    pub p_value: f64,
    /// Whether it is below `evidence.ratio_alpha`. Then no comparison can be trusted.
    pub alarm: bool,
}

/// A treatment against the control, by one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The treatment.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// Mean of the treatment less mean of the control, if both have values.
    pub difference: Option<f64>,
    /// Where the true difference lies, at all times together.
    pub interval: Interval,
    /// What the interval rests on.
    pub method: Method,
    /// What may be concluded.
    pub verdict: Verdict,
}

/// What an interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Only that values are in [0, 1]: bounded metrics, where each request is on its own.
    Bernstein,
    /// A limit theorem, over clusters of keys.
    Asymptotic,
}

/// What may be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Too few answers or keys.
    TooFew,
    /// The interval holds 0.
    Open,
    /// The treatment is better.
    Better,
    /// The treatment is worse.
    Worse,
    /// The sample ratio is wrong, so nothing may be concluded.
    Untrusted,
}

/// Reads an experiment; None if the tallies are of another phase.
#[must_use]
pub fn read(experiment: &Experiment, tallies: &Tallies) -> Option<Readout> {
    if tallies.phase != experiment.phase {
        return None;
    }
    let definition = &experiment.definition;
    let keys = tallies.drawn.counts(tallies.arms.len());
    let ratio = sample_ratio(definition, &keys, experiment.alpha(definition.evidence.ratio_alpha));
    let pairs = definition.evidence.metrics.len() * (definition.arms.len() - 1);
    let alpha = experiment.alpha(definition.evidence.alpha) / pairs.max(1) as f64;
    let arms = definition.arms.iter().zip(&tallies.arms);
    let named = |metric: Metric| {
        let control = tallies.arms.first();
        let treatments = definition.arms.iter().zip(&tallies.arms).skip(1);
        treatments.filter_map(move |(arm, tally)| {
            let (interval, method, enough) = compare(definition, metric, (tally, control?), alpha);
            let mean = |tally: &Tally| tally.mean(metric).and_then(Clusters::plain_mean);
            let difference = mean(tally).zip(control.and_then(mean)).map(|(a, b)| a - b);
            let verdict = if ratio.alarm { Verdict::Untrusted } else { verdict(metric, interval, enough) };
            Some(Comparison { arm: arm.name.clone(), metric, difference, interval, method, verdict })
        })
    };
    Some(Readout {
        phase: tallies.phase,
        arms: arms.zip(&keys).map(|((arm, tally), &keys)| describe(&arm.name, tally, keys)).collect(),
        ratio,
        comparisons: definition.evidence.metrics.iter().flat_map(|&metric| named(metric)).collect(),
    })
}

/// The sequence of a difference, what it rests on, and whether there is enough to conclude from.
#[must_use]
pub fn compare(
    definition: &Definition,
    metric: Metric,
    (treatment, control): (&Tally, &Tally),
    alpha: f64,
) -> (Interval, Method, bool) {
    if metric.is_bounded() && definition.sticky == Sticky::Request {
        let unknown = Interval { low: 0.0, high: 1.0 };
        let of = |tally: &Tally| {
            tally.bounded(metric).map_or(unknown, |sums: &Bernstein| sums.interval(alpha / 2.0))
        };
        let enough = [treatment, control].iter().all(|tally| tally.bounded(metric).is_some());
        return (of(treatment).minus(of(control)), Method::Bernstein, enough);
    }
    let interval = asymptotic(definition, metric, (treatment, control), alpha);
    (interval.unwrap_or(Interval::EVERYTHING), Method::Asymptotic, interval.is_some())
}

fn asymptotic(
    definition: &Definition,
    metric: Metric,
    (treatment, control): (&Tally, &Tally),
    alpha: f64,
) -> Option<Interval> {
    let mean = |tally: &Tally| tally.mean(metric).and_then(Clusters::mean);
    let (one, zero) = mean(treatment).zip(mean(control))?;
    let least = u64::from(definition.evidence.answers_min);
    if [one, zero].iter().any(|mean| mean.count < least || mean.clusters < CLUSTERS_MIN) {
        return None;
    }
    let error = (one.variance + zero.variance).sqrt();
    let count = (one.count + zero.count) as f64;
    let errors = standard_errors(count, f64::from(definition.evidence.horizon), alpha);
    Some(Interval::around(one.mean - zero.mean, errors * error))
}

fn verdict(metric: Metric, interval: Interval, enough: bool) -> Verdict {
    if !enough {
        return Verdict::TooFew;
    }
    if interval.contains(0.0) {
        return Verdict::Open;
    }
    if (interval.high < 0.0) == metric.less_is_better() { Verdict::Better } else { Verdict::Worse }
}

fn sample_ratio(definition: &Definition, keys: &[u64], alpha: f64) -> Ratio {
    let weights: Vec<f64> = definition.arms.iter().map(|arm| f64::from(arm.weight_bp)).collect();
    let p_value = (-ratio::ln_evidence(keys, &weights)).exp().min(1.0);
    Ratio { p_value, alarm: p_value <= alpha }
}

fn describe(name: &str, tally: &Tally, keys: u64) -> ArmReadout {
    let mean = |metric: Metric| Some((metric, tally.mean(metric)?.plain_mean()?));
    let both = |sketch: &crate::tally::Sketch| sketch.quantile(0.5).zip(sketch.quantile(0.99));
    ArmReadout {
        name: name.to_owned(),
        ended: tally.ended.clone(),
        keys,
        means: Metric::ALL.into_iter().filter_map(mean).collect(),
        shares: tally.shares(),
        gap_p50_p99_s: both(&tally.gaps),
        ttft_p50_p99_s: tally.quantiles(Metric::TtftS).and_then(both),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assign::Unit;
    use crate::definition::tests::with_weights;

    fn scored(sticky: Sticky, keys: u16) -> (Experiment, Tallies) {
        let mut definition = with_weights(&[5000]);
        definition.sticky = sticky;
        definition.evidence.metrics = [Metric::Quality, Metric::Cost].into();
        let (experiment, _) = Experiment::create(definition).unwrap();
        let mut tallies = Tallies::new(&experiment);
        for at in 0..2000u16 {
            for arm in 0..2 {
                let unit = Unit { phase: 1, cluster: at % keys, cell: 2 * at + arm as u16 };
                tallies.assigned(arm, unit);
                tallies.feedback(arm, unit, if arm == 1 { 0.8 } else { 0.5 + f64::from(at % 3) / 10.0 });
            }
        }
        (experiment, tallies)
    }

    #[test]
    fn a_real_difference_is_told_and_a_missing_metric_is_not_made_up() {
        for (sticky, method) in [(Sticky::Request, Method::Bernstein), (Sticky::User, Method::Asymptotic)] {
            let (experiment, tallies) = scored(sticky, 128);
            let readout = read(&experiment, &tallies).unwrap();
            let [quality, cost] = &readout.comparisons[..] else { panic!("two metrics") };
            assert_eq!((quality.method, quality.verdict), (method, Verdict::Better));
            assert!(quality.interval.contains(0.2), "{quality:?}");
            assert_eq!((cost.verdict, cost.difference), (Verdict::TooFew, None));
            assert_eq!((readout.arms[0].keys, readout.ratio.alarm), (2000, false));
            assert!(serde_json::to_string(&readout).unwrap().contains("\"verdict\":\"better\""));
        }
    }

    #[test]
    fn a_few_keys_prove_nothing_however_often_they_ask() {
        let (experiment, tallies) = scored(Sticky::Tenant, 5);
        assert_eq!(read(&experiment, &tallies).unwrap().comparisons[0].verdict, Verdict::TooFew);
    }

    #[test]
    fn a_wrong_ratio_takes_all_trust() {
        let (experiment, mut tallies) = scored(Sticky::User, 128);
        (5000..7000).for_each(|cell| tallies.assigned(1, Unit { phase: 1, cluster: 0, cell }));
        let readout = read(&experiment, &tallies).unwrap();
        assert!(readout.ratio.alarm);
        assert_eq!(readout.comparisons[0].verdict, Verdict::Untrusted);
    }
}
