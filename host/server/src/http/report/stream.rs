//! An answer as it comes: server-sent events.
//!
//! The order is OpenAI's: for each choice a chunk with the role (chat), one chunk per token that shows something, one with
//! the reason of the end; after the last one with the usage if asked for, `[DONE]`. A stream whose answer fails ends with an error object and
//! without `[DONE]`; it never ends in silence.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use tracing::Span;

use super::told::Heard;
use super::whole::CUT_OFF;
use super::{News, Report, Told};
use crate::http::error::ApiError;
use crate::http::running::RunningAnswer;
use crate::runtime::Event;

/// The response that streams an answer.
pub(in crate::http) fn response(
    told: Told,
    report: Report,
    running: RunningAnswer,
    ping_interval: Duration,
) -> Response {
    let telling = Telling::new(told, report, running);
    let ping = KeepAlive::new().interval(ping_interval).text("ping");
    let mut response = Sse::new(telling.into_stream()).keep_alive(ping).into_response();
    // Proxies that buffer answers would hold tokens back.
    response.headers_mut().insert(UNBUFFERED, HeaderValue::from_static("no"));
    response
}

/// A stream in the making. Dropping it drops the answers.
struct Telling {
    told: Told,
    report: Report,
    /// What is ready to be sent, in order.
    ready: VecDeque<String>,
    ended: bool,
    span: Span,
    _running: RunningAnswer,
}

impl Telling {
    fn new(told: Told, mut report: Report, running: RunningAnswer) -> Self {
        let openings = (0..report.choices.len()).filter_map(|index| report.opening(index));
        let ready = openings.map(|chunk| chunk.to_string()).collect();
        Self { told, report, ready, ended: false, span: Span::current(), _running: running }
    }

    fn into_stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        futures_util::stream::unfold(self, |mut telling| async move {
            let data = telling.next().await?;
            Some((Ok(sse::Event::default().data(data)), telling))
        })
    }

    async fn next(&mut self) -> Option<String> {
        while self.ready.is_empty() && !self.ended {
            match self.told.next().await {
                Some((index, Heard::Event(event))) => self.take(index, event),
                Some((_, Heard::CutOff)) => self.fail(CUT_OFF.to_owned()),
                None => self.finish(),
            }
        }
        self.ready.pop_front()
    }

    fn take(&mut self, index: usize, event: Event) {
        match self.report.hear(index, event) {
            News::More(piece) if piece.is_empty() => {}
            News::More(piece) | News::Ended(piece) => {
                let chunk = self.report.chunk(index, piece);
                self.ready.push_back(chunk.to_string());
            }
            News::Failed(message) => self.fail(message),
        }
    }

    /// All choices are over.
    fn finish(&mut self) {
        self.ready.extend(self.report.usage_chunk().map(|chunk| chunk.to_string()));
        self.ready.push_back(DONE.to_owned());
        self.ended = true;
        self.span.in_scope(|| self.report.log_end(false));
    }

    fn fail(&mut self, message: String) {
        self.ready.push_back(ApiError::server(message).object().to_string());
        self.ended = true;
        self.span.in_scope(|| self.report.log_end(true));
    }
}

const DONE: &str = "[DONE]";
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
