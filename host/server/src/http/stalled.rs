//! Answers that nobody takes in.
//!
//! A client that stops reading holds what its answer has made, and its journey until that is over. hyper asks a body for more
//! only while the client takes more, so how long nobody has asked says how long nothing was taken. The content of such a
//! body is dropped, and with it the journey; its connection may serve others, so it stays. That the last bytes of an answer,
//! which hyper holds, are not taken in is found by the connection itself.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

use super::running::RunningAnswer;

/// The bodies that are being sent.
#[derive(Clone)]
pub(super) struct Bodies(Arc<Shared>);

struct Shared {
    begun: Instant,
    open: Mutex<HashMap<u64, Weak<Content>>>,
    next: AtomicU64,
}

/// A body that can be taken from its reader.
pub(super) struct Watched {
    number: u64,
    content: Arc<Content>,
    bodies: Bodies,
    /// Counts as a request of its connection to its end.
    _answer: RunningAnswer,
}

struct Content {
    /// None once it was taken. Nobody else ever wants it at the same time but to take it.
    body: Mutex<Option<Body>>,
    /// When it last gave something, in milliseconds since the server began, or [`WAITS`] while it has nothing to give.
    gave_ms: AtomicU64,
}

/// Nobody took the answer in.
#[derive(Debug, thiserror::Error)]
#[error("the client took in nothing of its answer for too long")]
pub(super) struct Stalled;

impl Bodies {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared { begun: Instant::now(), open: Mutex::default(), next: AtomicU64::new(0) }))
    }

    /// Watches over a body.
    pub(super) fn watch(&self, body: Body, answer: RunningAnswer) -> Watched {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let content =
            Arc::new(Content { body: Mutex::new(Some(body)), gave_ms: AtomicU64::new(self.now_ms()) });
        self.open().insert(number, Arc::downgrade(&content));
        Watched { number, content, bodies: self.clone(), _answer: answer }
    }

    /// Ends those of which nobody has taken anything for so long.
    pub(super) fn end_stalled(&self, limit: Duration) {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let now_ms = self.now_ms();
        let stalled: Vec<Arc<Content>> = {
            let open = self.open();
            let bodies = open.values().filter_map(Weak::upgrade);
            bodies.filter(|content| content.has_stalled(now_ms, limit_ms)).collect()
        };
        // Their drop cancels journeys: not under the lock.
        for content in stalled {
            if content.take().is_some() {
                tracing::info!("an answer that nobody takes in is ended");
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(WAITS - 1)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Weak<Content>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn has_stalled(&self, now_ms: u64, limit_ms: u64) -> bool {
        let gave_ms = self.gave_ms.load(Ordering::Relaxed);
        gave_ms != WAITS && now_ms.saturating_sub(gave_ms) > limit_ms
    }

    fn take(&self) -> Option<Body> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Body>> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let mut body = self.content.lock();
        let Some(body) = body.as_mut() else { return Poll::Ready(Some(Err(Stalled.into()))) };
        let polled = Pin::new(body).poll_frame(context);
        // One look at the clock a frame, beside the system call that sends it.
        let gave_ms = if matches!(polled, Poll::Ready(Some(_))) { self.bodies.now_ms() } else { WAITS };
        self.content.gave_ms.store(gave_ms, Ordering::Relaxed);
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.content.lock().as_ref().is_some_and(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.content.lock().as_ref().map_or_else(SizeHint::default, hyper::body::Body::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bodies.open().remove(&self.number);
    }
}

const WAITS: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use hyper::body::Body as _;

    use super::super::running::Running;
    use super::*;

    fn polled(body: &mut Watched) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        Pin::new(body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn what_nobody_asks_for_is_ended_and_what_has_nothing_to_give_is_not() {
        let (bodies, running) = (Bodies::new(), Running::default());
        let mut unread = bodies.watch(Body::from("x"), running.begin());
        let mut waiting = bodies.watch(Body::new(Silent), running.begin());
        assert!(polled(&mut waiting).is_pending());
        bodies.end_stalled(Duration::MAX);
        assert!(matches!(polled(&mut unread), Poll::Ready(Some(Ok(_)))));
        while bodies.now_ms() < 2 {
            std::thread::yield_now();
        }
        unread.content.gave_ms.store(0, Ordering::Relaxed);
        bodies.end_stalled(Duration::ZERO);
        assert!(matches!(polled(&mut unread), Poll::Ready(Some(Err(_)))));
        assert!(polled(&mut waiting).is_pending());
        drop((unread, waiting));
        assert!(bodies.open().is_empty());
    }

    /// A body whose answer is not there yet.
    struct Silent;

    impl hyper::body::Body for Silent {
        type Data = Bytes;
        type Error = axum::BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
            Poll::Pending
        }
    }
}
