//! Where the calls of a revision are made, tenant by tenant.
//!
//! Written by every call that is measured. As long as nobody is slow that is one comparison and two relaxed additions;
//! the lock is taken by calls over the budget, and while somebody is watched.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::lane::{Cost, Lane, LaneRule, Pace, Reason};

/// Where calls are made, for those who watch over the server.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneHealth {
    /// Of tenants that are not slow by themselves.
    pub lane: Lane,
    /// Why and since when it is its own.
    pub away: Option<(Reason, SystemTime)>,
    /// Tenants that are slow by themselves: how many, and the latest reason.
    pub tenants: usize,
    /// Of the tenant that was sent away last.
    pub tenant_away: Option<(Reason, SystemTime)>,
    /// Calls made outside of steps.
    pub calls: u64,
    /// Time of all calls, what a thread had to wait in them included.
    pub call_time: Duration,
}

/// See the module.
pub(crate) struct Paces {
    rule: LaneRule,
    /// Whether anybody is slow, or has been over the budget lately.
    watched: AtomicBool,
    /// Of the whole revision, and of tenants by themselves.
    paces: Mutex<(Pace, BTreeMap<u64, Pace>)>,
    /// Calls made in a lane.
    calls: AtomicU64,
    /// Nanoseconds of all calls.
    time_ns: AtomicU64,
}

impl Paces {
    pub(crate) fn new(rule: LaneRule, now: Instant) -> Self {
        let mut all = Pace::new(&rule, now);
        let always = rule.in_step.is_zero();
        if always {
            all.send_away(&rule, now, Reason::Always);
        }
        Self {
            rule,
            watched: AtomicBool::new(always),
            paces: Mutex::new((all, BTreeMap::new())),
            calls: AtomicU64::new(0),
            time_ns: AtomicU64::new(0),
        }
    }

    /// Where a tenant's next call is made.
    pub(crate) fn lane(&self, tenant: u64) -> Lane {
        if !self.watched.load(Ordering::Relaxed) {
            return Lane::InStep;
        }
        let paces = self.lock();
        let (all, tenants) = &*paces;
        match all.lane() {
            Lane::InStep => tenants.get(&tenant).map_or(Lane::InStep, Pace::lane),
            Lane::Own => Lane::Own,
        }
    }

    /// A call of a tenant was made.
    pub(crate) fn note(&self, tenant: u64, (lane, cost): (Lane, &Cost), now: Instant) {
        let ns = u64::try_from(cost.time.as_nanos()).unwrap_or(u64::MAX);
        self.time_ns.fetch_add(ns, Ordering::Relaxed);
        self.calls.fetch_add(u64::from(lane == Lane::Own), Ordering::Relaxed);
        if self.watched.load(Ordering::Relaxed) || !self.rule.is_fast(cost) {
            self.weigh(tenant, cost, now);
        }
    }

    /// What most calls of a rehearsal took.
    pub(crate) fn rehearsed(&self, time: Duration, now: Instant) {
        if time > self.rule.in_step {
            self.watched.store(true, Ordering::Relaxed);
            self.lock().0.send_away(&self.rule, now, Reason::Rehearsal(time));
        }
    }

    pub(crate) fn health(&self, now: Instant) -> LaneHealth {
        let at = |(reason, since): (Reason, Instant)| {
            (reason, SystemTime::now() - now.saturating_duration_since(since))
        };
        let paces = self.lock();
        let (all, tenants) = &*paces;
        let away = tenants.values().filter_map(Pace::away);
        LaneHealth {
            lane: all.lane(),
            away: all.away().map(at),
            tenants: away.clone().count(),
            tenant_away: away.max_by_key(|(_, since)| *since).map(at),
            calls: self.calls.load(Ordering::Relaxed),
            call_time: Duration::from_nanos(self.time_ns.load(Ordering::Relaxed)),
        }
    }

    fn weigh(&self, tenant: u64, cost: &Cost, now: Instant) {
        let mut paces = self.lock();
        let (all, tenants) = &mut *paces;
        let rule = &self.rule;
        if rule.in_step.is_zero() {
            return;
        }
        if all.lane() == Lane::Own {
            all.note(rule, now, cost);
        } else {
            tenants.entry(tenant).or_insert_with(|| Pace::new(rule, now)).note(rule, now, cost);
            let slow = tenants.values().filter(|pace| pace.lane() == Lane::Own).count();
            if slow > rule.tenants_most {
                all.send_away(rule, now, Reason::Tenants);
                tenants.clear();
            }
        }
        tenants.retain(|_, pace| !pace.is_forgotten(rule, now));
        if tenants.len() > TENANTS_WATCHED {
            tenants.retain(|_, pace| pace.lane() == Lane::Own);
        }
        let remembered = !tenants.is_empty() || !all.is_forgotten(rule, now);
        self.watched.store(remembered, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, (Pace, BTreeMap<u64, Pace>)> {
        // Its rules do not panic half way.
        self.paces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tenants that were over the budget now and then, of whom nothing is proved; beyond them nothing is remembered.
const TENANTS_WATCHED: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Cost = Cost { time: Duration::from_micros(1), fuel: 40, grown: 0 };
    const BURNS: Cost = Cost { time: Duration::from_micros(1500), fuel: 2_000_000, grown: 0 };

    fn note(paces: &Paces, tenant: u64, cost: &Cost, now: Instant) {
        paces.note(tenant, (paces.lane(tenant), cost), now);
    }

    #[test]
    fn a_slow_tenant_is_slow_alone_and_many_are_the_revision() {
        let now = Instant::now();
        let paces = Paces::new(LaneRule::default(), now);
        note(&paces, 1, &BURNS, now);
        assert_eq!((paces.lane(1), paces.lane(2)), (Lane::Own, Lane::InStep));
        note(&paces, 2, &BURNS, now);
        note(&paces, 3, &BURNS, now);
        assert_eq!(paces.lane(4), Lane::InStep);
        note(&paces, 4, &BURNS, now);
        assert_eq!(paces.lane(5), Lane::Own);
        assert_eq!(paces.health(now).away.map(|(reason, _)| reason), Some(Reason::Tenants));
    }

    #[test]
    fn who_was_over_the_budget_once_is_forgotten() {
        let now = Instant::now();
        let paces = Paces::new(LaneRule::default(), now);
        note(&paces, 1, &Cost { time: Duration::from_millis(4), ..FAST }, now);
        assert!(paces.watched.load(Ordering::Relaxed));
        (0..2000).for_each(|_| note(&paces, 1, &FAST, now));
        assert!(!paces.watched.load(Ordering::Relaxed), "a thousand calls later");
        assert_eq!(paces.lane(1), Lane::InStep);
    }

    #[test]
    fn a_rehearsal_and_a_rule_can_keep_calls_out_of_steps() {
        let now = Instant::now();
        let paces = Paces::new(LaneRule::default(), now);
        paces.rehearsed(Duration::from_micros(49), now);
        assert_eq!(paces.lane(0), Lane::InStep);
        paces.rehearsed(Duration::from_micros(800), now);
        assert_eq!(paces.lane(0), Lane::Own);
        let never = Paces::new(LaneRule { in_step: Duration::ZERO, ..LaneRule::default() }, now);
        (0..2000).for_each(|_| note(&never, 0, &Cost::default(), now + Duration::from_secs(99)));
        assert_eq!(never.lane(0), Lane::Own);
        assert_eq!(never.health(now).calls, 2000);
    }
}
