//! One tenant while the server runs: its settings, and what it uses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use scheduler::Tenant;
use tenant::quota::Level;
use tenant::{Ledger, Table};

use crate::http::clock::Clock;
use crate::http::error::ApiError;
use crate::runtime::{Bill, Catalog, Route};

/// One tenant.
pub(super) struct Member {
    name: String,
    table: Table,
    identity: Tenant,
    /// Every call is one short step under this lock, so what fits is admitted exactly, however many ask at once.
    ledger: Mutex<Ledger>,
    clock: Clock,
}

impl Member {
    pub(super) fn new(name: &str, table: &Table, identity: Tenant, clock: Clock) -> Self {
        let ledger = Mutex::new(Ledger::new(table.quotas));
        Self { name: name.to_owned(), table: table.clone(), identity, ledger, clock }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn identity(&self) -> Tenant {
        self.identity
    }

    pub(super) fn find<'a>(&self, catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Route>> {
        let route = catalog.routes.get(name)?;
        if route.is_model() {
            self.table.model(&catalog.routes, name)
        } else {
            self.table.route(&catalog.routes, name)
        }
    }

    pub(super) fn reserve(self: &Arc<Self>, tokens: usize) -> Result<Bill, ApiError> {
        let ask = tenant::Ask { journeys: 1, tokens: tokens as u64 };
        let reserved = self.ledger().reserve(ask, self.clock.elapsed());
        let reservation = reserved.map_err(|refused| ApiError::over_quota(&refused))?;
        let member = Arc::clone(self);
        Ok(Bill::to(move |used| {
            let now = member.clock.elapsed();
            member.ledger().settle(reservation, used, now);
        }))
    }

    pub(super) fn tell_quotas(&self, headers: &mut HeaderMap) {
        let levels = self.ledger().levels(self.clock.elapsed());
        for (level, [limit, left, reset]) in levels.into_iter().zip(HEADERS) {
            let Some(Level { limit: most, left: remaining, whole_in }) = level else { continue };
            headers.insert(limit, most.into());
            headers.insert(left, remaining.into());
            headers.insert(reset, span(whole_in));
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
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
