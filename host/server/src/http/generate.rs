//! The two endpoints that make text.
//!
//! Both are one handler; [`Dialect`] holds what differs. The handler owns the [`Answer`]: if its client goes away,
//! hyper drops the handler's future or the body's stream, the answer is dropped with it, and the journey ends.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tracing::Span;

use super::App;
use super::body;
use super::error::ApiError;
use super::parse::Dialect;
use super::prepare::{Prepared, prepare};
use super::report::{Report, stream, whole};
use super::tenant::tenant;
use super::watch::not_ready;
use crate::runtime::Answer;

/// `POST /v1/chat/completions`
pub(super) async fn chat(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    generate(app, Dialect::Chat, headers, body).await
}

/// `POST /v1/completions`
pub(super) async fn text(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    generate(app, Dialect::Text, headers, body).await
}

async fn generate(app: App, dialect: Dialect, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    if app.shutdown.is_cancelled() {
        return Err(not_ready(&app));
    }
    let running = app.running.begin();
    let body = body::read(&headers, body, &app.settings).await?;
    let mut prepared = prepare_off_thread(&app, dialect, body).await?;
    prepared.ask.tenant = tenant(&headers);
    let (answer, report) = submit(&app, dialect, prepared)?;
    if report.shape().stream {
        return Ok(stream::response(answer, report, running, app.settings.ping_interval));
    }
    let whole = whole::collect(answer, report).await?;
    Ok(Json(whole).into_response())
}

/// Parsing and tokenising a large body takes long enough to hold up other connections.
async fn prepare_off_thread(app: &App, dialect: Dialect, body: Vec<u8>) -> Result<Prepared, ApiError> {
    let catalog = Arc::clone(app.runtime.catalog());
    if body.len() <= INLINE_BYTES_MAX {
        return prepare(&catalog, dialect, &body);
    }
    match tokio::task::spawn_blocking(move || prepare(&catalog, dialect, &body)).await {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::error!(%error, "preparing a request panicked; please report this");
            Err(ApiError::server("the server failed at this request; its log says more"))
        }
    }
}

fn submit(app: &App, dialect: Dialect, prepared: Prepared) -> Result<(Answer, Report), ApiError> {
    let Prepared { model, selected, ask, shape, names } = prepared;
    let (prompt_tokens, seed) = (ask.prompt.len(), ask.seed);
    let prompt_ids = shape.token_ids.then(|| ask.prompt.clone());
    let answer = app.runtime.submit(&selected, ask).map_err(|error| names.refusal(&error))?;
    let span = Span::current();
    span.record("model", &answer.route.name).record("journey", answer.id.0);
    if let Some(revision) = &answer.revision {
        span.record("revision", revision.digest().to_string());
    }
    tracing::debug!(prompt_tokens, seed, "submitted");
    let report =
        Report::new(dialect, shape, model, &answer).with_prompt(prompt_tokens, prompt_ids).with_seed(seed);
    Ok((answer, report))
}

/// Bodies up to here are prepared in well under a millisecond.
const INLINE_BYTES_MAX: usize = 16 << 10;
