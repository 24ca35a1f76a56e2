//! Spans as OpenTelemetry's protocol has them.

use experiment::tally::Ended;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Told, Status};

use super::{Handoff, Span};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A count.
    Count(u64),
    /// Any other number.
    Number(f64),
    /// Several words.
    List(Vec<String>),
}

/// A request that hands in spans of this service.
pub(super) fn request(resource: &[(String, Value)], spans: &[Span]) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: "tokenrouter".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans =
        ScopeSpans { scope: Some(scope), spans: spans.iter().map(told).collect(), ..ScopeSpans::default() };
    let resource = Resource { attributes: attributes(resource), ..Resource::default() };
    let resource_spans = vec![ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![spans],
        ..ResourceSpans::default()
    }];
    ExportTraceServiceRequest { resource_spans }
}

fn told(span: &Span) -> Told {
    let mut attributes = attributes(&span.attributes);
    let made: u64 = span.made.iter().sum();
    attributes.push(attribute("gen_ai.usage.output_tokens", &Value::Count(made)));
    for (model, made) in span.models.iter().zip(&span.made) {
        attributes.push(attribute(&format!("tokenrouter.usage.output_tokens.{model}"), &Value::Count(*made)));
    }
    let handoffs = span.handoffs.len() as u64 + u64::from(span.more_handoffs);
    attributes.push(attribute("tokenrouter.handoffs", &Value::Count(handoffs)));
    if let Some(first) = span.first_token {
        attributes.push(attribute("gen_ai.server.time_to_first_token", &Value::Number(first.as_secs_f64())));
    }
    let (reason, code) = match span.ended {
        Ended::Stop => ("stop", StatusCode::Unset),
        Ended::Length => ("length", StatusCode::Unset),
        Ended::Failed => ("error", StatusCode::Error),
        // Whoever leaves has its reasons: no error of ours.
        Ended::Cancelled => ("cancelled", StatusCode::Unset),
    };
    if span.ended == Ended::Failed {
        attributes.push(attribute("error.type", &Value::Text("server_error".to_owned())));
    }
    attributes.push(attribute("gen_ai.response.finish_reasons", &Value::List(vec![reason.to_owned()])));
    let end = span.begun_unix_ns.saturating_add(u64::try_from(span.lasted.as_nanos()).unwrap_or(u64::MAX));
    Told {
        trace_id: span.parent.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.span.map(|span| span.to_vec()).unwrap_or_default(),
        flags: 1,
        name: span.name.clone(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: span.begun_unix_ns,
        end_time_unix_nano: end,
        attributes,
        events: span.handoffs.iter().map(|handoff| event(span, handoff)).collect(),
        dropped_events_count: span.more_handoffs,
        status: Some(Status { code: code.into(), ..Status::default() }),
        ..Told::default()
    }
}

fn event(span: &Span, handoff: &Handoff) -> Event {
    let model = |role: journey::Role| span.models.get(role.index()).cloned().unwrap_or_default();
    let after = u64::try_from(handoff.after.as_nanos()).unwrap_or(u64::MAX);
    Event {
        time_unix_nano: span.begun_unix_ns.saturating_add(after),
        name: "handoff".to_owned(),
        attributes: vec![
            attribute("tokenrouter.source", &Value::Text(model(handoff.from))),
            attribute("tokenrouter.target", &Value::Text(model(handoff.to))),
            attribute("tokenrouter.position", &Value::Count(handoff.position)),
        ],
        ..Event::default()
    }
}

fn attributes(of: &[(String, Value)]) -> Vec<KeyValue> {
    of.iter().map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &Value) -> KeyValue {
    let text = |text: &String| AnyValue { value: Some(Any::StringValue(text.clone())) };
    let value = match value {
        Value::Text(words) => text(words),
        Value::Count(count) => {
            AnyValue { value: Some(Any::IntValue(i64::try_from(*count).unwrap_or(i64::MAX))) }
        }
        Value::Number(number) => AnyValue { value: Some(Any::DoubleValue(*number)) },
        Value::List(all) => {
            AnyValue { value: Some(Any::ArrayValue(ArrayValue { values: all.iter().map(text).collect() })) }
        }
    };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}
