//! How many log lines a policy gets: a bucket shared by all sessions of a revision.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Lets [`LINES_PER_SECOND`] through on average and [`BURST`] at once.
pub(super) struct LogQuota {
    bucket: Mutex<Bucket>,
}

struct Bucket {
    /// Lines that may pass now; never above [`BURST`].
    lines: f64,
    filled_at: Instant,
    /// Lines dropped since one last passed.
    dropped: u64,
}

impl LogQuota {
    pub(super) fn new(now: Instant) -> Self {
        Self { bucket: Mutex::new(Bucket { lines: BURST, filled_at: now, dropped: 0 }) }
    }

    /// Takes a line out of the quota: `Some` of the number of lines dropped before it, or `None` to drop this one.
    pub(super) fn take(&self, now: Instant) -> Option<u64> {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = now.saturating_duration_since(bucket.filled_at).as_secs_f64();
        bucket.lines = (bucket.lines + elapsed * LINES_PER_SECOND).min(BURST);
        bucket.filled_at = now;
        if bucket.lines < 1.0 {
            bucket.dropped += 1;
            return None;
        }
        bucket.lines -= 1.0;
        Some(std::mem::take(&mut bucket.dropped))
    }
}

/// The first [`LINE_BYTES`] of a line, cut between characters.
pub(super) fn shorten(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES)]
}

const LINES_PER_SECOND: f64 = 10.0;
const BURST: f64 = 50.0;
const LINE_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_passes_its_burst_and_then_ten_lines_a_second() {
        let begin = Instant::now();
        let quota = LogQuota::new(begin);
        let passed = (0..1000).filter(|_| quota.take(begin).is_some()).count();
        assert_eq!(passed, 50);
        let later = begin + Duration::from_secs(1);
        assert_eq!(quota.take(later), Some(950), "the next line tells how many were lost");
        assert_eq!((0..1000).filter(|_| quota.take(later).is_some()).count(), 9);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let line = "ä".repeat(1000);
        assert_eq!(shorten(&line).len(), 1024);
        assert_eq!(shorten(&format!("x{line}")).len(), 1023);
        assert_eq!(shorten("short"), "short");
    }
}
