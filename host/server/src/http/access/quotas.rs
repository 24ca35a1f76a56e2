//! What is left of a caller's quotas, in the headers that OpenAI's clients know.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tenant::quota::Level;

use crate::access::Caller;

/// Tells in the headers of an answer what is left of the quotas.
pub(in crate::http) fn tell_quotas(caller: &Caller, headers: &mut HeaderMap) {
    for (level, [limit, left, reset]) in caller.levels().into_iter().zip(HEADERS) {
        let Some(Level { limit: most, left: remaining, whole_in }) = level else { continue };
        headers.insert(limit, most.into());
        headers.insert(left, remaining.into());
        headers.insert(reset, span(whole_in));
    }
}

/// A time as OpenAI writes it: `1s`, `6m0s`.
fn span(time: Duration) -> HeaderValue {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let text =
        if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) };
    HeaderValue::from_str(&text).expect("digits and letters are valid in a header")
}

/// For requests and for tokens: the bound, what is left, and in which time all of it is there again.
const HEADERS: [[HeaderName; 3]; 2] = [
    [
        HeaderName::from_static("x-ratelimit-limit-requests"),
        HeaderName::from_static("x-ratelimit-remaining-requests"),
        HeaderName::from_static("x-ratelimit-reset-requests"),
    ],
    [
        HeaderName::from_static("x-ratelimit-limit-tokens"),
        HeaderName::from_static("x-ratelimit-remaining-tokens"),
        HeaderName::from_static("x-ratelimit-reset-tokens"),
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_openai_writes_them() {
        let written = [0, 1, 1500, 59_001, 60_000, 61_000].map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(written, ["0s", "1s", "2s", "1m0s", "1m0s", "1m1s"]);
    }
}
