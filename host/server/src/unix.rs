//! Times since 1970, as answers, records and keys have them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whole seconds, now.
pub(crate) fn now_s() -> u64 {
    now().as_secs()
}

/// Whole milliseconds, now.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(now().as_millis()).unwrap_or(u64::MAX)
}

/// Seconds, at a time.
pub(crate) fn seconds(at: SystemTime) -> f64 {
    since(at).as_secs_f64()
}

fn now() -> Duration {
    since(SystemTime::now())
}

/// A clock that is set before 1970 shows 1970.
fn since(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}
