//! What the arms of experiments do, as counters and gauges. Labels are names of experiments, arms and models.

use super::page::{Family, Page};

/// One experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentGauges {
    /// Its name.
    pub experiment: String,
    /// 0 running, 1 paused, 2 promoted, 3 rolled back.
    pub state: u8,
    /// Whether arms get other keys than their weights say.
    pub ratio_alarm: bool,
    /// Its arms, the control first.
    pub arms: Vec<ArmGauges>,
}

/// One arm, since the process began.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmGauges {
    /// Its name.
    pub arm: String,
    /// Part of the keys, from 0 to 1.
    pub weight: f64,
    /// Answers that have ended.
    pub answers: u64,
    /// Those that failed.
    pub errors: u64,
    /// Those that went on without their policy.
    pub fallbacks: u64,
    /// Tokens made, by model.
    pub tokens: Vec<(String, u64)>,
    /// Their price.
    pub cost: f64,
}

/// The experiments in Prometheus' text format; nothing where there are none.
#[must_use]
pub fn experiments_page(experiments: &[ExperimentGauges]) -> String {
    let mut page = Page::default();
    if experiments.is_empty() {
        return page.text();
    }
    page.head(&STATE);
    for of in experiments {
        page.value(&STATE, &format!("{{experiment={:?}}}", of.experiment), of.state);
    }
    page.head(&RATIO_ALARM);
    for of in experiments {
        page.value(&RATIO_ALARM, &format!("{{experiment={:?}}}", of.experiment), u8::from(of.ratio_alarm));
    }
    per_arm(&mut page, &WEIGHT, experiments, |arm| arm.weight);
    per_arm(&mut page, &ANSWERS, experiments, |arm| arm.answers as f64);
    per_arm(&mut page, &ERRORS, experiments, |arm| arm.errors as f64);
    per_arm(&mut page, &FALLBACKS, experiments, |arm| arm.fallbacks as f64);
    per_arm(&mut page, &COST, experiments, |arm| arm.cost);
    page.head(&TOKENS);
    for (of, arm) in arms(experiments) {
        for (model, tokens) in &arm.tokens {
            page.value(&TOKENS, &labels(of, arm, &format!(",model={model:?}")), tokens);
        }
    }
    page.text()
}

fn per_arm(
    page: &mut Page,
    family: &Family,
    experiments: &[ExperimentGauges],
    read: impl Fn(&ArmGauges) -> f64,
) {
    page.head(family);
    for (of, arm) in arms(experiments) {
        page.value(family, &labels(of, arm, ""), read(arm));
    }
}

fn arms(experiments: &[ExperimentGauges]) -> impl Iterator<Item = (&ExperimentGauges, &ArmGauges)> {
    experiments.iter().flat_map(|of| of.arms.iter().map(move |arm| (of, arm)))
}

fn labels(of: &ExperimentGauges, arm: &ArmGauges, more: &str) -> String {
    format!("{{experiment={:?},arm={:?}{more}}}", of.experiment, arm.arm)
}

const STATE: Family =
    Family::gauge("experiment_state", "0 while it runs, 1 paused, 2 with an arm promoted, 3 rolled back.");
const RATIO_ALARM: Family = Family::gauge(
    "experiment_sample_ratio_alarm",
    "1 where arms get other keys than their weights say, so that nothing may be concluded.",
);
const WEIGHT: Family =
    Family::gauge("experiment_arm_weight", "Part of the keys that the arm gets, from 0 to 1.");
const ANSWERS: Family = Family::counter("experiment_answers_total", "Answers of the arm that have ended.");
const ERRORS: Family = Family::counter("experiment_errors_total", "Answers of the arm that failed.");
const FALLBACKS: Family =
    Family::counter("experiment_fallbacks_total", "Answers of the arm that went on without their policy.");
const COST: Family = Family::counter("experiment_cost_total", "Price of the tokens that the arm made.");
const TOKENS: Family = Family::counter("experiment_tokens_total", "Tokens that the arm made, by model.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_has_a_line_in_every_family() {
        let arm = |name: &str, weight| ArmGauges {
            arm: name.to_owned(),
            weight,
            answers: 3,
            errors: 0,
            fallbacks: 1,
            tokens: vec![("small".to_owned(), 7)],
            cost: 0.5,
        };
        let arms = vec![arm("control", 0.9), arm("new", 0.1)];
        let page = experiments_page(&[ExperimentGauges {
            experiment: "one".to_owned(),
            state: 0,
            ratio_alarm: false,
            arms,
        }]);
        assert!(
            page.contains("tokenrouter_experiment_arm_weight{experiment=\"one\",arm=\"new\"} 0.1\n"),
            "{page}"
        );
        assert!(page.contains(
            "tokenrouter_experiment_tokens_total{experiment=\"one\",arm=\"control\",model=\"small\"} 7\n"
        ));
        assert_eq!(experiments_page(&[]), "");
    }
}
