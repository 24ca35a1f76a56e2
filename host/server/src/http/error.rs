//! What goes wrong, as the client sees it.
//!
//! The one place that decides on HTTP status, error type and code. Everything else says what happened, by the
//! constructor it calls.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// A request that is not answered, or an answer that cannot be continued.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct ApiError {
    fault: Fault,
    message: String,
    /// The field at fault, as `messages[0].content`.
    param: Option<String>,
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
    /// There is no such model for this client.
    Model,
    /// There is no such path.
    Url,
    /// The path is not for this method.
    Method,
    /// The client took too long to send its body.
    Slow,
    /// The body is larger than allowed.
    TooLarge,
    /// The body is compressed.
    Encoding,
    /// Too many requests wait.
    QueueFull,
    /// The server is shutting down.
    Draining,
    /// The answer could not be made.
    Server,
}

impl ApiError {
    /// A fault of the request's field `param`.
    pub(super) fn field(fault: Fault, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), param: Some(param.into()) }
    }

    /// A fault that is not about one field.
    pub(super) fn general(fault: Fault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), param: None }
    }

    /// The same words for anything that is not there, whatever the reason.
    pub(super) fn no_model(name: &str) -> Self {
        let message =
            format!("the model {:?} does not exist; GET /v1/models lists what does", shortened(name));
        Self::field(Fault::Model, "model", message)
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
            Self::Model | Self::Url => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::QueueFull => StatusCode::TOO_MANY_REQUESTS,
            Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::Server => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::QueueFull => "rate_limit_error",
            Self::Draining | Self::Server => "server_error",
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
            Self::Model => "model_not_found",
            Self::Url => "unknown_url",
            Self::Method => "method_not_allowed",
            Self::Slow => "request_timeout",
            Self::TooLarge => "request_too_large",
            Self::Encoding => "unsupported_encoding",
            Self::QueueFull => "rate_limit_exceeded",
            Self::Draining => "shutting_down",
            Self::Server => "server_error",
        }
    }

    /// When to ask again, in seconds, where asking again helps.
    fn retry_after(self) -> Option<HeaderValue> {
        match self {
            Self::QueueFull => Some(HeaderValue::from_static("1")),
            Self::Draining => Some(HeaderValue::from_static("5")),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        tracing::debug!(code = self.code(), param = self.param(), "refused");
        let mut response = (self.fault.status(), axum::Json(self.object())).into_response();
        if let Some(seconds) = self.fault.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
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

const SHOWN_CHARACTERS: usize = 80;
