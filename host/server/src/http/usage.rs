//! `GET /v1/usage`: what the caller's tenant has used, and what is left of its quotas.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use tenant::quota::Level;

use super::App;
use super::error::{ApiError, Fault};
use super::policies::bad_query;
use crate::access::{Caller, Standing};

/// Whose usage: another tenant's for those who run the server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    tenant: Option<String>,
}

pub(super) async fn usage(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    whose: Result<Query<Whose>, QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(Whose { tenant }) = whose.map_err(|error| bad_query(&error))?;
    let whose = match &tenant {
        None => Some(caller),
        Some(tenant) => caller.acting_for(app.control.access(), tenant),
    };
    let standing = whose.as_ref().and_then(|whose| Some((whose.tenant()?, whose.standing()?)));
    let Some((tenant, standing)) = standing else {
        let message = "usage is counted by tenant, and there is no such tenant for you";
        return Err(ApiError::general(Fault::Absent, message));
    };
    Ok(Json(shown(tenant, app.started, &standing)))
}

fn shown(tenant: &str, since: u64, standing: &Standing) -> Value {
    let Standing { used, journeys, journeys_max, levels: [requests, tokens] } = standing;
    let level = |level: &Option<Level>| {
        level.map(|Level { limit, left, whole_in }| {
            json!({"limit": limit, "left": left, "reset_s": whole_in.as_secs_f64()})
        })
    };
    let at_once = journeys_max.map(|limit| json!({"limit": limit, "left": limit.saturating_sub(*journeys)}));
    json!({
        "object": "usage",
        "tenant": tenant,
        "since": since,
        "requests": used.requests,
        "refused": used.refused,
        "tokens": used.tokens,
        "running": journeys,
        "quotas": {
            "requests_per_minute": level(requests),
            "tokens_per_minute": level(tokens),
            "journeys": at_once,
        },
    })
}
