//! The two endpoints that make text.
//!
//! Both are one handler; [`Dialect`] holds what differs. The handler owns the [`Answer`]: if its client goes away,
//! hyper drops the handler's future or the body's stream, the answer is dropped with it, and the journey ends.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tenant::Refused;
use tenant::quota::Quota;
use tracing::Span;

use super::App;
use super::access::tell_quotas;
use super::body;
use super::error::ApiError;
use super::parse::Dialect;
use super::prepare::{Prepared, prepare};
use super::report::{Report, stream, whole};
use super::traced::Within;
use super::watch::not_ready;
use crate::access::Caller;
use crate::experiments::{Assigned, Facts};
use crate::runtime::{Answer, Ask, Bill, Route, SubmitError};
use crate::telemetry::Refusal;

/// `POST /v1/chat/completions`
pub(super) async fn chat(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answer(&app, &caller, Dialect::Chat, (headers, body)).await
}

/// `POST /v1/completions`
pub(super) async fn text(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answer(&app, &caller, Dialect::Text, (headers, body)).await
}

/// The answer or its refusal, with what is left of the caller's quotas.
async fn answer(app: &App, caller: &Caller, dialect: Dialect, request: (HeaderMap, Body)) -> Response {
    let mut response = generate(app, caller, dialect, request).await.into_response();
    tell_quotas(caller, response.headers_mut());
    response
}

async fn generate(
    app: &App,
    caller: &Caller,
    dialect: Dialect,
    (headers, body): (HeaderMap, Body),
) -> Result<Response, ApiError> {
    if app.shutdown.is_cancelled() {
        return Err(not_ready(app));
    }
    let running = app.running.begin();
    let within = Within::of(&headers);
    let body = body::read(app, &headers, body).await?;
    let prepared = prepare_off_thread(app, caller, dialect, (headers, body)).await?;
    let reserved = caller.reserve(&prepared.ask, &prepared.selected.route);
    let bill = reserved.map_err(|refused| {
        app.runtime.metrics().refused(refusal(&refused));
        ApiError::over_quota(&refused)
    })?;
    let arm = prepared.assigned.as_ref().map(arm_header);
    let (answer, report) = submit(app, caller, (dialect, within), (prepared, bill))?;
    let mut response = if report.shape().stream {
        stream::response(answer, report, running, app.settings.ping_interval)
    } else {
        whole::collect(answer, report).await.map(Json).into_response()
    };
    if let Some(arm) = arm {
        response.headers_mut().insert(ARM, arm);
    }
    Ok(response)
}

fn arm_header(assigned: &Assigned) -> HeaderValue {
    let arm = format!("{}/{}", assigned.split.name(), assigned.arm_name());
    HeaderValue::from_str(&arm).expect("names of experiments and arms are letters, digits, - _ and .")
}

/// Parsing and tokenising a large body takes long enough to hold up other connections.
async fn prepare_off_thread(
    app: &App,
    caller: &Caller,
    dialect: Dialect,
    (headers, body): (HeaderMap, Vec<u8>),
) -> Result<Prepared, ApiError> {
    let catalog = app.runtime.catalog();
    if body.len() <= INLINE_BYTES_MAX {
        return prepare(&catalog, caller, dialect, (&headers, &body));
    }
    let caller = caller.clone();
    match tokio::task::spawn_blocking(move || prepare(&catalog, &caller, dialect, (&headers, &body))).await {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::error!(%error, "preparing a request panicked; please report this");
            Err(ApiError::server("the server failed at this request; its log says more"))
        }
    }
}

fn submit(
    app: &App,
    caller: &Caller,
    (dialect, within): (Dialect, Within),
    (prepared, bill): (Prepared, Bill),
) -> Result<(Answer, Report), ApiError> {
    let Prepared { model, selected, assigned, id, ask, shape, names } = prepared;
    let experiments = app.control.experiments();
    let witness = assigned
        .as_ref()
        .map(|assigned| experiments.watch(assigned, facts(&ask, &selected.route)))
        .unwrap_or_default();
    let traces = app.runtime.traces();
    let witness = match traces.is_on() {
        true => {
            let told = within.begin(dialect, &dialect.answer_id(id), (&ask, &selected.route));
            witness.with_journal(traces.begin(told))
        }
        false => witness,
    };
    let (prompt_tokens, seed) = (ask.prompt.len(), ask.seed);
    let prompt_ids = shape.token_ids.then(|| ask.prompt.clone());
    let answer = app.runtime.submit_for(&selected, ask, (bill, witness)).map_err(|error| {
        if matches!(error, SubmitError::QueueFull { .. }) {
            app.runtime.metrics().refused(Refusal::Queue);
        }
        names.refusal(&error)
    })?;
    if let Some(assigned) = &assigned {
        experiments.accepted(assigned, id, caller.lasting_number());
    }
    let span = Span::current();
    span.record("model", &answer.route.name).record("journey", answer.id.0);
    if let Some(revision) = &answer.revision {
        span.record("revision", revision.digest().to_string());
    }
    tracing::debug!(prompt_tokens, seed, "submitted");
    let report = Report::new(dialect, shape, (model, id), &answer)
        .with_prompt(prompt_tokens, prompt_ids)
        .with_seed(seed)
        .with_arm(assigned.as_ref());
    Ok((answer, report))
}

/// The quota that was in the way, as it is counted.
fn refusal(refused: &Refused) -> Refusal {
    match *refused {
        Refused::Exceeded { quota: Quota::Requests, .. } => Refusal::Requests,
        Refused::Exceeded { quota: Quota::Tokens, .. } => Refusal::Tokens,
        Refused::Exceeded { quota: Quota::Journeys, .. } => Refusal::Journeys,
        _ => Refusal::Beyond,
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

/// Which arm of which experiment served an answer.
const ARM: HeaderName = HeaderName::from_static("x-tokenrouter-arm");
/// Bodies up to here are prepared in well under a millisecond.
const INLINE_BYTES_MAX: usize = 16 << 10;
