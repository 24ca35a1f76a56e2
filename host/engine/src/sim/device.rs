//! A device that does not compute: work on it takes its time, and twice as long beside other work.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A device on which steps only take time. What runs at once shares its speed equally.
#[derive(Debug)]
pub struct SimDevice {
    running: Mutex<Running>,
}

/// The work that is not done.
#[derive(Debug)]
struct Running {
    /// Seconds left of each, were it alone.
    left: BTreeMap<u64, f64>,
    /// When that was so.
    at: Instant,
    next: u64,
}

/// A piece of work that has begun.
pub(super) struct Work<'a> {
    device: &'a SimDevice,
    id: u64,
}

impl Default for SimDevice {
    fn default() -> Self {
        Self { running: Mutex::new(Running { left: BTreeMap::new(), at: Instant::now(), next: 0 }) }
    }
}

impl SimDevice {
    /// Begins work of so many seconds, counted from `begun`.
    pub(super) fn begin(&self, begun: Instant, seconds: f64) -> Work<'_> {
        let mut running = self.lock();
        running.advance(begun);
        let id = running.next;
        running.next += 1;
        if seconds > 0.0 {
            running.left.insert(id, seconds);
        }
        Work { device: self, id }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work<'_> {
    /// Sleeps until the work is done.
    pub(super) fn finish(self) {
        while let Some(wait) = self.device.lock().until_change(self.id, Instant::now()) {
            thread::park_timeout(wait);
        }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.device.lock().left.remove(&self.id);
    }
}

impl Running {
    /// Lets time pass; work that ends in between leaves its share of the speed to the others from then on.
    fn advance(&mut self, now: Instant) {
        let mut passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        while let Some(least) = self.least() {
            let count = self.left.len() as f64;
            let done = least.min(passed / count);
            self.left.values_mut().for_each(|left| *left -= done);
            if done < least {
                return;
            }
            self.left.retain(|_, left| *left > 0.0);
            passed -= least * count;
        }
    }

    /// How long it takes until some work ends, if this one has not ended by `now`.
    fn until_change(&mut self, id: u64, now: Instant) -> Option<Duration> {
        self.advance(now);
        self.left.contains_key(&id).then(|| {
            let seconds = self.least().unwrap_or_default() * self.left.len() as f64;
            Duration::from_secs_f64(seconds) + SHORTEST
        })
    }

    fn least(&self) -> Option<f64> {
        self.left.values().copied().min_by(f64::total_cmp)
    }
}

/// So that a wait never rounds to nothing.
const SHORTEST: Duration = Duration::from_nanos(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_at_once_shares_the_speed_and_what_ends_gives_its_part_back() {
        let device = SimDevice::default();
        let begun = Instant::now();
        let after = |ms: u64| begun + Duration::from_millis(ms);
        let long = device.begin(begun, 0.030);
        let short = device.begin(after(10), 0.005);
        let mut running = device.lock();
        // 20 ms are left of the long one; the short one ends at 20 ms, having cost 10 ms at half speed.
        assert!(running.until_change(short.id, after(19)).is_some());
        assert_eq!(running.until_change(short.id, after(21)), None);
        // 30 + 5 ms of work in all, and the device was never idle.
        assert!(running.until_change(long.id, after(34)).is_some());
        assert_eq!(running.until_change(long.id, after(36)), None);
        drop(running);
        drop((long, short));
    }

    #[test]
    fn work_without_time_is_done_at_once() {
        let device = SimDevice::default();
        device.begin(Instant::now(), 0.0).finish();
        assert!(device.lock().left.is_empty());
    }
}
