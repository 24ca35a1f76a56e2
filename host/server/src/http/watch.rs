//! For those who watch over the server: alive, ready, metrics.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::App;
use super::error::{ApiError, Fault};
use crate::telemetry::experiments_page;
use crate::unix;

/// The process answers.
pub(super) async fn health() -> Response {
    axum::Json(json!({"status": "alive"})).into_response()
}

/// Every model and policy is loaded, and requests are accepted.
pub(super) async fn ready(State(app): State<App>) -> Response {
    if app.ready() {
        axum::Json(json!({"status": "ready"})).into_response()
    } else {
        not_ready(&app).into_response()
    }
}

/// Counters and gauges in Prometheus' text format.
pub(super) async fn metrics(State(app): State<App>) -> Response {
    let experiments = experiments_page(&app.control.experiments().gauges());
    let page = app.runtime.metrics_page() + &experiments;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page).into_response()
}

/// When models run: the plan in force, with the numbers that led to it.
pub(super) async fn scheduler(State(app): State<App>) -> Response {
    axum::Json(app.runtime.scheduling()).into_response()
}

/// Which policies decide, from which revision, and how they do.
pub(super) async fn policies(State(app): State<App>) -> Response {
    axum::Json(app.runtime.policies()).into_response()
}

/// Where the configuration comes from, and whether the file as it is now is in force.
pub(super) async fn config(State(app): State<App>) -> Response {
    let Some(watch) = app.control.watch() else {
        return axum::Json(json!({"file": null})).into_response();
    };
    let status = watch.status();
    let failed = status.failed.map(|(at, error)| json!({"at": unix::seconds(at), "error": error}));
    axum::Json(json!({
        "file": watch.path().display().to_string(),
        "reloads": status.reloads,
        "last": status.last.map(unix::seconds),
        "failed": failed,
    }))
    .into_response()
}

/// Why requests are not accepted now.
pub(super) fn not_ready(app: &App) -> ApiError {
    let why = if app.shutdown.is_cancelled() {
        "the server is shutting down"
    } else {
        "a model of this server has stopped; its log says why"
    };
    ApiError::general(Fault::Draining, why)
}
