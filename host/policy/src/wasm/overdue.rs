//! Whether a call that has taken long has run long, or was only kept waiting.
//!
//! On a busy machine a thread may wait for a processor longer than any sensible deadline, and a guest that did nothing
//! wrong would be stopped. So a deadline that has passed on the clock on the wall is looked at again by the processor's
//! time of the thread. Asking for that costs a system call, so nobody asks before the first deadline has passed; a guest
//! that runs all the time is stopped after twice its deadline at the latest.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wasmtime::UpdateDeadline;

use super::ticker::ticks;

/// The deadline of one call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overdue {
    deadline: Duration,
    /// Processor time of the thread when the deadline passed for the first time.
    since: Option<Duration>,
}

impl Overdue {
    /// Of a call that may take so long.
    pub(super) fn after(deadline: Duration) -> Self {
        Self { deadline, since: None }
    }

    /// The deadline has passed on the wall's clock; `used` is the processor time of the thread.
    pub(super) fn judge(&mut self, used: Duration) -> UpdateDeadline {
        let since = *self.since.get_or_insert(used);
        match self.deadline.checked_sub(used.saturating_sub(since)) {
            Some(left) if !left.is_zero() => UpdateDeadline::Continue(ticks(left)),
            _ => UpdateDeadline::Interrupt,
        }
    }
}

/// What the processor has done for this thread so far.
pub(super) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_guest_that_was_kept_waiting_goes_on_and_one_that_ran_is_stopped() {
        let mut waited = Overdue::after(ms(50));
        for _ in 0..100 {
            assert!(matches!(waited.judge(ms(7)), UpdateDeadline::Continue(11)));
        }
        assert!(matches!(waited.judge(ms(37)), UpdateDeadline::Continue(5)), "20 of 50 ms are left");
        assert!(matches!(waited.judge(ms(57)), UpdateDeadline::Interrupt));
    }

    #[test]
    fn the_processors_time_passes_with_work_only() {
        let before = processor_time();
        let mut work = 0_u64;
        while processor_time() == before {
            work = std::hint::black_box(work + 1);
        }
        assert!(processor_time() > before);
    }
}
