//! Before every route: nobody without a key gets further, and what is for operators does not exist for others.
//!
//! What a route needs is read off the pattern that the router matched, not off the path as it was sent: however a path is
//! written, the guard and the router agree on it. A route that is added without a thought needs a key.

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::bearer::bearer;
use crate::http::error::ApiError;
use crate::http::{App, body};

/// What a route asks of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Nothing: probes have no keys, and a page must be there before its user can type one.
    Nothing,
    /// A key.
    Key,
    /// A key for those who run the server.
    Operator,
}

/// Leaves the [`Caller`] with the request, or answers in the place of the route.
pub(in crate::http) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let pattern = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let need = Need::of(request.method(), pattern);
    if need == Need::Nothing {
        return next.run(request).await;
    }
    let refusal = match app.control.access().caller(bearer(request.headers())) {
        Ok(caller) if need == Need::Operator && !caller.is_operator() => {
            // As of any path that is not there: a tenant need not know what its operators can look at.
            ApiError::unknown_url(request.method().as_str(), request.uri().path())
        }
        Ok(caller) => {
            if let Some(name) = caller.tenant() {
                tracing::Span::current().record("tenant", name);
            }
            request.extensions_mut().insert(caller);
            return next.run(request).await;
        }
        Err(why) => {
            // The client is told the same of every key.
            tracing::info!(%why, "denied");
            ApiError::no_key()
        }
    };
    let (parts, content) = request.into_parts();
    body::refuse(&parts.headers, content).await;
    refusal.into_response()
}

impl Need {
    fn of(method: &Method, pattern: Option<&str>) -> Self {
        match pattern {
            Some("/health" | "/ready" | "/" | "/page/{file}")
                if [Method::GET, Method::HEAD].contains(method) =>
            {
                Self::Nothing
            }
            Some("/metrics") => Self::Operator,
            Some(pattern) if pattern.starts_with("/admin/") => Self::Operator,
            _ => Self::Key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_probes_and_the_page_need_no_key() {
        let need = |method: Method, pattern| Need::of(&method, pattern);
        assert_eq!(need(Method::GET, Some("/health")), Need::Nothing);
        assert_eq!(need(Method::POST, Some("/health")), Need::Key);
        assert_eq!(
            [need(Method::GET, Some("/")), need(Method::HEAD, Some("/page/{file}"))],
            [Need::Nothing; 2]
        );
        assert_eq!([need(Method::POST, Some("/")), need(Method::PUT, Some("/page/{file}"))], [Need::Key; 2]);
        assert_eq!(need(Method::GET, None), Need::Key);
        assert_eq!(need(Method::GET, Some("/v1/anything/new")), Need::Key);
        assert_eq!(need(Method::OPTIONS, Some("/admin/anything/new")), Need::Operator);
        assert_eq!(need(Method::HEAD, Some("/metrics")), Need::Operator);
    }
}
