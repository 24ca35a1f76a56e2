//! What the arms did, in bounded memory, mergeable between replicas.
//!
//! An answer is told once, when it has ended, with the [`Unit`] that its assignment named; feedback comes later with the
//! same unit. Nothing is kept of a single answer. An arm takes about 40 KiB, an experiment 16 KiB more.

mod length;
mod shadow;
mod sketch;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::assign::Unit;
use crate::evidence::asymptotic::Clusters;
use crate::evidence::bernstein::Bernstein;
use crate::evidence::ratio::Drawn;
use crate::lifecycle::Experiment;
use crate::metric::Metric;

pub(crate) use length::of_length;
pub use shadow::{Replayed, Shadow};
pub use sketch::Sketch;

/// What the arms of an experiment did in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tallies {
    /// The phase; see [`Experiment::phase`].
    pub phase: u32,
    /// By arm, the control first.
    pub arms: Vec<Tally>,
    /// By shadow arm.
    #[serde(default)]
    pub shadows: Vec<Shadow>,
    /// Which keys were drawn.
    pub drawn: Drawn,
}

/// What one arm did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Answers by how they ended.
    pub ended: BTreeMap<Ended, u64>,
    /// Tokens by role.
    pub usage: Vec<Usage>,
    /// Time between tokens, over all answers, seconds. It describes and proves nothing: the gaps of an answer depend on
    /// each other.
    pub gaps: Sketch,
    /// Numbers that were not finite and not counted.
    pub malformed: u64,
    means: BTreeMap<Metric, Clusters>,
    bounded: BTreeMap<Metric, Bernstein>,
    quantiles: BTreeMap<Metric, Sketch>,
}

/// An answer that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer<'a> {
    /// How.
    pub ended: Ended,
    /// Whether it went on without its policy.
    pub fell_back: bool,
    /// Seconds to the first token, if there was one.
    pub ttft_s: Option<f64>,
    /// Seconds between its tokens.
    pub gaps_s: &'a [f64],
    /// Tokens by role.
    pub usage: &'a [Usage],
    /// Their price; see [`Prices::of`].
    pub cost: f64,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// An end token, a stop string, or the policy's word.
    Stop,
    /// `max_tokens` or the context was used up.
    Length,
    /// The client went away.
    Cancelled,
    /// An error of ours; what a caller did wrong is no answer and is not told.
    Failed,
}

/// Tokens of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Fed to it.
    pub prompt: u64,
    /// Made by it.
    pub completion: u64,
}

/// What a million tokens of one model cost, in any one currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// Fed to it. Default 0.
    pub prompt_per_million: f64,
    /// Made by it. Default 0.
    pub completion_per_million: f64,
}

impl Prices {
    /// The price of an answer, with the prices of its models by role.
    ///
    /// ```
    /// # use experiment::tally::{Prices, Usage};
    /// let prices = [(0.1, 0.4), (2.0, 8.0)]
    ///     .map(|(prompt_per_million, completion_per_million)| Prices { prompt_per_million, completion_per_million });
    /// let usage = [(1000, 90), (1000, 10)].map(|(prompt, completion)| Usage { prompt, completion });
    /// // 1000 * 0.1 + 90 * 0.4 + 1000 * 2 + 10 * 8 = 2216 millionths
    /// assert!((Prices::of(&prices, &usage) - 0.002216).abs() < 1e-12);
    /// ```
    #[must_use]
    pub fn of(prices: &[Self], usage: &[Usage]) -> f64 {
        let price = |(price, usage): (&Self, &Usage)| {
            price.prompt_per_million * usage.prompt as f64
                + price.completion_per_million * usage.completion as f64
        };
        prices.iter().zip(usage).map(price).sum::<f64>() / 1e6
    }
}

impl Tallies {
    /// Nothing yet, for the experiment's present phase.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let arms = vec![Tally::default(); experiment.definition.arms.len()];
        let shadows = vec![Shadow::default(); experiment.definition.shadows.len()];
        Self { phase: experiment.phase, arms, shadows, drawn: Drawn::default() }
    }

    /// A key was given this arm; told when a request is assigned, so that answers that get lost show in the ratio.
    ///
    /// Here and below, a unit of another phase counts nowhere.
    pub fn assigned(&mut self, arm: usize, unit: Unit) {
        if unit.phase == self.phase {
            self.drawn.add(unit.cell, arm);
        }
    }

    /// An answer of this arm has ended.
    pub fn record(&mut self, arm: usize, unit: Unit, answer: &Answer<'_>) {
        if let Some(tally) = self.arm(arm, unit) {
            tally.record(unit.cluster, answer);
        }
    }

    /// Someone said how good an answer of this arm was, from 0 to 1. NB: once for each answer; who says it again is
    /// counted again.
    pub fn feedback(&mut self, arm: usize, unit: Unit, score: f64) {
        if let Some(tally) = self.arm(arm, unit) {
            tally.add(Metric::Quality, unit.cluster, score);
        }
    }

    /// A shadow was asked about an answer that is over.
    pub fn shadowed(&mut self, shadow: usize, unit: Unit, replayed: &Replayed) {
        let same_phase = unit.phase == self.phase;
        if let Some(shadow) = self.shadows.get_mut(shadow).filter(|_| same_phase) {
            shadow.add(replayed);
        }
    }

    fn arm(&mut self, arm: usize, unit: Unit) -> Option<&mut Tally> {
        self.arms.get_mut(arm).filter(|_| unit.phase == self.phase)
    }

    /// What another replica saw of the same phase. Of another phase nothing is taken; returns whether it was.
    pub fn merge(&mut self, other: &Self) -> bool {
        if other.phase != self.phase {
            return false;
        }
        self.drawn.merge(&other.drawn);
        for (arm, other) in self.arms.iter_mut().zip(&other.arms) {
            arm.merge(other);
        }
        for (shadow, other) in self.shadows.iter_mut().zip(&other.shadows) {
            shadow.merge(other);
        }
        true
    }
}

impl Tally {
    /// Answers so far.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.ended.values().sum()
    }

    /// Sums over clusters of keys of a metric, if there are values.
    #[must_use]
    pub fn mean(&self, metric: Metric) -> Option<&Clusters> {
        self.means.get(&metric)
    }

    /// Sums of a bounded metric, if there are values.
    #[must_use]
    pub fn bounded(&self, metric: Metric) -> Option<&Bernstein> {
        self.bounded.get(&metric)
    }

    /// The distribution of a metric of which quantiles are kept, if there are values.
    #[must_use]
    pub fn quantiles(&self, metric: Metric) -> Option<&Sketch> {
        self.quantiles.get(&metric)
    }

    /// Each role's part of all tokens made, from 0 to 1; all 0 before the first token.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let all = self.usage.iter().map(|usage| usage.completion).sum::<u64>().max(1);
        self.usage.iter().map(|usage| usage.completion as f64 / all as f64).collect()
    }

    fn record(&mut self, cluster: u16, answer: &Answer<'_>) {
        *self.ended.entry(answer.ended).or_default() += 1;
        self.add_usage(answer.usage);
        let indicator = |holds: bool| if holds { 1.0 } else { 0.0 };
        self.add(Metric::Errors, cluster, indicator(answer.ended == Ended::Failed));
        self.add(Metric::Fallbacks, cluster, indicator(answer.fell_back));
        self.add(Metric::Cost, cluster, answer.cost);
        let made: u64 = answer.usage.iter().map(|usage| usage.completion).sum();
        if let (Some(entry), true) = (answer.usage.first(), made > 0) {
            self.add(Metric::Elsewhere, cluster, (made - entry.completion) as f64 / made as f64);
        }
        let Some(ttft_s) = answer.ttft_s else { return };
        self.add(Metric::TtftS, cluster, ttft_s);
        let gaps_s: f64 = answer.gaps_s.iter().sum();
        answer.gaps_s.iter().for_each(|&gap| self.gaps.add(gap));
        if !answer.gaps_s.is_empty() {
            self.add(Metric::GapS, cluster, gaps_s / answer.gaps_s.len() as f64);
        }
        if ttft_s + gaps_s > 0.0 {
            self.add(Metric::TokensPerS, cluster, made as f64 / (ttft_s + gaps_s));
        }
    }

    fn add(&mut self, metric: Metric, cluster: u16, value: f64) {
        if !value.is_finite() || value < 0.0 {
            self.malformed += 1;
            return;
        }
        let value = if metric.is_bounded() { value.min(1.0) } else { value };
        self.means.entry(metric).or_default().add(cluster, value);
        if metric.is_bounded() {
            self.bounded.entry(metric).or_default().add(value);
        }
        if metric.has_quantiles() {
            self.quantiles.entry(metric).or_default().add(value);
        }
    }

    fn add_usage(&mut self, usage: &[Usage]) {
        self.usage.resize(self.usage.len().max(usage.len()), Usage::default());
        for (sum, usage) in self.usage.iter_mut().zip(usage) {
            sum.prompt += usage.prompt;
            sum.completion += usage.completion;
        }
    }

    fn merge(&mut self, other: &Self) {
        for (&ended, count) in &other.ended {
            *self.ended.entry(ended).or_default() += count;
        }
        self.add_usage(&other.usage);
        self.gaps.merge(&other.gaps);
        self.malformed += other.malformed;
        other.means.iter().for_each(|(&metric, sums)| self.means.entry(metric).or_default().merge(sums));
        other.bounded.iter().for_each(|(&metric, sums)| self.bounded.entry(metric).or_default().merge(sums));
        other
            .quantiles
            .iter()
            .for_each(|(&metric, sums)| self.quantiles.entry(metric).or_default().merge(sums));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::definition::tests::with_weights;

    fn empty() -> Tallies {
        Tallies::new(&Experiment::create(with_weights(&[5000])).unwrap().0)
    }

    fn unit(key: u16) -> Unit {
        Unit { phase: 1, cluster: key % 128, cell: key }
    }

    #[test]
    fn an_answer_counts_in_every_metric_it_has() {
        let mut tallies = empty();
        let usage = [Usage { prompt: 10, completion: 3 }, Usage { prompt: 12, completion: 1 }];
        let gaps_s = [0.1, 0.2, 0.3];
        let answer = Answer {
            ended: Ended::Stop,
            fell_back: true,
            ttft_s: Some(0.4),
            gaps_s: &gaps_s,
            usage: &usage,
            cost: 2.0,
        };
        tallies.record(1, unit(1), &answer);
        tallies.feedback(1, unit(1), 0.5);
        let failed = Answer {
            ended: Ended::Failed,
            fell_back: false,
            ttft_s: None,
            gaps_s: &[],
            usage: &[],
            cost: 0.0,
        };
        tallies.record(1, unit(2), &failed);
        let arm = &tallies.arms[1];
        let mean = |metric| arm.mean(metric).and_then(Clusters::plain_mean).unwrap();
        let means = Metric::ALL.map(|metric| (mean(metric) * 1000.0).round() / 1000.0);
        // errors, fallbacks, quality, elsewhere 1 of 4, TTFT, 0.6 s over 3 gaps, 4 tokens in 1 s, cost
        assert_eq!(means, [0.5, 0.5, 0.5, 0.25, 0.4, 0.2, 4.0, 1.0]);
        assert_eq!(arm.shares(), [0.75, 0.25]);
        assert_eq!((arm.answers(), arm.gaps.count(), arm.malformed), (2, 3, 0));
        tallies.feedback(1, unit(1), f64::NAN);
        assert_eq!(tallies.arms[1].malformed, 1);
    }

    #[test]
    fn tallies_of_another_phase_are_not_mixed_in() {
        let (mut tallies, mut other) = (empty(), empty());
        other.phase = 2;
        let late = Unit { phase: 2, ..unit(1) };
        other.feedback(0, late, 1.0);
        assert!(!tallies.merge(&other));
        tallies.assigned(0, late);
        tallies.feedback(0, late, 1.0);
        assert_eq!(tallies, empty());
    }

    #[test]
    fn tallies_of_another_length_are_refused() {
        let json = serde_json::to_string(&empty()).unwrap();
        assert_eq!(serde_json::from_str::<Tallies>(&json).unwrap(), empty());
        let error =
            serde_json::from_str::<Tallies>(&json.replace("\"cells\":[0,", "\"cells\":[")).unwrap_err();
        assert!(error.to_string().contains("invalid length 16383"), "{error}");
    }

    proptest! {
        #[test]
        fn two_replicas_together_know_what_one_would(scores in proptest::collection::vec((0u16..999, 0.0f64..1.0), 1..60)) {
            let (mut one, mut two, mut all) = (empty(), empty(), empty());
            for (at, &(key, score)) in scores.iter().enumerate() {
                for tallies in [if at % 2 == 0 { &mut one } else { &mut two }, &mut all] {
                    tallies.assigned(usize::from(key % 2), unit(key));
                    tallies.feedback(0, unit(key), score);
                }
            }
            one.merge(&two);
            prop_assert_eq!(&one.drawn, &all.drawn);
            let mean = |tallies: &Tallies| tallies.arms[0].mean(Metric::Quality).unwrap().mean();
            match (mean(&one), mean(&all)) {
                (Some(a), Some(b)) => prop_assert!((a.mean - b.mean).abs() < 1e-12 && (a.variance - b.variance).abs() < 1e-12),
                (a, b) => prop_assert_eq!(a, b),
            }
            let json = serde_json::to_string(&one).unwrap();
            prop_assert_eq!(serde_json::from_str::<Tallies>(&json).unwrap().drawn, one.drawn);
        }
    }
}
