//! What is answered while models are loaded: alive, not ready, and everything else later.
//!
//! A large model loads for minutes. Whoever watches over the process must not take that for its death, and whoever asks must be
//! told to come again.

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn;
use axum::routing::get;

use super::error::{ApiError, Fault};
use super::{body, envelope, watch};

/// All routes, until there are others.
pub(super) fn router() -> Router {
    let routes = Router::new()
        .route("/health", get(watch::health))
        .fallback(not_yet)
        .method_not_allowed_fallback(not_yet);
    Router::new().fallback_service(routes).layer(from_fn(envelope::wrap))
}

async fn not_yet(request: Request) -> ApiError {
    let (parts, content) = request.into_parts();
    body::refuse(&parts.headers, content).await;
    ApiError::general(Fault::Loading, "the server loads its models; ask again when GET /ready answers 200")
}
