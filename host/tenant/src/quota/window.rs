//! Amounts of the last minute, by whole seconds.

use std::collections::VecDeque;
use std::time::Duration;

/// Amounts by the second in which they were added; at most 61 of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    now: Duration,
    seconds: VecDeque<(u64, u64)>,
    sum: u64,
}

impl Window {
    /// Forgets what is older than a minute. A time before the last one is taken as the last one.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        while let Some(&(second, amount)) = self.seconds.front() {
            if ends(second) > self.now {
                break;
            }
            self.sum -= amount;
            self.seconds.pop_front();
        }
    }

    /// Adds an amount now.
    pub(super) fn add(&mut self, amount: u64) {
        let second = self.now.as_secs();
        self.sum = self.sum.saturating_add(amount);
        match self.seconds.back_mut() {
            Some((last, sum)) if *last == second => *sum = sum.saturating_add(amount),
            _ => self.seconds.push_back((second, amount)),
        }
    }

    /// What counts now.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// How long until at least this amount counts no more; None if there is not so much.
    pub(super) fn until_freed(&self, amount: u64) -> Option<Duration> {
        let mut freed = 0u64;
        let second = self.seconds.iter().find_map(|&(second, amount_then)| {
            freed = freed.saturating_add(amount_then);
            (freed >= amount).then_some(second)
        })?;
        Some(ends(second) - self.now)
    }
}

/// When what was added in this second counts no more: a minute after its end.
fn ends(second: u64) -> Duration {
    Duration::from_secs(second + 1 + MINUTE_S)
}

const MINUTE_S: u64 = 60;

/// For how long an amount counts at most.
pub(super) const MOST: Duration = Duration::from_secs(MINUTE_S + 1);
