//! What a trace tells of a request, in the words of OpenTelemetry's conventions for generative AI.

use axum::http::HeaderMap;

use super::parse::Dialect;
use crate::runtime::{Ask, Route};
use crate::telemetry::{Begin, Parent, Value};

/// What the headers of a request say about its trace.
pub(super) struct Within {
    parent: Option<Parent>,
    request_id: String,
}

impl Within {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            parent: text("traceparent").and_then(Parent::parse),
            request_id: text("x-request-id").unwrap_or_default().to_owned(),
        }
    }

    /// The beginning of the span of an answer with this id.
    pub(super) fn begin<'a>(&self, dialect: Dialect, id: &str, (ask, route): (&Ask, &'a Route)) -> Begin<'a> {
        let operation = match dialect {
            Dialect::Chat => "chat",
            Dialect::Text => "text_completion",
        };
        let text = |key: &str, value: &str| (key.to_owned(), Value::Text(value.to_owned()));
        let count = |key: &str, value: usize| (key.to_owned(), Value::Count(value as u64));
        let number = |key: &str, value: f32| (key.to_owned(), Value::Number(f64::from(value)));
        let attributes = vec![
            text("gen_ai.operation.name", operation),
            text("gen_ai.provider.name", "tokenrouter"),
            text("gen_ai.request.model", &route.name),
            text("gen_ai.response.model", &route.name),
            text("gen_ai.response.id", id),
            number("gen_ai.request.temperature", ask.sampling.temperature),
            number("gen_ai.request.top_p", ask.sampling.top_p),
            count(
                "gen_ai.request.max_tokens",
                ask.tokens_max(route.context).saturating_sub(ask.prompt.len()),
            ),
            (String::from("gen_ai.request.seed"), Value::Text(ask.seed.to_string())),
            count("gen_ai.usage.input_tokens", ask.prompt.len()),
            text("tokenrouter.request_id", &self.request_id),
        ];
        Begin {
            parent: self.parent,
            name: format!("{operation} {}", route.name),
            models: &route.model_names,
            attributes,
        }
    }
}
