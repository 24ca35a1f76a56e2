//! The audit log, for those who run the server.

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::error::{ApiError, Fault};
use super::policies::{blocking, refused};
use crate::control::policies::PoliciesError;

/// Which entries.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Which {
    /// The first number.
    from: u64,
    /// How many at most.
    limit: usize,
}

impl Default for Which {
    fn default() -> Self {
        Self { from: 1, limit: 100 }
    }
}

/// `GET /admin/audit?from=N&limit=M`
pub(super) async fn entries(
    State(app): State<App>,
    which: Result<Query<Which>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, ApiError> {
    let Query(Which { from, limit }) =
        which.map_err(|error| ApiError::general(Fault::Value, error.body_text()))?;
    let read = move |app: &App| -> Result<Value, PoliciesError> {
        let store = app.control.store()?;
        let (entries, head) = (store.audit(from, limit.min(ENTRIES_MOST))?, store.audit_head()?);
        Ok(json!({"entries": entries, "head": head}))
    };
    blocking(app, read).await.map(Json).map_err(|error| refused(&error))
}

/// `GET /admin/audit/verify`
pub(super) async fn verify(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let verified = |app: &App| -> Result<Value, PoliciesError> {
        Ok(serde_json::to_value(app.control.store()?.verify(None)?).expect("numbers and texts"))
    };
    blocking(app, verified).await.map(Json).map_err(|error| refused(&error))
}

const ENTRIES_MOST: usize = 1000;
