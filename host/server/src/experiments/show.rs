//! An experiment as people are shown it. The seed is not: who knows it can tell arms in advance.

use std::sync::Arc;

use experiment::definition::{Arm, WHOLE_BP};
use experiment::metric::Metric;
use experiment::readout::{ArmReadout, Comparison, Readout, Verdict, read};
use experiment::tally::Tally;
use experiment::{State, Tallies};
use serde_json::{Map, Value, json};

use super::{Entry, ExperimentError, Experiments, Source};
use crate::runtime::{Catalog, Route};
use crate::telemetry::{ArmGauges, ExperimentGauges};

impl Experiments {
    /// All of them, by name.
    #[must_use]
    pub fn list(&self) -> Value {
        let catalog = self.runtime.catalog();
        let all = self.all.load();
        json!({"experiments": all.values().map(|entry| shown(entry, &catalog)).collect::<Vec<_>>()})
    }

    /// One of them.
    ///
    /// # Errors
    /// [`ExperimentError::Unknown`].
    pub fn show(&self, name: &str) -> Result<Value, ExperimentError> {
        let all = self.all.load();
        let entry = all.get(name).ok_or_else(|| ExperimentError::Unknown(name.to_owned()))?;
        Ok(shown(entry, &self.runtime.catalog()))
    }

    /// The numbers that a dashboard follows.
    #[must_use]
    pub fn gauges(&self) -> Vec<ExperimentGauges> {
        let catalog = self.runtime.catalog();
        self.all.load().values().map(|entry| gauges(entry, &catalog)).collect()
    }
}

fn shown(entry: &Entry, catalog: &Catalog) -> Value {
    let experiment = &entry.kept.experiment;
    let definition = &experiment.definition;
    let tallies = entry.book.tallies();
    let readout = read(experiment, &tallies);
    let ceilings = definition.ceilings_bp();
    let arms = definition.arms.iter().zip(ceilings).enumerate().map(|(ix, (arm, ceiling))| {
        let tally = tallies.arms.get(ix);
        let told = readout.as_ref().and_then(|readout| readout.arms.get(ix));
        arm_shown((arm, ceiling), route(entry, ix, catalog).as_deref(), tally.zip(told))
    });
    json!({
        "name": definition.name,
        "route": definition.route,
        "state": experiment.state.name(),
        "reason": reason(&experiment.state),
        "promoted": match &experiment.state {
            State::Promoted { arm, .. } => Some(arm),
            _ => None,
        },
        "problem": problem(entry, catalog),
        "phase": experiment.phase,
        "begun_unix_ms": entry.kept.begun_unix_ms,
        "sticky": definition.sticky,
        "source": match entry.kept.source {
            Source::Api => "api",
            Source::Config { .. } => "config",
        },
        "arms": arms.collect::<Vec<_>>(),
        "shadows": shadows(entry, catalog, &tallies),
        "readout": readout.iter().flat_map(|readout| &readout.comparisons)
            .map(|comparison| compared(comparison, definition.arms[0].name.as_str(), &tallies, experiment))
            .collect::<Vec<_>>(),
        "sample_ratio": ratio(readout.as_ref()),
        "evidence": definition.evidence,
        "guardrails": definition.guardrails,
    })
}

fn arm_shown(
    (arm, ceiling_bp): (&Arm, u16),
    route: Option<&Route>,
    told: Option<(&Tally, &ArmReadout)>,
) -> Value {
    let names = route.map_or(arm.models.as_slice(), |route| route.model_names.as_slice());
    let revision = route.and_then(Route::policy_revision);
    let policy = revision.as_ref().map(|revision| revision.descriptor().name.clone());
    let mut shown = json!({
        "name": arm.name,
        "weight_bp": arm.weight_bp,
        "ceiling_bp": ceiling_bp,
        "models": names,
        "policy": policy,
        "revision": revision.as_ref().map(|revision| revision.digest().to_string()),
        "settings": route.map(|route| route.settings_with(&Default::default())),
    });
    let Some((tally, readout)) = told else { return shown };
    let mean = |metric: Metric| readout.means.iter().find(|(of, _)| *of == metric).map(|(_, mean)| *mean);
    let sum = |metric: Metric| tally.mean(metric).map_or(0.0, |sums| total(sums.plain_mean(), sums.count()));
    let quantiles = |both: Option<(f64, f64)>| both.map(|(p50, p99)| json!({"p50": p50, "p99": p99}));
    let share: Map<String, Value> =
        names.iter().zip(&readout.shares).map(|(name, share)| (name.clone(), json!(share))).collect();
    shown["answers"] = json!(tally.answers());
    shown["keys"] = json!(readout.keys);
    shown["errors"] = json!(sum(Metric::Errors).round());
    shown["fallbacks"] = json!(sum(Metric::Fallbacks).round());
    shown["share"] = share.into();
    shown["tokens_per_s"] = json!(mean(Metric::TokensPerS));
    shown["ttft_s"] = json!(quantiles(readout.ttft_p50_p99_s));
    shown["gap_s"] = json!(quantiles(readout.gap_p50_p99_s));
    shown["cost"] = json!(sum(Metric::Cost));
    shown["finish"] = json!(readout.ended);
    let count = tally.mean(Metric::Quality).map_or(0, |sums| sums.count());
    shown["score"] = json!({"mean": mean(Metric::Quality), "count": count});
    shown
}

/// What the shadows would have done.
fn shadows(entry: &Entry, catalog: &Catalog, tallies: &Tallies) -> Vec<Value> {
    let definition = &entry.kept.experiment.definition;
    let skips = entry.book.skips();
    let split = catalog.split(&definition.route).filter(|split| split.name() == definition.name);
    let shown = definition.shadows.iter().enumerate().map(|(ix, shadow)| {
        let route = split.and_then(|split| split.shadows.get(ix)).map(|arm| Arc::clone(&arm.route));
        let mut shown = arm_shown((shadow, WHOLE_BP), route.as_deref(), None);
        let Some(tally) = tallies.shadows.get(ix) else { return shown };
        let names = route.as_ref().map_or(shadow.models.as_slice(), |route| route.model_names.as_slice());
        let shares = tally.shares(names.len());
        let share = shares.map(|shares| {
            let each = names.iter().zip(shares).map(|(name, share)| (name.clone(), json!(share)));
            each.collect::<Map<String, Value>>()
        });
        shown["answers"] = json!(tally.answers);
        shown["failed"] = json!(tally.failed);
        shown["skipped"] = json!(skips.get(ix));
        shown["asked"] = json!(tally.asked);
        shown["agreement"] = json!(tally.agreement());
        shown["share"] = json!(share);
        shown
    });
    shown.collect()
}

fn total(mean: Option<f64>, count: u64) -> f64 {
    mean.unwrap_or(0.0) * count as f64
}

/// A treatment against the control: both means, the difference, and where the true one lies at all times together.
fn compared(
    comparison: &Comparison,
    control: &str,
    tallies: &Tallies,
    experiment: &experiment::Experiment,
) -> Value {
    let mean = |arm: usize| tallies.arms.get(arm)?.mean(comparison.metric)?.plain_mean();
    let treatment = experiment.arm_index(&comparison.arm).ok().and_then(mean);
    json!({
        "metric": comparison.metric,
        "arm": comparison.arm,
        "control_arm": control,
        "control": mean(0),
        "treatment": treatment,
        "effect": comparison.difference,
        "low": comparison.interval.low,
        "high": comparison.interval.high,
        "method": comparison.method,
        "verdict": verdict(comparison.verdict),
        "unit": unit(comparison.metric),
    })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::TooFew => "undecided",
        Verdict::Open => "no difference shown",
        Verdict::Untrusted => "untrusted",
    }
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::Errors | Metric::Fallbacks => "part of answers",
        Metric::Quality => "score from 0 to 1",
        Metric::Elsewhere => "part of tokens",
        Metric::TtftS | Metric::GapS => "s",
        Metric::TokensPerS => "tokens/s",
        Metric::Cost => "per answer",
    }
}

fn ratio(readout: Option<&Readout>) -> Value {
    let told = readout.map(|readout| json!({"alarm": readout.ratio.alarm, "p_or_e": readout.ratio.p_value}));
    told.unwrap_or_else(|| json!({"alarm": false, "p_or_e": 1.0}))
}

fn reason(state: &State) -> Option<&str> {
    match state {
        State::Running => None,
        State::Paused { reason } | State::Promoted { reason, .. } | State::RolledBack { reason } => {
            Some(reason)
        }
    }
}

/// Why it divides nothing although it should.
fn problem(entry: &Entry, catalog: &Catalog) -> Option<String> {
    let definition = &entry.kept.experiment.definition;
    let own = catalog.split(&definition.route).is_some_and(|split| split.name() == definition.name);
    if own || !entry.kept.is_in_force() {
        return None;
    }
    let gone = || format!("the route {:?} is not there", definition.route);
    Some(entry.problem.clone().unwrap_or_else(gone))
}

/// What serves an arm; the route itself, where the experiment is not in force and the arm is as the route.
fn route(entry: &Entry, arm: usize, catalog: &Catalog) -> Option<Arc<Route>> {
    let definition = &entry.kept.experiment.definition;
    let split = catalog.split(&definition.route).filter(|split| split.name() == definition.name);
    match split {
        Some(split) => split.arms.get(arm).map(|arm| Arc::clone(&arm.route)),
        None => {
            catalog.routes.get(&definition.route).filter(|_| definition.arms[arm].is_plain()).map(Arc::clone)
        }
    }
}

fn gauges(entry: &Entry, catalog: &Catalog) -> ExperimentGauges {
    let experiment = &entry.kept.experiment;
    let counts = entry.book.counts();
    let arms = experiment.definition.arms.iter().zip(counts).enumerate();
    let arms = arms.map(|(ix, (arm, counts))| {
        let models =
            route(entry, ix, catalog).map_or_else(|| arm.models.clone(), |route| route.model_names.clone());
        ArmGauges {
            arm: arm.name.clone(),
            weight: f64::from(arm.weight_bp) / f64::from(WHOLE_BP),
            answers: counts.answers,
            errors: counts.errors,
            fallbacks: counts.fallbacks,
            tokens: models.into_iter().zip(counts.made).collect(),
            cost: counts.cost,
        }
    });
    let readout = read(experiment, &entry.book.tallies());
    ExperimentGauges {
        experiment: experiment.definition.name.clone(),
        state: match experiment.state {
            State::Running => 0,
            State::Paused { .. } => 1,
            State::Promoted { .. } => 2,
            State::RolledBack { .. } => 3,
        },
        ratio_alarm: readout.is_some_and(|readout| readout.ratio.alarm),
        arms: arms.collect(),
    }
}
