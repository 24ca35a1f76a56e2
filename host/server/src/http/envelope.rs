//! Around every request: its id, its span, and an answer even if a handler panics.

use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;
use tracing::field::Empty;

use super::error::ApiError;
use super::random::unguessable;

/// Gives the request its id and span, and the answer the same id.
pub(super) async fn wrap(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    // For those who tell it elsewhere.
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let shown = id.to_str().unwrap_or_default();
    let span = tracing::info_span!(
        "request",
        request_id = shown,
        tenant = Empty,
        model = Empty,
        revision = Empty,
        journey = Empty
    );
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span).await;
    let mut response = answered.unwrap_or_else(|_| {
        tracing::error!(request_id = shown, "a handler panicked; please report this");
        ApiError::server("the server failed at this request; its log says more").into_response()
    });
    let is_wrong_method = response.status() == StatusCode::METHOD_NOT_ALLOWED;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    if !is_wrong_method {
        // The router adds it to any answer of a path that has other methods, and beside a refusal for want of a key it
        // would tell that there is such a path.
        headers.remove(ALLOW);
    }
    response
}

/// The client's own id if it is a sane token, else a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    if let Some(given) = headers.get(REQUEST_ID).filter(|given| is_sane(given.as_bytes())) {
        return given.clone();
    }
    let made = format!("req-{:016x}", unguessable());
    HeaderValue::from_str(&made).expect("hexadecimal digits are valid in a header")
}

/// Safe in a log line, a header and a file name.
fn is_sane(id: &[u8]) -> bool {
    let sane = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(sane)
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(given: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_str(given).unwrap());
        request_id(&headers).to_str().unwrap().to_owned()
    }

    #[test]
    fn a_sane_id_is_kept_and_any_other_replaced() {
        assert_eq!(id_for("trace-7f:1.a_B"), "trace-7f:1.a_B");
        assert!(id_for("a b").starts_with("req-"));
        assert!(id_for(&"x".repeat(129)).starts_with("req-"));
        assert!(request_id(&HeaderMap::new()).to_str().unwrap().starts_with("req-"));
    }
}
