//! How a revision does: its breaker, and counters that anyone may read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::breaker::{Admission, Breaker, BreakerRule, Phase, Probed};
use crate::digest::Digest;
use crate::error::{Fault, PolicyError};
use crate::pace::LaneHealth;
use crate::session::Standing;

/// How a revision does.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    /// Whether it gets new sessions.
    pub state: HealthState,
    /// Since when.
    pub since: SystemTime,
    /// Calls that succeeded.
    pub calls: u64,
    /// Sessions that it failed.
    pub failures: u64,
    /// The same by [`PolicyError::cause`].
    pub failures_by_cause: BTreeMap<&'static str, u64>,
    /// Journeys that went on without it: after a failure, an answer that could not be followed, or a refused session.
    pub fallbacks: u64,
    /// What the last failure was.
    pub last_error: Option<String>,
    /// Sessions that lost their instance by another's failure and went on as if nothing had happened.
    pub sessions_restored: u64,
    /// Sessions that lost their instance and their state with it, and began anew.
    pub sessions_restarted: u64,
    /// Instances that sessions share or wait for sessions.
    pub instances: usize,
    /// Tenants whose sessions get instances of their own for a while, after repeated failures.
    pub tenants_apart: usize,
    /// Where its calls are made.
    pub lane: LaneHealth,
}

/// Whether a revision gets new sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// It does.
    Closed,
    /// It failed too often and does not.
    Open {
        /// When a session is let through to see whether it works again.
        retry_in: Duration,
    },
    /// One session finds out whether it works again.
    Probing,
}

/// Written by the sessions of a revision.
pub(crate) struct Pulse {
    breaker: Mutex<Breaker>,
    calls: AtomicU64,
    failures: AtomicU64,
    fallbacks: AtomicU64,
    last: Mutex<Last>,
    restored: AtomicU64,
    restarted: AtomicU64,
}

/// About failures; written when there is one.
#[derive(Clone, Default)]
struct Last {
    error: Option<String>,
    by_cause: BTreeMap<&'static str, u64>,
}

impl Pulse {
    pub(crate) fn new(rule: BreakerRule, now: Instant) -> Self {
        Self {
            breaker: Mutex::new(Breaker::new(rule, now)),
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            fallbacks: AtomicU64::new(0),
            last: Mutex::default(),
            restored: AtomicU64::new(0),
            restarted: AtomicU64::new(0),
        }
    }

    /// Whether a journey's session may begin, and what its calls then count for.
    pub(crate) fn admit(&self, revision: Digest, now: Instant) -> Result<Standing, PolicyError> {
        let admission = self.breaker().admit(now);
        match admission {
            Admission::Session => Ok(Standing::Journey),
            Admission::Probe => Ok(Standing::Probe { calls: 0 }),
            Admission::Refused { retry_in } => Err(PolicyError::BreakerOpen {
                revision,
                failures: self.failures.load(Ordering::Relaxed),
                last: self.last().error.clone().unwrap_or_default(),
                retry_in,
            }),
        }
    }

    /// A call has succeeded. No lock and no clock: this is on the path of every token.
    pub(crate) fn succeeded(&self, standing: Standing) -> Standing {
        let Standing::Probe { calls } = standing else {
            if standing == Standing::Journey {
                self.calls.fetch_add(1, Ordering::Relaxed);
            }
            return standing;
        };
        let (calls, mut breaker) = (calls + 1, self.breaker());
        if calls < breaker.probe_calls() {
            return Standing::Probe { calls };
        }
        breaker.probed(Instant::now(), Probed::Works);
        Standing::Journey
    }

    /// A session has failed; what is no fault of the policy is not counted.
    pub(crate) fn failed(&self, standing: Standing, error: &PolicyError, now: Instant) {
        let ours = error.fault() != Fault::Policy;
        if ours || standing == Standing::Rehearsal {
            return self.probe_ended(standing, now);
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last();
        last.error = Some(error.to_string());
        *last.by_cause.entry(error.cause()).or_default() += 1;
        drop(last);
        match standing {
            Standing::Probe { .. } => self.breaker().probed(now, Probed::Failed),
            _ => self.breaker().failed(now, self.calls.load(Ordering::Relaxed)),
        }
    }

    /// A session is over without a failure.
    pub(crate) fn probe_ended(&self, standing: Standing, now: Instant) {
        if let Standing::Probe { calls } = standing {
            let outcome = if calls > 0 { Probed::Works } else { Probed::Nothing };
            self.breaker().probed(now, outcome);
        }
    }

    /// A session that lost its instance goes on.
    pub(crate) fn restored(&self, exact: bool) {
        let counter = if exact { &self.restored } else { &self.restarted };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A journey goes on without the policy.
    pub(crate) fn fell_back(&self) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// `instances`, `tenants_apart` and `lane` are known elsewhere.
    pub(crate) fn health(
        &self,
        now: Instant,
        (instances, tenants_apart): (usize, usize),
        lane: LaneHealth,
    ) -> Health {
        let (phase, since) = self.breaker().phase();
        let state = match phase {
            Phase::Closed => HealthState::Closed,
            Phase::Open { until } => HealthState::Open { retry_in: until.saturating_duration_since(now) },
            Phase::Probing => HealthState::Probing,
        };
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Last { error: last_error, by_cause: failures_by_cause } = self.last().clone();
        Health {
            state,
            since: SystemTime::now() - now.saturating_duration_since(since),
            calls: load(&self.calls),
            failures: load(&self.failures),
            failures_by_cause,
            fallbacks: load(&self.fallbacks),
            last_error,
            sessions_restored: load(&self.restored),
            sessions_restarted: load(&self.restarted),
            instances,
            tenants_apart,
            lane,
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        // Its rules do not panic half way.
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
