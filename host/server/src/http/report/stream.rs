//! An answer as it comes: server-sent events.
//!
//! The order is OpenAI's: a chunk with the role (chat), one chunk per token that shows something, one with the reason
//! of the end, one with the usage if asked for, `[DONE]`. A stream whose answer fails ends with an error object and
//! without `[DONE]`; it never ends in silence.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde_json::Value;
use tracing::Span;

use super::Report;
use super::whole::CUT_OFF;
use crate::http::error::ApiError;
use crate::http::running::RunningAnswer;
use crate::runtime::{Answer, Event};

/// The response that streams an answer.
pub(in crate::http) fn response(
    answer: Answer,
    report: Report,
    running: RunningAnswer,
    ping_interval: Duration,
) -> Response {
    let telling = Telling::new(answer, report, running);
    let ping = KeepAlive::new().interval(ping_interval).text("ping");
    let mut response = Sse::new(telling.into_stream()).keep_alive(ping).into_response();
    // Proxies that buffer answers would hold tokens back.
    response.headers_mut().insert(UNBUFFERED, HeaderValue::from_static("no"));
    response
}

/// A stream in the making. Dropping it drops the answer.
struct Telling {
    answer: Answer,
    report: Report,
    /// What is ready to be sent, in order.
    ready: VecDeque<String>,
    ended: bool,
    span: Span,
    _running: RunningAnswer,
}

impl Telling {
    fn new(answer: Answer, mut report: Report, running: RunningAnswer) -> Self {
        let ready = report.opening().iter().map(Value::to_string).collect();
        Self { answer, report, ready, ended: false, span: Span::current(), _running: running }
    }

    fn into_stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        futures_util::stream::unfold(self, |mut telling| async move {
            let data = telling.next().await?;
            Some((Ok(sse::Event::default().data(data)), telling))
        })
    }

    async fn next(&mut self) -> Option<String> {
        while self.ready.is_empty() && !self.ended {
            let event = self.answer.events.recv().await;
            self.take(event);
        }
        self.ready.pop_front()
    }

    fn take(&mut self, event: Option<Event>) {
        match event {
            Some(Event::Made(made)) => {
                let piece = self.report.made(&made);
                if !piece.is_empty() {
                    let chunk = self.report.chunk(piece, None);
                    self.ready.push_back(chunk.to_string());
                }
            }
            Some(Event::FellBack { fault }) => self.report.fell_back(fault),
            Some(Event::Finished(reason)) => {
                let last = self.report.finished();
                let chunk = self.report.chunk(last, Some(reason));
                self.ready.push_back(chunk.to_string());
                self.ready.extend(self.report.usage_chunk().map(|chunk| chunk.to_string()));
                self.ready.push_back(DONE.to_owned());
                self.ended = true;
                self.span.in_scope(|| self.report.log_end(Some(reason)));
            }
            Some(Event::Failed { message }) => self.fail(message),
            None => self.fail(CUT_OFF.to_owned()),
        }
    }

    fn fail(&mut self, message: String) {
        self.ready.push_back(ApiError::server(message).object().to_string());
        self.ended = true;
        self.span.in_scope(|| self.report.log_end(None));
    }
}

const DONE: &str = "[DONE]";
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
