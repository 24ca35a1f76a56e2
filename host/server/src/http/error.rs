//! What goes wrong, as the client sees it.
//!
//! The one place that decides on HTTP status, error type and code. Everything else says what happened, by the
//! constructor it calls.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tenant::Refused;
use tenant::quota::Quota;

/// A request that is not answered, or an answer that cannot be continued.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct ApiError {
    fault: Fault,
    message: String,
    /// The field at fault, as `messages[0].content`.
    param: Option<String>,
    /// When to ask again, where only this request's case tells.
    retry_after: Option<Duration>,
}

/// What kind of failure it is; each has one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The body is no JSON object.
    Json,
    /// A field that must be there is missing.
    Missing,
    /// A field has the wrong type.
    Type,
    /// A field has a value that cannot be used.
    Value,
    /// A field that no API has.
    Unknown,
    /// A field, or a value of it, that is not supported here.
    Unsupported,
    /// Prompt and answer do not fit the context.
    Context,
    /// No key that opens anything came with it.
    Key,
    /// A quota is used up for now.
    Exceeded(Quota),
    /// It is larger than a whole quota.
    Beyond,
    /// There is no such model for this client.
    Model,
    /// It is there for this client, and cannot be served for now.
    Broken,
    /// There is no such policy for this client.
    Policy,
    /// There is no such revision of it.
    Revision,
    /// A component that cannot serve.
    Component,
    /// A component that is not among those that are taken.
    Forbidden,
    /// An upload is being checked.
    Uploading,
    /// There is no such path.
    Url,
    /// The path is not for this method.
    Method,
    /// The client took too long to send its body.
    Slow,
    /// There is nothing of this name.
    Absent,
    /// What is there does not allow it.
    Conflict,
    /// It would have to be kept, and nothing is.
    NoDataDir,
    /// The body is larger than allowed.
    TooLarge,
    /// The body is compressed.
    Encoding,
    /// Too many requests wait.
    QueueFull,
    /// The server is shutting down.
    Draining,
    /// The server has not begun yet.
    Loading,
    /// The answer could not be made.
    Server,
}

impl ApiError {
    /// A fault of the request's field `param`.
    pub(super) fn field(fault: Fault, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), param: Some(param.into()), retry_after: None }
    }

    /// A fault that is not about one field.
    pub(super) fn general(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), param: None, retry_after: None }
    }

    /// The same words for anything that is not there, whatever the reason.
    pub(super) fn no_model(name: &str) -> Self {
        let message =
            format!("the model {:?} does not exist; GET /v1/models lists what does", shortened(name));
        Self::field(Fault::Model, "model", message)
    }

    /// What is there and cannot be served for now, for those who may see it.
    pub(super) fn broken(name: &str, why: &str) -> Self {
        Self::field(Fault::Broken, "model", format!("{:?} cannot be served for now: {why}", shortened(name)))
    }

    /// The same words for a key that is missing, unknown, expired or revoked.
    pub(super) fn no_key() -> Self {
        let message = "no valid API key was sent; send one as 'Authorization: Bearer KEY'";
        Self::general(Fault::Key, message)
    }

    /// A tenant's quota is in the way.
    pub(super) fn over_quota(refused: &Refused) -> Self {
        let (fault, retry_after) = match *refused {
            Refused::Exceeded { quota, retry_after, .. } => (Fault::Exceeded(quota), Some(retry_after)),
            _ => (Fault::Beyond, None),
        };
        Self { retry_after, ..Self::general(fault, refused.to_string()) }
    }

    pub(super) fn unknown_url(method: &str, path: &str) -> Self {
        Self::general(Fault::Url, format!("there is no {method} {}", shortened(path)))
    }

    pub(super) fn wrong_method(method: &str, path: &str) -> Self {
        Self::general(Fault::Method, format!("{} cannot be asked with {method}", shortened(path)))
    }

    pub(super) fn server(message: impl Into<String>) -> Self {
        Self::general(Fault::Server, message)
    }

    /// The error object, also used within a stream.
    pub(super) fn object(&self) -> Value {
        json!({"error": {
            "message": self.message,
            "type": self.fault.kind(),
            "param": self.param,
            "code": self.fault.code(),
        }})
    }

    /// The field at fault, for the log: unlike the message it holds nothing of the prompt.
    pub(super) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The code, for the log.
    pub(super) fn code(&self) -> &'static str {
        self.fault.code()
    }
}

impl Fault {
    fn status(self) -> StatusCode {
        match self {
            Self::Json | Self::Missing | Self::Type | Self::Value => StatusCode::BAD_REQUEST,
            Self::Unknown | Self::Unsupported | Self::Context => StatusCode::BAD_REQUEST,
            Self::Key => StatusCode::UNAUTHORIZED,
            Self::Exceeded(_) | Self::Beyond => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken | Self::Component => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Conflict | Self::NoDataDir => StatusCode::CONFLICT,
            Self::Uploading => StatusCode::TOO_MANY_REQUESTS,
            Self::Policy | Self::Revision => StatusCode::NOT_FOUND,
            Self::Model | Self::Url | Self::Absent => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::QueueFull => StatusCode::TOO_MANY_REQUESTS,
            Self::Draining | Self::Loading => StatusCode::SERVICE_UNAVAILABLE,
            Self::Server => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::QueueFull | Self::Uploading => "rate_limit_error",
            // OpenAI's type says which limit it was.
            Self::Exceeded(Quota::Requests) => "requests",
            Self::Exceeded(Quota::Tokens) => "tokens",
            Self::Exceeded(Quota::Journeys) => "journeys",
            Self::Beyond => "insufficient_quota",
            Self::Draining | Self::Loading | Self::Server => "server_error",
            _ => "invalid_request_error",
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Json => "invalid_json",
            Self::Missing => "missing_required_parameter",
            Self::Type => "invalid_type",
            Self::Value => "invalid_value",
            Self::Unknown => "unknown_parameter",
            Self::Unsupported => "unsupported_parameter",
            Self::Context => "context_length_exceeded",
            Self::Key => "invalid_api_key",
            Self::Exceeded(_) => "rate_limit_exceeded",
            Self::Beyond => "insufficient_quota",
            Self::Model => "model_not_found",
            Self::Broken => "policy_broken",
            Self::Policy => "policy_not_found",
            Self::Revision => "revision_not_found",
            Self::Component => "invalid_policy",
            Self::Forbidden => "policy_not_allowed",
            Self::Uploading => "upload_in_progress",
            Self::Url => "unknown_url",
            Self::Method => "method_not_allowed",
            Self::Absent => "not_found",
            Self::Conflict => "conflict",
            Self::NoDataDir => "no_data_dir",
            Self::Slow => "request_timeout",
            Self::TooLarge => "request_too_large",
            Self::Encoding => "unsupported_encoding",
            Self::QueueFull => "rate_limit_exceeded",
            Self::Draining => "shutting_down",
            Self::Loading => "loading",
            Self::Server => "server_error",
        }
    }

    /// When to ask again, in seconds, where asking again helps.
    fn retry_after(self) -> Option<HeaderValue> {
        match self {
            Self::QueueFull => Some(HeaderValue::from_static("1")),
            Self::Draining | Self::Loading | Self::Uploading => Some(HeaderValue::from_static("5")),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        tracing::debug!(code = self.code(), param = self.param(), "refused");
        let mut response = (self.fault.status(), axum::Json(self.object())).into_response();
        let headers = response.headers_mut();
        let rounded_up = |time: Duration| time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let seconds = self.retry_after.map(|time| HeaderValue::from(rounded_up(time).max(1)));
        if let Some(seconds) = seconds.or_else(|| self.fault.retry_after()) {
            headers.insert(header::RETRY_AFTER, seconds);
        }
        match self.fault {
            Fault::Key => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"tokenrouter\""),
                );
            }
            // OpenAI's packages would ask again after any 429.
            Fault::Beyond => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            _ => {}
        }
        response
    }
}

/// The beginning of a text that a client sent, so that an error does not send all of it back.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const SHOWN_CHARACTERS: usize = 80;
