//! What can be asked for: models and routes as OpenAI's model objects.
//!
//! Beyond OpenAI's fields each object has `route`: the models by role with the number of their weights, the policy with
//! its revision, and what can be set in the model's name after `@`.

use std::collections::BTreeMap;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use policy::{Parameter, Revision};
use serde_json::{Value, json};

use super::App;
use super::error::ApiError;
use super::prepare::no_model;
use crate::access::Caller;
use crate::config::OWN;
use crate::runtime::{Catalog, ModelIx, Route};

/// `GET /v1/models`
pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Json<Value> {
    let catalog = app.runtime.catalog();
    let routes = caller.all(&catalog);
    let models: Vec<Value> = routes.map(|route| model(&catalog, route, (&caller, app.started))).collect();
    Json(json!({"object": "list", "data": models}))
}

/// `GET /v1/models/{id}`; an id may contain slashes, raw or percent-encoded.
pub(super) async fn retrieve(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|_| ApiError::no_model("(not UTF-8)"))?;
    let catalog = app.runtime.catalog();
    let route = caller.find(&catalog, &id).ok_or_else(|| no_model(&caller, &catalog, &id))?;
    Ok(Json(model(&catalog, route, (&caller, app.started))))
}

fn model(catalog: &Catalog, route: &Route, (caller, created): (&Caller, u64)) -> Value {
    let weights = |ix: &ModelIx| catalog.models.get(ix).map(|model| model.spec.parameters);
    let owner = if route.name.starts_with(OWN) { caller.owner() } else { "tokenrouter" };
    json!({
        "id": route.name,
        "object": "model",
        "created": created,
        "owned_by": owner,
        "context": route.context,
        "route": {
            "models": route.model_names,
            "weights": route.models.iter().map(weights).collect::<Vec<Option<u64>>>(),
            "fallback": route.model_names[route.fallback(route.policy_revision().as_deref()).index()],
            "policy": route.policy_revision().map(|revision| policy(route, &revision)),
        },
    })
}

fn policy(route: &Route, revision: &Revision) -> Value {
    let descriptor = revision.descriptor();
    let set = route.settings_with(&BTreeMap::new());
    let value = |parameter: &Parameter| set.get(&parameter.key).copied().unwrap_or(parameter.default);
    let parameter = |parameter: &Parameter| {
        json!({
            "key": parameter.key,
            "value": value(parameter),
            "default": parameter.default,
            "least": finite(*parameter.range.start()),
            "most": finite(*parameter.range.end()),
            "whole": parameter.whole,
            "doc": parameter.doc,
        })
    };
    json!({
        "name": descriptor.name,
        "doc": descriptor.doc,
        "revision": revision.digest().to_string(),
        "parameters": descriptor.parameters.iter().map(parameter).collect::<Vec<Value>>(),
    })
}

/// JSON has no infinity; an open end is null.
fn finite(bound: f64) -> Option<f64> {
    Some(bound).filter(|bound| bound.is_finite())
}
