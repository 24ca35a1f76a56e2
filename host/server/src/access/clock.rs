//! What time it is for keys and quotas.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::unix;

/// The system's clocks, which whoever holds a clone can put forward: a test need not wait for a minute to pass.
#[derive(Clone, Debug)]
pub struct Clock {
    started: Instant,
    /// Seconds by which it was put forward.
    skipped: Arc<AtomicU64>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { started: Instant::now(), skipped: Arc::default() }
    }
}

impl Clock {
    /// Puts it forward, for everybody who has it.
    pub fn skip(&self, seconds: u64) {
        self.skipped.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The time since it was made; it never goes back.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed() + Duration::from_secs(self.skipped.load(Ordering::Relaxed))
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn unix_s(&self) -> u64 {
        unix::now_s() + self.skipped.load(Ordering::Relaxed)
    }
}
