//! Keys of tenants, for those who run the server: made, replaced and revoked without a restart.
//!
//! A secret is in the answer to the request that made it and nowhere else.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use serde_json::{Value, json};
use tenant::key::Secret;
use tenant::{KeyId, KeyRecord, Scope};

use super::error::{ApiError, Fault};
use super::parse::Fields;
use super::{App, body};
use crate::access::Caller;
use crate::control::{ControlError, KeyError, Wanted};

/// `POST /admin/tenants/{name}/keys`
pub(super) async fn make(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(tenant): Path<String>,
    (headers, content): (HeaderMap, Body),
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let mut fields = fields(&app, &headers, content).await?;
    let admin = match fields.string("scope")?.as_deref() {
        None | Some("tenant") => false,
        Some("admin") => true,
        Some(other) => {
            let message = format!("scope must be \"tenant\" or \"admin\", not {other:?}");
            return Err(ApiError::field(Fault::Value, "scope", message));
        }
    };
    let expires_in_s = fields.integer("expires_in_s", 1..=SECONDS_MAX)?.map(i64::unsigned_abs);
    fields.finish()?;
    let wanted = Wanted { admin, expires_in_s };
    let made = app.control.alone(move |control| control.make_key(&caller.who(), &tenant, wanted)).await;
    Ok(shown(made?))
}

/// `POST /admin/tenants/{name}/keys/{id}/rotate`
pub(super) async fn rotate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((tenant, id)): Path<(String, String)>,
    (headers, content): (HeaderMap, Body),
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let id = known(&id)?;
    let mut fields = fields(&app, &headers, content).await?;
    let overlap_s = fields.integer("overlap_s", 0..=SECONDS_MAX)?.map_or(OVERLAP_S, i64::unsigned_abs);
    fields.finish()?;
    let rotate =
        move |control: &crate::control::Control| control.rotate_key(&caller.who(), (&tenant, id), overlap_s);
    Ok(shown(app.control.alone(rotate).await?))
}

/// `DELETE /admin/tenants/{name}/keys/{id}`
pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((tenant, id)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let id = known(&id)?;
    let revoked = app.control.alone(move |control| control.revoke_key(&caller.who(), &tenant, id)).await;
    Ok(Json(of(&revoked?)))
}

/// `GET /admin/tenants/{name}/keys`
pub(super) async fn list(
    State(app): State<App>,
    Path(tenant): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let keys = app.control.keys_of(&tenant)?;
    Ok(Json(json!({"tenant": tenant, "keys": keys.iter().map(of).collect::<Vec<_>>()})))
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Absent(_) => Self::general(Fault::Absent, error.to_string()),
            KeyError::Denied(_) => Self::general(Fault::Conflict, error.to_string()),
            KeyError::Control(error) => error.into(),
        }
    }
}

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> Self {
        if matches!(error, ControlError::NoDataDir) {
            return Self::general(Fault::NoDataDir, error.to_string());
        }
        tracing::error!(%error, "a change was not made");
        Self::server("the server could not make this change; its log says why")
    }
}

/// A body without which the defaults hold.
async fn fields(app: &App, headers: &HeaderMap, content: Body) -> Result<Fields, ApiError> {
    let content = body::read(app, headers, content).await?;
    if content.is_empty() {
        return Fields::of(json!({}), "");
    }
    let value = serde_json::from_slice(&content);
    let value =
        value.map_err(|error| ApiError::general(Fault::Json, format!("the body is not JSON: {error}")))?;
    Fields::of(value, "")
}

fn known(id: &str) -> Result<KeyId, ApiError> {
    let id = KeyId::try_from(id.to_owned());
    id.map_err(|_| ApiError::general(Fault::Absent, "there is no such key; its id has 16 hexadecimal digits"))
}

fn shown((secret, record): (Secret, KeyRecord)) -> (StatusCode, Json<Value>) {
    let mut shown = of(&record);
    shown["key"] = secret.reveal().into();
    (StatusCode::CREATED, Json(shown))
}

fn of(record: &KeyRecord) -> Value {
    json!({
        "id": record.id,
        "scope": if record.scope == Scope::Admin { "admin" } else { "tenant" },
        "created": record.created_unix_s,
        "expires": record.expires_unix_s,
        "revoked": record.revoked_unix_s,
    })
}

/// How long a key that was replaced goes on, where nobody says it: a day.
const OVERLAP_S: u64 = 24 * 60 * 60;
/// A hundred years.
const SECONDS_MAX: i64 = 100 * 366 * 24 * 60 * 60;
