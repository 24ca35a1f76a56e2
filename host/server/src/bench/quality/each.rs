//! Every route of a configuration as it is set, beside each model alone: the table of what the policies reach.

use serde::Serialize;

use super::ask::{Answers, Asker, BenchError};
use super::{Plan, Progress};
use crate::runtime::Runtime;
use crate::terminal::{Align, Table};

/// What one model or route reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// Its name.
    pub name: String,
    /// The policy; none for a model.
    pub policy: Option<String>,
    /// Share of the answers' tokens that the large model made.
    pub large_share: f64,
    /// Share of problems solved.
    pub accuracy: f64,
    /// All tokens of answers, over the wall time.
    pub tokens_per_s: f64,
}

/// One row for each model and each route that could be measured.
#[derive(Debug)]
pub struct Each {
    rows: Vec<Reached>,
    problems: usize,
    /// Why the others could not: what was measured before and after is not lost.
    pub failed: Vec<BenchError>,
}

/// Asks all problems of every model and every route. `large` is the model whose share of tokens is told.
///
/// # Errors
/// [`BenchError::NoModel`].
pub async fn each(
    runtime: &Runtime,
    plan: &Plan,
    large: &str,
    progress: &mut dyn Progress,
) -> Result<Each, BenchError> {
    let catalog = runtime.catalog();
    if catalog.model(large).is_none() {
        return Err(BenchError::NoModel { model: large.to_owned() });
    }
    let mut asker = Asker::new(runtime, plan, progress);
    let (mut rows, mut failed) = (Vec::with_capacity(catalog.routes.len()), Vec::new());
    for (name, route) in &catalog.routes {
        let answers = match asker.ask(name).await {
            Ok(answers) => answers,
            Err(error) => {
                failed.push(error);
                continue;
            }
        };
        let policy = route.policy_revision().map(|revision| revision.descriptor().name.clone());
        let role = route.model_names.iter().position(|model| model == large);
        rows.push(Reached {
            name: name.clone(),
            policy,
            large_share: share(&answers, role),
            accuracy: answers.accuracy(),
            tokens_per_s: answers.tokens_per_s(),
        });
    }
    // Models first.
    rows.sort_by_key(|row| row.policy.is_some());
    Ok(Each { rows, problems: plan.questions.len(), failed })
}

/// Answers tell the entry model's tokens from all others'.
fn share(answers: &Answers, role: Option<usize>) -> f64 {
    match role {
        None => 0.0,
        Some(0) => 1.0 - answers.large_share(),
        Some(_) => answers.large_share(),
    }
}

impl Each {
    /// For programs. Shares and accuracies are fractions of 1.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({ "problems": self.problems, "rows": self.rows })
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[Align::Left, Align::Left, Align::Right, Align::Right, Align::Right]);
        table.row([&"route", &"policy", &"large", &"solved", &"tokens/s"]);
        for Reached { name, policy, large_share, accuracy, tokens_per_s } in &self.rows {
            let policy = policy.as_deref().unwrap_or("-");
            table.row([
                name,
                &policy,
                &format_args!("{:.1} %", 100.0 * large_share),
                &format_args!("{:.1} %", 100.0 * accuracy),
                &format_args!("{tokens_per_s:.0}"),
            ]);
        }
        table
    }
}
