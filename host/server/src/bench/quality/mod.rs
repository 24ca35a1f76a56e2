//! What routing is worth: accuracy against the share of tokens that the large model makes.
//!
//! Held-out word problems, or the questions of a file, are answered by each model alone, by each token-level policy over
//! a sweep of its knob, and, computed from the two single-model runs, by handing whole requests to the large model.
//! Reading order: `questions` → `ask` (them through the runtime) → `sweep` (which knobs) → `queries` (whole requests) →
//! `report` (table, JSON, headline) → `picture`. Beside it `each`: every route of a configuration as it is set.

mod ask;
mod each;
mod picture;
mod queries;
mod questions;
mod report;
mod sweep;

pub use ask::BenchError;
pub use each::{Each, Reached, each};
pub use questions::{Question, QuestionsError, Written, generated, read_questions};
pub use report::{Baseline, Best, Headline, QueryNeed, Report, Row};

use ask::{Answers, Asker};

use crate::runtime::Runtime;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is asked.
    pub questions: Vec<Question>,
    /// Which problems were generated; also the key of the random policy's draws.
    pub seed: u64,
    /// Requests under way at once.
    pub concurrency: usize,
    /// Routes `PREFIX/entropy`, `PREFIX/margin` and `PREFIX/random` are measured.
    pub prefix: String,
    /// Fewer points of each curve.
    pub quick: bool,
}

impl Plan {
    /// How many answers the whole run takes.
    #[must_use]
    pub fn answers(&self) -> u64 {
        (self.questions.len() * (BASELINES + sweep::points(self.quick))) as u64
    }
}

/// Told of every answer, with what is being measured.
pub trait Progress {
    /// The measurement that begins.
    fn begin(&mut self, name: &str);
    /// One more answer.
    fn answered(&mut self);
}

/// Runs everything.
///
/// # Errors
/// [`BenchError`]: a route is missing, or a request failed.
pub async fn run(runtime: &Runtime, plan: &Plan, progress: &mut dyn Progress) -> Result<Report, BenchError> {
    let models = ask::pair(runtime, &plan.prefix)?;
    let mut asker = Asker::new(runtime, plan, progress);
    let small = asker.ask(&models[0]).await?;
    let large = asker.ask(&models[1]).await?;
    let mut report = Report::new(plan, models, Baseline::of(&small), Baseline::of(&large));
    sweep::signals(&mut asker, plan, &mut report).await?;
    sweep::random(&mut asker, plan, &mut report).await?;
    let (small, large) = (whole(&small), whole(&large));
    report.rows.extend(queries::rows(&small, &large, (report.small.tokens_per_s, report.large.tokens_per_s)));
    report.headline = report.best().map(|best| Headline::of(&report, best, &small, &large));
    Ok(report)
}

fn whole(answers: &Answers) -> Vec<queries::Whole> {
    answers.each.iter().map(queries::Whole::of).collect()
}

/// How a bar shows the run.
pub const PROGRESS: &str = "measuring  {bar:32} {percent:>3} %  {eta:>4} left  {msg}";

/// The small and the large model alone.
const BASELINES: usize = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;

    #[derive(Default)]
    struct Counted {
        begun: Vec<String>,
        answers: u64,
    }

    impl Progress for Counted {
        fn begin(&mut self, name: &str) {
            self.begun.push(name.to_owned());
        }

        fn answered(&mut self) {
            self.answers += 1;
        }
    }

    fn plan(prefix: &str) -> Plan {
        Plan { questions: generated(1, 24), seed: 1, concurrency: 8, prefix: prefix.to_owned(), quick: true }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_small_run_has_the_shape_of_a_large_one() {
        let runtime = Runtime::start(&Config::embedded(), &mut ()).unwrap();
        let mut counted = Counted::default();
        let report = run(&runtime, &plan("pair"), &mut counted).await.unwrap();
        runtime.shut_down(Duration::ZERO).await;
        assert_eq!(counted.answers, plan("pair").answers());
        assert_eq!(counted.begun[..2], ["small", "large"]);
        assert!(report.small.accuracy < report.large.accuracy, "{report:?}");

        let json = report.json();
        for baseline in ["small", "large"] {
            assert!(json["baselines"][baseline]["tokens_per_s"].as_f64().unwrap() > 0.0, "{json}");
        }
        let rows = json["rows"].as_array().unwrap();
        for row in rows {
            for fraction in ["large_share", "accuracy"] {
                assert!((0.0..=1.0).contains(&row[fraction].as_f64().unwrap()), "{row}");
            }
            assert!(row["tokens_per_s"].as_f64().unwrap() > 0.0 && row["knob"].is_string(), "{row}");
        }
        for policy in ["entropy", "margin", "random-share", "query-confidence", "query-oracle"] {
            assert!(rows.iter().any(|row| row["policy"] == policy), "{policy} is missing in {json}");
        }

        // Thresholds fall from row to row.
        let shares: Vec<f64> = report.of("entropy").map(|row| row.large_share).collect();
        assert!(shares.is_sorted() && shares.first() < shares.last(), "{shares:?}");
        let random = report.of("random-share").find(|row| row.knob == "share=0.5").unwrap();
        assert!((random.large_share - 0.5).abs() < 0.05, "{random:?}");
        assert!(report.plot().to_svg().contains("tokens by entropy"));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_missing_route_is_named() {
        let runtime = Runtime::start(&Config::embedded(), &mut ()).unwrap();
        let error = run(&runtime, &plan("trio"), &mut Counted::default()).await.unwrap_err();
        runtime.shut_down(Duration::ZERO).await;
        assert!(error.to_string().contains("\"trio/entropy\""), "{error}");
    }
}
