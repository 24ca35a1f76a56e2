//! The thread that sends spans to a collector, by OTLP over HTTP. Nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use prost::Message as _;
use ureq::Agent;

use super::otlp::{self, Value};
use super::{Counts, Message, Span};
use crate::config::Tracing;

pub(super) struct Exporter {
    agent: Agent,
    endpoint: String,
    headers: Vec<(String, String)>,
    resource: Vec<(String, Value)>,
    counts: Arc<Counts>,
    /// Whether the last request failed: what goes on failing is told once.
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(endpoint: &str, config: &Tracing, counts: Arc<Counts>) -> Self {
        let timeout = Duration::from_millis(config.timeout_ms);
        let agent = Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false).build();
        let text = |(key, value): (&String, &String)| (key.clone(), Value::Text(value.clone()));
        let mut resource: Vec<(String, Value)> = config.resource.iter().map(text).collect();
        resource.push(("service.name".to_owned(), Value::Text(config.service_name.clone())));
        Self {
            agent: agent.into(),
            endpoint: endpoint.to_owned(),
            headers: config.headers.clone().into_iter().collect(),
            resource,
            counts,
            is_failing: false,
        }
    }

    /// Sends until it is told to end.
    pub(super) fn run(mut self, queue: &Receiver<Message>) {
        let mut is_over = false;
        while !is_over {
            let batch;
            (batch, is_over) = next_batch(queue);
            if !batch.is_empty() {
                self.send(&batch);
            }
        }
    }

    /// Tries again what may succeed later, for a while: meanwhile the queue fills, and then drops.
    fn send(&mut self, batch: &[Span]) {
        if self.counts.is_ending.load(Relaxed) && self.is_failing {
            self.counts.dropped.fetch_add(batch.len() as u64, Relaxed);
            return;
        }
        let body = otlp::request(&self.resource, batch).encode_to_vec();
        for number in 1..=TRIES {
            match self.post(&body) {
                Ok(()) => {
                    self.counts.exported.fetch_add(batch.len() as u64, Relaxed);
                    self.is_failing = false;
                    return;
                }
                Err((problem, is_final)) => {
                    if is_final || number == TRIES || self.counts.is_ending.load(Relaxed) {
                        self.counts.dropped.fetch_add(batch.len() as u64, Relaxed);
                        self.tell(&problem);
                        return;
                    }
                    thread::park_timeout(PAUSE * number);
                }
            }
        }
    }

    /// Why it failed, and whether it always will.
    fn post(&self, body: &[u8]) -> Result<(), (String, bool)> {
        let mut request = self.agent.post(&self.endpoint).header("content-type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let answer = request.send(body).map_err(|error| (error.to_string(), false))?;
        match answer.status().as_u16() {
            200..300 => Ok(()),
            status @ (429 | 502 | 503 | 504) => Err((format!("it answers {status}"), false)),
            status => Err((format!("it answers {status}"), true)),
        }
    }

    fn tell(&mut self, problem: &str) {
        if !self.is_failing {
            tracing::warn!(
                endpoint = self.endpoint,
                problem,
                "traces are dropped: the collector does not take them"
            );
        }
        self.is_failing = true;
    }
}

/// Spans that came within a while, and whether there will be no others.
fn next_batch(queue: &Receiver<Message>) -> (Vec<Span>, bool) {
    let Ok(Message::Span(first)) = queue.recv() else { return (Vec::new(), true) };
    let (mut batch, until) = (vec![*first], Instant::now() + BATCH_TIME);
    while batch.len() < BATCH {
        match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Message::Span(span)) => batch.push(*span),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return (batch, true),
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    (batch, false)
}

const BATCH: usize = 512;
const BATCH_TIME: Duration = Duration::from_millis(500);
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);
