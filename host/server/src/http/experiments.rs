//! `/admin/experiments`: for operators.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{self, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use experiment::{Action, Definition};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::{ApiError, Fault};
use super::{App, body};
use crate::access::Caller;
use crate::config::PolicySource;
use crate::control::{Control, ControlError};
use crate::experiments::ExperimentError;

/// `GET /admin/experiments`
pub(super) async fn list(State(app): State<App>) -> Response {
    Json(app.control.experiments().list()).into_response()
}

/// `GET /admin/experiments/{name}`
pub(super) async fn show(
    State(app): State<App>,
    extract::Path(name): extract::Path<String>,
) -> Result<Response, ApiError> {
    Ok(Json(app.control.experiments().show(&name)?).into_response())
}

/// `PUT /admin/experiments/{name}`: 201 for a new one, 200 for one that is there in the same words.
pub(super) async fn put(
    State(app): State<App>,
    extract::Path(name): extract::Path<String>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut definition: Definition = read(&app, &headers, body).await?;
    if !definition.name.is_empty() && definition.name != name {
        return Err(ApiError::field(
            Fault::Value,
            "name",
            "\"name\" is not the one in the path; leave it out",
        ));
    }
    definition.name.clone_from(&name);
    if let Some(arm) = definition
        .arms
        .iter()
        .chain(&definition.shadows)
        .find(|arm| arm.policy.as_deref().is_some_and(is_file))
    {
        let param = format!("arms.{}.policy", arm.name);
        let message = format!(
            "{param:?} must be \"builtin:NAME\" or \"oci://...@sha256:DIGEST\"; files are named in the configuration file only"
        );
        return Err(ApiError::field(Fault::Value, param, message));
    }
    let who = caller.who();
    let (of, control) = (definition.clone(), Arc::clone(&app.control));
    let pulling = tokio::task::spawn_blocking(move || control.pull_arms(&of));
    let held = pulling.await.unwrap_or(Err(ControlError::Panicked.into()))?;
    let is_new = app
        .control
        .alone(move |control: &Control| {
            let _held = held;
            control.experiments().create(control, definition, &who)
        })
        .await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(app.control.experiments().show(&name)?)).into_response())
}

/// `DELETE /admin/experiments/{name}`
pub(super) async fn delete(
    State(app): State<App>,
    extract::Path(name): extract::Path<String>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ApiError> {
    let (of, who) = (name.clone(), caller.who());
    app.control.alone(move |control: &Control| control.experiments().delete(control, &of, &who)).await?;
    Ok(Json(serde_json::json!({"name": name, "deleted": true})).into_response())
}

/// `POST /admin/experiments/{name}/{action}`
pub(super) async fn act(
    State(app): State<App>,
    extract::Path((name, action)): extract::Path<(String, String)>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let action = match action.as_str() {
        "weights" => {
            let Weights { weights_bp } = read(&app, &headers, body).await?;
            Action::SetWeights { weights_bp }
        }
        "pause" => {
            let Reason { reason } = read(&app, &headers, body).await?;
            Action::Pause { reason }
        }
        "resume" => {
            let Nothing {} = read(&app, &headers, body).await?;
            Action::Resume
        }
        "promote" => {
            let Promote { arm, reason } = read(&app, &headers, body).await?;
            Action::Promote { arm, reason }
        }
        "rollback" => {
            let Reason { reason } = read(&app, &headers, body).await?;
            Action::RollBack { reason }
        }
        other => {
            body::refuse(&headers, body).await;
            return Err(ApiError::unknown_url("POST", &format!("/admin/experiments/{name}/{other}")));
        }
    };
    let (of, who) = (name.clone(), caller.who());
    let done =
        app.control.alone(move |control: &Control| control.experiments().act(control, &of, (&action, &who)));
    done.await?;
    Ok(Json(app.control.experiments().show(&name)?).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Weights {
    weights_bp: BTreeMap<String, u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Promote {
    arm: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// A body of this form; serde says what is wrong with another.
async fn read<T: DeserializeOwned>(app: &App, headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    let body = body::read(app, headers, body).await?;
    serde_json::from_slice(&body).map_err(|error| {
        let fault = if error.is_data() { Fault::Value } else { Fault::Json };
        ApiError::general(fault, format!("the body cannot be read: {error}"))
    })
}

fn is_file(policy: &str) -> bool {
    matches!(PolicySource::parse(policy, Path::new("")), Ok(PolicySource::File(_)))
}

impl From<ExperimentError> for ApiError {
    fn from(error: ExperimentError) -> Self {
        let message = match &error {
            // Which weights, says the cause.
            ExperimentError::Action(action @ experiment::lifecycle::ActionError::Weights(_, why)) => {
                format!("{action}: {why}")
            }
            other => other.to_string(),
        };
        use experiment::DefinitionError;
        use experiment::lifecycle::ActionError;
        match error {
            ExperimentError::Definition(DefinitionError::Value { key, .. }) => {
                Self::field(Fault::Value, key, message)
            }
            ExperimentError::Definition(_) => Self::field(Fault::Value, "arms", message),
            ExperimentError::Split(split) => Self::field(Fault::Value, split.key, message),
            ExperimentError::Action(ActionError::NoSuchArm(..)) => Self::field(Fault::Value, "arm", message),
            ExperimentError::Action(ActionError::Weights(..)) => {
                Self::field(Fault::Value, "weights_bp", message)
            }
            ExperimentError::Unknown(_) => Self::general(Fault::Absent, message),
            ExperimentError::Control(ControlError::NoDataDir) => Self::general(Fault::NoDataDir, message),
            ExperimentError::Control(_) | ExperimentError::Store(_) => {
                tracing::error!(%error, "an experiment cannot be changed");
                Self::server("the server failed at this change; its log says more")
            }
            _ => Self::general(Fault::Conflict, message),
        }
    }
}
