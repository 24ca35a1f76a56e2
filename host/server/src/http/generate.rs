//! The two endpoints that make text.
//!
//! Both are one handler; [`Dialect`] holds what differs. The handler owns the [`Answer`](crate::runtime::Answer)s:
//! if its client goes away, hyper drops the handler's future or the body's stream, the answers are dropped with it, and
//! their journeys end.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use tenant::Refused;
use tenant::quota::Quota;

use super::App;
use super::access::tell_quotas;
use super::body;
use super::constrain::may_constrain;
use super::error::ApiError;
use super::off_thread::off_thread;
use super::parse::Dialect;
use super::prepare::prepare;
use super::report::{stream, whole};
use super::submit::submit;
use super::traced::Within;
use super::watch::not_ready;
use crate::access::Caller;
use crate::experiments::Assigned;
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
    let (catalog, who) = (app.runtime.catalog(), caller.clone());
    // Making a grammar takes long enough, too.
    let work = if may_constrain(&body) { usize::MAX } else { body.len() };
    let prepared = off_thread(work, move || prepare(&catalog, &who, dialect, (&headers, &body))).await?;
    let reserved = caller.reserve(&prepared.asks, &prepared.selected.route);
    let bills = reserved.map_err(|refused| {
        app.runtime.metrics().refused(refusal(&refused));
        ApiError::over_quota(&refused)
    })?;
    let arm = prepared.assigned.as_ref().map(arm_header);
    let (told, report) = submit(app, caller, (dialect, within), (prepared, bills))?;
    let mut response = if report.shape().stream {
        stream::response(told, report, running, app.settings.ping_interval)
    } else {
        whole::collect(told, report).await.map(Json).into_response()
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

/// The quota that was in the way, as it is counted.
fn refusal(refused: &Refused) -> Refusal {
    match *refused {
        Refused::Exceeded { quota: Quota::Requests, .. } => Refusal::Requests,
        Refused::Exceeded { quota: Quota::Tokens, .. } => Refusal::Tokens,
        Refused::Exceeded { quota: Quota::Journeys, .. } => Refusal::Journeys,
        _ => Refusal::Beyond,
    }
}

/// Which arm of which experiment served an answer.
const ARM: HeaderName = HeaderName::from_static("x-tokenrouter-arm");
