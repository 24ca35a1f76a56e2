//! What was measured, as numbers, as a table, and in a few sentences.

use std::fmt;

use serde::Serialize;

use super::Plan;
use super::ask::Answers;
use super::queries::{self, Whole};
use super::sweep::SHARE_MAX;
use crate::bench::plot::Plot;
use crate::terminal::{Align, Table};

/// A model alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Share of problems solved.
    pub accuracy: f64,
    /// Tokens of all answers per second of wall time.
    pub tokens_per_s: f64,
}

impl Baseline {
    pub(super) fn of(answers: &Answers) -> Self {
        Self { accuracy: answers.accuracy(), tokens_per_s: answers.tokens_per_s() }
    }
}

/// One point of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Who decided.
    pub policy: &'static str,
    /// Its knob, for people.
    pub knob: String,
    /// Where the knob stood.
    pub value: f64,
    /// Share of tokens made by the large model.
    pub large_share: f64,
    /// Share of problems solved.
    pub accuracy: f64,
    /// Tokens that reached clients per second of wall time.
    pub tokens_per_s: f64,
    /// Whether it ran; otherwise it was computed from the two models alone, the speed included.
    pub measured: bool,
}

/// The best point that hardly uses the large model, against what else reaches it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    /// The point.
    pub best: Best,
    /// Accuracy with the same share of tokens, drawn at random.
    pub random_accuracy: Option<f64>,
    /// What whole requests need for the same accuracy, by the small model's confidence.
    pub query_confidence: Option<QueryNeed>,
    /// The same by an oracle.
    pub query_oracle: Option<QueryNeed>,
}

/// A point of a token-level policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// Who decided.
    pub policy: &'static str,
    /// Its knob.
    pub knob: String,
    /// Share of tokens made by the large model.
    pub large_share: f64,
    /// Share of problems solved.
    pub accuracy: f64,
    /// Accuracy over that of the large model alone.
    pub of_large: f64,
}

/// What query-level routing needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueryNeed {
    /// Share of tokens made by the large model.
    pub large_share: f64,
    /// That share over the best point's.
    pub ratio: f64,
}

/// Everything measured in one run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How many problems were asked.
    pub problems: usize,
    /// Which.
    pub seed: u64,
    /// Requests under way at once.
    pub concurrency: usize,
    /// Names of the small and the large model.
    pub models: [String; 2],
    /// The small model alone.
    pub small: Baseline,
    /// The large model alone.
    pub large: Baseline,
    /// All other points.
    pub rows: Vec<Row>,
    /// None if no point stays below the share that makes a best one.
    pub headline: Option<Headline>,
}

impl Report {
    pub(super) fn new(plan: &Plan, models: [String; 2], small: Baseline, large: Baseline) -> Self {
        let (problems, seed, concurrency) = (plan.questions.len(), plan.seed, plan.concurrency);
        Self { problems, seed, concurrency, models, small, large, rows: Vec::new(), headline: None }
    }

    /// The most accurate point of a signal with a small share; of equals the one with the smallest. To be more accurate
    /// than the large model is luck, so it counts as equal.
    pub(super) fn best(&self) -> Option<usize> {
        let small = |row: &Row| matches!(row.policy, "entropy" | "margin") && row.large_share <= SHARE_MAX;
        let points = self.rows.iter().enumerate().filter(|(_, row)| small(row));
        let counted = |row: &Row| row.accuracy.min(self.large.accuracy);
        let better = |a: &Row, b: &Row| {
            counted(a).total_cmp(&counted(b)).then_with(|| b.large_share.total_cmp(&a.large_share))
        };
        points.max_by(|(_, a), (_, b)| better(a, b)).map(|(ix, _)| ix)
    }

    /// Points of one policy.
    pub fn of<'a>(&'a self, policy: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.policy == policy)
    }

    /// The numbers, for programs. Shares and accuracies are fractions of 1.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "problems": self.problems,
            "seed": self.seed,
            "concurrency": self.concurrency,
            "models": { "small": self.models[0], "large": self.models[1] },
            "baselines": { "small": self.small, "large": self.large },
            "rows": self.rows,
            "headline": self.headline,
        })
    }

    /// The curves as a picture.
    #[must_use]
    pub fn plot(&self) -> Plot {
        super::picture::plot(self)
    }

    /// The numbers, for people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right]);
        table.row([&"policy", &"knob", &"from large", &"accuracy", &"tokens/s"]);
        let [small, large] = &self.models;
        for (model, share, baseline) in [(small, 0.0, self.small), (large, 1.0, self.large)] {
            let speed = format!("{:.0}", baseline.tokens_per_s);
            table.row([&model, &"alone", &percent(share), &percent(baseline.accuracy), &speed]);
        }
        for row in &self.rows {
            let sign = if row.measured { "" } else { "~" };
            let speed = format!("{sign}{:.0}", row.tokens_per_s);
            table.row([&row.policy, &row.knob, &percent(row.large_share), &percent(row.accuracy), &speed]);
        }
        table
    }
}

impl Headline {
    /// Sets a point of `report` against random tokens and whole requests.
    pub(super) fn of(report: &Report, best: usize, small: &[Whole], large: &[Whole]) -> Self {
        let row = &report.rows[best];
        let (confidence, oracle) = queries::shares_needed(row.accuracy, small, large);
        let need = |share: f64| QueryNeed { large_share: share, ratio: share / row.large_share };
        let distance = |random: &&Row| (random.large_share - row.large_share).abs();
        let random = report.of("random-share").min_by(|a, b| distance(a).total_cmp(&distance(b)));
        Self {
            best: Best {
                policy: row.policy,
                knob: row.knob.clone(),
                large_share: row.large_share,
                accuracy: row.accuracy,
                of_large: row.accuracy / report.large.accuracy,
            },
            random_accuracy: random.map(|random| random.accuracy),
            query_confidence: confidence.map(need),
            query_oracle: oracle.map(need),
        }
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Best { policy, knob, large_share, accuracy, of_large } = &self.best;
        let (share, accuracy, of_large) = (percent(*large_share), percent(*accuracy), percent(*of_large));
        writeln!(
            f,
            "{policy} ({knob}): {share} of the tokens from large, {accuracy} solved = {of_large} of large alone"
        )?;
        if let Some(random) = self.random_accuracy {
            writeln!(f, "random tokens, the same share: {} solved", percent(random))?;
        }
        for (who, need) in [("confidence", self.query_confidence), ("an oracle", self.query_oracle)] {
            match need {
                Some(QueryNeed { large_share, ratio }) => {
                    let share = percent(large_share);
                    writeln!(
                        f,
                        "whole requests by {who}: {share} of the tokens for the same accuracy, {ratio:.1} times as many"
                    )?;
                }
                None => writeln!(f, "whole requests by {who}: never the same accuracy")?,
            }
        }
        Ok(())
    }
}

pub(super) fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &'static str, large_share: f64, accuracy: f64) -> Row {
        let (knob, value, tokens_per_s, measured) = (String::new(), 0.0, 1.0, true);
        Row { policy, knob, value, large_share, accuracy, tokens_per_s, measured }
    }

    fn report(rows: Vec<Row>) -> Report {
        let baseline = |accuracy| Baseline { accuracy, tokens_per_s: 1.0 };
        let models = ["small".to_owned(), "large".to_owned()];
        let (small, large) = (baseline(0.5), baseline(1.0));
        Report { problems: 2, seed: 1, concurrency: 1, models, small, large, rows, headline: None }
    }

    #[test]
    fn the_best_point_is_accurate_first_and_cheap_second() {
        let rows = vec![
            row("entropy", 0.05, 0.90),
            row("margin", 0.08, 0.97),
            row("margin", 0.06, 0.97),
            row("entropy", 0.30, 0.99),
            row("random-share", 0.05, 0.98),
        ];
        assert_eq!(report(rows).best(), Some(2));
        assert_eq!(report(vec![row("entropy", 0.2, 1.0)]).best(), None);
    }

    #[test]
    fn luck_beyond_the_large_model_is_not_worth_tokens() {
        let mut report =
            report(vec![row("entropy", 0.05, 0.9), row("entropy", 0.08, 0.91), row("margin", 0.04, 0.89)]);
        report.large.accuracy = 0.9;
        assert_eq!(report.best(), Some(0));
    }

    #[test]
    fn random_is_compared_at_the_nearest_share() {
        let rows =
            vec![row("entropy", 0.05, 0.9), row("random-share", 0.5, 0.7), row("random-share", 0.06, 0.5)];
        let headline = Headline::of(&report(rows), 0, &[], &[]);
        assert_eq!(headline.random_accuracy, Some(0.5));
        assert!((headline.best.of_large - 0.9).abs() < 1e-12);
    }
}
