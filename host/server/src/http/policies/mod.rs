//! Tenants' own policies over HTTP: upload, look at, activate, roll back, delete.
//!
//! A tenant names its own; whoever runs the server names another's with `?tenant=NAME`. What is another's is answered as
//! what does not exist. The rules are in [`crate::control::policies`].

mod parts;
mod refused;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) use refused::refused;

use super::error::{ApiError, Fault};
use super::watch::not_ready;
use super::{App, Served, body};
use crate::access::Caller;
use crate::config::{COMPONENT_BYTES_MAX, OWN};
use crate::control::ControlError;
use crate::control::policies::{Name, PoliciesError, Policy, Upload};

/// `/v1/policies` and what is below it.
pub(super) fn routes() -> [Served; 4] {
    // The bound in force is held part by part; this one is for what comes between them.
    let most = COMPONENT_BYTES_MAX + parts::BESIDE_BYTES_MAX;
    let upload = put(upload).layer(DefaultBodyLimit::max(most));
    [
        ("/v1/policies", get(list)),
        ("/v1/policies/{name}", upload.get(show).delete(delete)),
        ("/v1/policies/{name}/activate", post(activate)),
        ("/v1/policies/{name}/rollback", post(roll_back)),
    ]
}

/// What may stand behind `?`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Whose, for those who run the server; `*` is everybody's.
    tenant: Option<String>,
    /// Whether an upload serves at once. Default true.
    activate: Option<bool>,
}

type Queried = Result<Query<Options>, QueryRejection>;
type Named = Result<Path<String>, PathRejection>;

/// `GET /v1/policies`
async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    options: Queried,
) -> Result<Json<Value>, ApiError> {
    let Query(options) = options.map_err(|error| bad_query(&error))?;
    let everybody = options.tenant.as_deref() == Some("*") && caller.is_operator();
    let owner = if everybody { None } else { Some(acting(&app, &caller, &options, "")?.owner().to_owned()) };
    let policies = blocking(app, move |app| app.control.policies(owner.as_deref())).await;
    Ok(Json(json!({"object": "list", "data": policies.map_err(|error| refused(&error))?})))
}

/// `GET /v1/policies/{name}`
async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Named,
    options: Queried,
) -> Result<Json<Policy>, ApiError> {
    let (name, _) = named(&app, &caller, name, options)?;
    let policy = blocking(app, move |app| app.control.policy(&name)).await;
    policy.map(Json).map_err(|error| refused(&error))
}

/// `PUT /v1/policies/{name}`
async fn upload(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Named,
    options: Queried,
    request: Request,
) -> Result<Response, ApiError> {
    let begun = begin(&app, &caller, name, options);
    let (name, caller, turn, activate) = match begun {
        Ok(begun) => begun,
        Err(refusal) => {
            let (parts, content) = request.into_parts();
            body::refuse(&parts.headers, content).await;
            return Err(refusal);
        }
    };
    let parts = parts::read(request, app.control.uploads().bytes_max.get()).await?;
    let catalog = app.runtime.catalog();
    let route = &parts.manifest.route;
    if route.starts_with(OWN) || !caller.sees(&catalog, route) || catalog.model(route).is_some() {
        return Err(refused::no_route(route));
    }
    let parts::Parts { component, manifest, signature } = parts;
    let upload = Upload { name, by: caller.who(), component, manifest, signature, activate };
    let (policy, is_new) = app.control.upload(turn, upload).await.map_err(|error| refused(&error))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(policy)).into_response())
}

/// What is known of an upload before its bytes are read.
fn begin(
    app: &App,
    caller: &Caller,
    name: Named,
    options: Queried,
) -> Result<(Name, Caller, crate::control::policies::Turn, bool), ApiError> {
    if app.shutdown.is_cancelled() {
        return Err(not_ready(app));
    }
    let Query(options) = options.map_err(|error| bad_query(&error))?;
    let Path(name) = name.map_err(|_| refused(&PoliciesError::Name))?;
    let caller = acting(app, caller, &options, &name)?;
    let name = Name::new(caller.owner(), &name).map_err(|error| refused(&error))?;
    let turn = app.control.begin_upload(caller.owner()).map_err(|error| refused(&error))?;
    Ok((name, caller, turn, options.activate.unwrap_or(true)))
}

/// What `POST .../activate` brings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Activate {
    revision: String,
}

/// `POST /v1/policies/{name}/activate`
async fn activate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Named,
    options: Queried,
    request: Request,
) -> Result<Json<Policy>, ApiError> {
    let (parts, content) = request.into_parts();
    let content = body::read(&app, &parts.headers, content).await?;
    let Activate { revision } = serde_json::from_slice(&content).map_err(|error| {
        ApiError::field(Fault::Value, "revision", format!("send {{\"revision\": \"SHA-256\"}}: {error}"))
    })?;
    let (name, caller) = named(&app, &caller, name, options)?;
    let digest = revision.parse().map_err(|error| {
        ApiError::field(
            Fault::Value,
            "revision",
            format!("{:?} is {error}", super::error::shortened(&revision)),
        )
    })?;
    let policy = app.control.activate_revision(name, digest, caller.who()).await;
    policy.map(Json).map_err(|error| refused(&error))
}

/// `POST /v1/policies/{name}/rollback`
async fn roll_back(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Named,
    options: Queried,
) -> Result<Json<Policy>, ApiError> {
    let (name, caller) = named(&app, &caller, name, options)?;
    let policy = app.control.roll_back_policy(name, caller.who()).await;
    policy.map(Json).map_err(|error| refused(&error))
}

/// `DELETE /v1/policies/{name}`
async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    name: Named,
    options: Queried,
) -> Result<Json<Value>, ApiError> {
    let (name, caller) = named(&app, &caller, name, options)?;
    let called = name.name.clone();
    app.control.delete_policy(name, caller.who()).await.map_err(|error| refused(&error))?;
    Ok(Json(json!({"name": called, "deleted": true})))
}

/// The policy that a request is about, and on whose behalf.
fn named(app: &App, caller: &Caller, name: Named, options: Queried) -> Result<(Name, Caller), ApiError> {
    let Query(options) = options.map_err(|error| bad_query(&error))?;
    let Path(name) = name.map_err(|_| refused(&PoliciesError::Name))?;
    let caller = acting(app, caller, &options, &name)?;
    app.control.store().map_err(|error| refused(&error.into()))?;
    // A name that can be none's is absent, too.
    let name = Name::new(caller.owner(), &name).map_err(|_| refused(&PoliciesError::Absent(name)))?;
    Ok((name, caller))
}

/// The caller, or the tenant that it acts for. For others than those who run the server there is nobody but them.
fn acting(app: &App, caller: &Caller, options: &Options, name: &str) -> Result<Caller, ApiError> {
    let Some(tenant) = &options.tenant else { return Ok(caller.clone()) };
    caller
        .acting_for(app.control.access(), tenant)
        .ok_or_else(|| refused(&PoliciesError::Absent(name.to_owned())))
}

pub(super) fn bad_query(error: &QueryRejection) -> ApiError {
    ApiError::general(Fault::Value, error.body_text())
}

/// Off the async threads: it waits for the disk.
pub(super) async fn blocking<T: Send + 'static>(
    app: App,
    work: impl FnOnce(&App) -> Result<T, PoliciesError> + Send + 'static,
) -> Result<T, PoliciesError> {
    tokio::task::spawn_blocking(move || work(&app)).await.unwrap_or_else(|error| {
        tracing::error!(%error, "reading what is kept panicked; please report this");
        Err(ControlError::Panicked.into())
    })
}
