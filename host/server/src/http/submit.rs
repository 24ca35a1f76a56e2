//! From a prepared request to journeys in line, and to the report that will tell of them.

use tracing::Span;

use super::App;
use super::error::ApiError;
use super::parse::Dialect;
use super::prepare::Prepared;
use super::report::{Report, Told};
use super::traced::Within;
use crate::access::Caller;
use crate::experiments::{Assigned, Experiments, Facts};
use crate::runtime::{Ask, Bill, Choice, Route, SubmitError, Witness};
use crate::telemetry::Refusal;

/// Puts all answers that a request wants in line, or none.
pub(super) fn submit(
    app: &App,
    caller: &Caller,
    (dialect, within): (Dialect, Within),
    (prepared, bills): (Prepared, Vec<Bill>),
) -> Result<(Told, Report), ApiError> {
    let Prepared { model, selected, assigned, id, asks, shown, shape, calls, names } = prepared;
    let experiments = app.control.experiments();
    let seeds: Vec<u64> = asks.iter().flatten().map(|ask| ask.seed).collect();
    let traces = app.runtime.traces();
    let (mut bills, mut is_first) = (bills.into_iter(), true);
    let mut choice = |ask: Ask| {
        let bill = bills.next().unwrap_or_default();
        let witness = witness(experiments, assigned.as_ref(), facts(&ask, &selected.route), is_first);
        is_first = false;
        let witness = match traces.is_on() {
            true => {
                let told = within.begin(dialect, &dialect.answer_id(id), (&ask, &selected.route));
                witness.with_journal(traces.begin(told))
            }
            false => witness,
        };
        Choice { ask, bill, witness }
    };
    let choices = asks.into_iter().map(|asks| asks.into_iter().map(&mut choice).collect()).collect();
    let answers = app.runtime.submit_all(&selected, choices).map_err(|not_taken| {
        if matches!(not_taken.error, SubmitError::QueueFull { .. }) {
            app.runtime.metrics().refused(Refusal::Queue);
        }
        names.refusal(&not_taken)
    })?;
    if let Some(assigned) = &assigned {
        experiments.accepted(assigned, id, caller.lasting_number());
    }
    if let Some(answer) = answers.first() {
        let span = Span::current();
        span.record("model", &answer.route.name).record("journey", answer.id.0);
        if let Some(revision) = &answer.revision {
            span.record("revision", revision.digest().to_string());
        }
    }
    tracing::debug!(choices = answers.len(), seed = seeds.first(), "submitted");
    let report = Report::new(dialect, shape, (model, id), &answers)
        .with_prompts(&shown)
        .with_seeds(seeds.into_iter())
        .with_arm(assigned.as_ref())
        .with_calls(calls);
    Ok((Told::new(answers), report))
}

/// Who watches an answer. Of several to one request the first stands for its unit; the others are counted, and say nothing
/// more of the arm.
fn witness(experiments: &Experiments, assigned: Option<&Assigned>, facts: Facts, is_first: bool) -> Witness {
    match assigned {
        None => Witness::default(),
        Some(assigned) if is_first => experiments.watch(assigned, facts),
        Some(assigned) => {
            let more = Assigned { unit: None, shadows: Vec::new(), ..assigned.clone() };
            experiments.watch(&more, facts)
        }
    }
}

fn facts(ask: &Ask, route: &Route) -> Facts {
    let prompt = ask.prompt.len();
    Facts {
        tenant: ask.behalf.tenant.0,
        seed: ask.seed,
        prompt_tokens: prompt as u32,
        max_tokens: ask.tokens_max(route.context).saturating_sub(prompt) as u32,
    }
}
