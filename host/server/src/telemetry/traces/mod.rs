//! One span for each journey, in OpenTelemetry's terms, for whoever collects traces. Off unless somebody does.
//!
//! A journal travels with its journey, as its bill does, and is handed in when it is dropped. On the way a handoff costs a look
//! at the clock and an entry in a list; a journey that nobody traces costs neither. Nobody ever waits for the collector: what
//! does not fit into the queue is dropped, and counted.

mod export;
mod otlp;
mod parent;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use experiment::tally::Ended;
use journey::Role;

use crate::config::Tracing;
use crate::http::secret;
pub use otlp::Value;
pub use parent::Parent;

/// Takes in what was traced.
pub struct Traces {
    collector: Option<Collector>,
    counts: Arc<Counts>,
}

struct Collector {
    queue: SyncSender<Message>,
    sample_ratio: f64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Message {
    Span(Box<Span>),
    /// The server ends: what is in the queue before this is still sent.
    End,
}

/// Spans that were sent, and those that were not.
#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    dropped: AtomicU64,
    /// The server ends: nothing is tried twice any more.
    is_ending: AtomicBool,
}

/// What is told of one journey.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    parent: Parent,
    id: [u8; 8],
    name: String,
    begun_unix_ns: u64,
    lasted: Duration,
    attributes: Vec<(String, Value)>,
    /// Names of the route's models.
    models: Vec<String>,
    /// Tokens made, by role.
    made: Vec<u64>,
    /// Since it began.
    first_token: Option<Duration>,
    handoffs: Vec<Handoff>,
    /// Handoffs beyond those that are kept.
    more_handoffs: u32,
    ended: Ended,
}

/// From one model to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Handoff {
    /// Since the journey began.
    after: Duration,
    from: Role,
    to: Role,
    /// Tokens of the sequence then.
    position: u64,
}

/// Of one journey, if it is traced.
#[derive(Default)]
pub struct Journal(Option<Box<Open>>);

struct Open {
    traces: Arc<Traces>,
    begun: Instant,
    span: Box<Span>,
}

/// What is known of a journey when it begins.
pub struct Begin<'a> {
    /// The span within which it was asked for, if a client told one.
    pub parent: Option<Parent>,
    /// Such as `chat pair/entropy`.
    pub name: String,
    /// Names of the route's models.
    pub models: &'a [String],
    /// What else is told.
    pub attributes: Vec<(String, Value)>,
}

impl Traces {
    /// Sends spans where the configuration says, if it does.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(config: &Tracing) -> io::Result<Self> {
        let counts = Arc::new(Counts::default());
        let Some(endpoint) = &config.endpoint else { return Ok(Self { collector: None, counts }) };
        let (queue, received) = sync_channel(QUEUE);
        let exporter = export::Exporter::new(endpoint, config, Arc::clone(&counts));
        let thread =
            std::thread::Builder::new().name("traces".to_owned()).spawn(move || exporter.run(&received))?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { collector: Some(Collector { queue, sample_ratio: config.sample_ratio, thread }), counts })
    }

    /// Whether anybody collects.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.collector.is_some()
    }

    /// The journal of a journey that begins now; an empty one if it is not traced.
    #[must_use]
    pub fn begin(self: &Arc<Self>, begin: Begin<'_>) -> Journal {
        let Some(collector) = &self.collector else { return Journal::default() };
        let random = secret();
        let parent = begin.parent.unwrap_or_else(|| Parent::root(&random, collector.sample_ratio));
        if !parent.is_sampled() {
            return Journal::default();
        }
        let mut id = [0; 8];
        id.copy_from_slice(&random[16..24]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let span = Box::new(Span {
            parent,
            id,
            name: begin.name,
            begun_unix_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            lasted: Duration::ZERO,
            attributes: begin.attributes,
            models: begin.models.to_vec(),
            made: vec![0; begin.models.len()],
            first_token: None,
            handoffs: Vec::new(),
            more_handoffs: 0,
            ended: Ended::Cancelled,
        });
        Journal(Some(Box::new(Open { traces: Arc::clone(self), begun: Instant::now(), span })))
    }

    /// Spans that were sent, and spans that were dropped.
    #[must_use]
    pub fn counts(&self) -> [u64; 2] {
        [&self.counts.exported, &self.counts.dropped].map(|count| count.load(Relaxed))
    }

    /// Sends what is left; blocks for as long as the collector takes, and one timeout at most if it does not answer.
    pub fn join(&self) {
        let Some(collector) = &self.collector else { return };
        let thread = collector.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.counts.is_ending.store(true, Relaxed);
        thread.thread().unpark();
        // It fails only if the thread has ended.
        if collector.queue.send(Message::End).is_err() || thread.join().is_err() {
            tracing::error!("the thread that sends traces had ended");
        }
    }

    fn take(&self, span: Box<Span>) {
        let Some(collector) = &self.collector else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            collector.queue.try_send(Message::Span(span))
        {
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Journal {
    /// Tokens were committed, by these roles.
    pub(crate) fn made(&mut self, by: impl Iterator<Item = Role>) {
        let Some(open) = &mut self.0 else { return };
        for role in by {
            if open.span.first_token.is_none() {
                open.span.first_token = Some(open.begun.elapsed());
            }
            if let Some(made) = open.span.made.get_mut(role.index()) {
                *made += 1;
            }
        }
    }

    /// It goes from one model to another.
    pub(crate) fn handed_off(&mut self, from: Role, to: Role, position: u64) {
        let Some(open) = &mut self.0 else { return };
        if open.span.handoffs.len() < HANDOFFS_KEPT {
            open.span.handoffs.push(Handoff { after: open.begun.elapsed(), from, to, position });
        } else {
            open.span.more_handoffs += 1;
        }
    }

    /// How it ended; without a word its client has left.
    pub(crate) fn end(&mut self, ended: Ended) {
        let Some(open) = &mut self.0 else { return };
        open.span.ended = ended;
        self.hand_in();
    }

    fn hand_in(&mut self) {
        if let Some(mut open) = self.0.take() {
            open.span.lasted = open.begun.elapsed();
            open.traces.take(open.span);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.hand_in();
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Journal(of a journey)" } else { "Journal(of nothing)" })
    }
}

/// Spans that wait for the collector.
const QUEUE: usize = 2048;
/// Of one journey; of the others only the number is told.
const HANDOFFS_KEPT: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_collector_does_not_take_is_dropped_and_counted_and_nobody_waits() {
        // Nobody listens there, so the queue fills.
        let config =
            Tracing { endpoint: Some("http://127.0.0.1:9/v1/traces".to_owned()), ..Tracing::default() };
        let traces = Arc::new(Traces::start(&config).expect("a thread"));
        let begin = || Begin { parent: None, name: "x".to_owned(), models: &[], attributes: Vec::new() };
        for _ in 0..2 * QUEUE + 600 {
            drop(traces.begin(begin()));
        }
        assert!(traces.counts()[1] > 0, "{:?}", traces.counts());
        traces.join();
        assert_eq!(traces.counts()[0], 0);
        assert_eq!(traces.counts()[1], 2 * QUEUE as u64 + 600);
    }
}
