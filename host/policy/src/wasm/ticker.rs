//! The clock of the deadlines: a thread that advances the engine's epoch.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

use crate::error::PolicyError;

/// Advances the epoch every [`TICK`] until it is dropped.
pub(super) struct Ticker {
    /// Nothing is sent; dropping it ends the thread. Always `Some` until then.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(super) fn start(engine: Engine) -> Result<Self, PolicyError> {
        let (stop, stopped) = mpsc::channel();
        let tick = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        };
        let thread = thread::Builder::new()
            .name(NAME.to_owned())
            .spawn(tick)
            .map_err(|source| PolicyError::Thread { name: NAME, source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread {NAME} panicked");
        }
    }
}

/// Ticks until `deadline` has certainly passed: the tick under way may end at once, so one more than fits.
pub(super) fn ticks(deadline: Duration) -> u64 {
    deadline.as_nanos().div_ceil(TICK.as_nanos()) as u64 + 1
}

/// How exact a deadline is. A guest in a loop is stopped at most this long after it.
const TICK: Duration = Duration::from_millis(5);
const NAME: &str = "policy-clock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_cut_short() {
        assert_eq!(ticks(Duration::from_millis(1)), 2);
        assert_eq!(ticks(Duration::from_millis(100)), 21);
        assert_eq!(ticks(Duration::from_millis(101)), 22);
    }
}
