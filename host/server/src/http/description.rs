//! What is served, in OpenAPI 3.1.
//!
//! A file inside the binary, so that it is always of this binary; `tests/all/openapi.rs` keeps it true. Whoever has a key may read
//! all of it, as it says nothing of the server that runs.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

/// `GET /openapi.json`
pub(super) async fn show() -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], OPENAPI).into_response()
}

const OPENAPI: &str = include_str!("../../openapi.json");
