//! The instances of one revision, and who is in which.
//!
//! Sessions of one tenant share instances, so a session costs a constructor instead of an instance, and hundreds of them
//! fit into the processor's caches. Tenants never share one: an instance has one memory, and a policy that is taken over
//! by what it is shown must not reach another tenant's journeys.
//!
//! A call that fails costs all sessions of its instance their memory. Each is restored elsewhere
//! ([`record`](crate::record)), which is exact but not free, so a tenant whose policy fails again within a minute is *set
//! apart*: for the next minute each of its new and restored sessions has an instance of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::PolicyError;
use crate::limits::{Isolation, Limits};
use crate::placement::Placement;
use crate::slots::Slots;
use crate::wasm::Shared;

/// Written by every session that begins or ends; the lock is held for a look at a few instances.
pub(crate) struct Instances {
    limits: Limits,
    tenants: Mutex<HashMap<u64, Tenant>>,
    /// Instances of the whole host that wait for sessions.
    idle: Arc<Slots>,
}

#[derive(Default)]
struct Tenant {
    placement: Placement<Shared>,
    failures: Failures,
}

/// An instance, and whether others may be in it.
pub(crate) struct Berth {
    pub(crate) shared: Arc<Shared>,
    pub(crate) own: bool,
}

impl Instances {
    pub(crate) fn new(limits: Limits, idle: Arc<Slots>) -> Self {
        Self { limits, tenants: Mutex::default(), idle }
    }

    /// A place for a session of this tenant. `own`: in an instance of its own, whatever the rules say.
    pub(crate) fn enter(
        &self,
        tenant: u64,
        own: bool,
        now: Instant,
        open: impl FnOnce() -> Result<Shared, PolicyError>,
    ) -> Result<Berth, PolicyError> {
        if own || self.limits.isolation == Isolation::Journey || self.is_apart(tenant, now) {
            return Ok(Berth { shared: Arc::new(open()?), own: true });
        }
        let joined = self.lock().entry(tenant).or_default().placement.join(&self.limits, self.usable());
        if let Some(shared) = joined {
            return Ok(Berth { shared, own: false });
        }
        // Opened outside of the lock: whoever comes meanwhile may open one, too.
        let shared = Arc::new(open()?);
        self.lock().entry(tenant).or_default().placement.add(Arc::clone(&shared));
        Ok(Berth { shared, own: false })
    }

    /// A session has ended or was restored elsewhere.
    pub(crate) fn leave(&self, tenant: u64, berth: &Berth) {
        if berth.own {
            return;
        }
        let mut tenants = self.lock();
        let Some(found) = tenants.get_mut(&tenant) else { return };
        // The latest tenant is the likeliest to come again: another one's instance makes room.
        let crowded = self.idle.are_taken() && found.placement.is_last(&berth.shared);
        let evicted = if crowded { evict(&mut tenants) } else { None };
        let Some(found) = tenants.get_mut(&tenant) else { return };
        let idle = || self.idle.take().ok();
        let ended = found.placement.leave(&berth.shared, &self.limits, self.usable(), idle);
        if !found.is_of_use() {
            tenants.remove(&tenant);
        }
        drop(tenants);
        drop((ended, evicted));
    }

    /// A call failed in an instance that this tenant's sessions share.
    pub(crate) fn failed(&self, tenant: u64, now: Instant) {
        let mut tenants = self.lock();
        tenants.entry(tenant).or_default().failures.note(now);
        for other in tenants.values_mut() {
            other.failures.forget(now);
        }
        tenants.retain(|_, tenant| tenant.is_of_use());
    }

    /// Shared instances there are, and tenants set apart.
    pub(crate) fn counts(&self, now: Instant) -> (usize, usize) {
        let tenants = self.lock();
        let instances = tenants.values().map(|tenant| tenant.placement.len()).sum();
        (instances, tenants.values().filter(|tenant| tenant.failures.set_apart(now)).count())
    }

    fn is_apart(&self, tenant: u64, now: Instant) -> bool {
        let mut tenants = self.lock();
        let Some(found) = tenants.get_mut(&tenant) else { return false };
        found.failures.forget(now);
        found.failures.set_apart(now)
    }

    fn usable(&self) -> impl Fn(&Shared) -> bool {
        let full = self.limits.memory_bytes_full();
        move |shared| !shared.is_lost() && shared.memory_bytes() <= full
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Tenant>> {
        // Nothing is called under the lock that could leave it half written.
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenant {
    fn is_of_use(&self) -> bool {
        self.placement.len() > 0 || self.failures.count > 0
    }
}

fn evict(tenants: &mut HashMap<u64, Tenant>) -> Option<Arc<Shared>> {
    let (evicted, tenant) =
        tenants.iter_mut().find_map(|(tenant, found)| Some((found.placement.evict()?, *tenant)))?;
    if tenants.get(&tenant).is_some_and(|tenant| !tenant.is_of_use()) {
        tenants.remove(&tenant);
    }
    Some(evicted)
}

/// A tenant's failures, forgotten after a quiet minute.
#[derive(Default)]
struct Failures {
    count: u32,
    last: Option<Instant>,
}

impl Failures {
    fn note(&mut self, now: Instant) {
        self.forget(now);
        self.count += 1;
        self.last = Some(now);
    }

    fn forget(&mut self, now: Instant) {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= QUIET) {
            *self = Self::default();
        }
    }

    fn set_apart(&self, now: Instant) -> bool {
        let quiet = self.last.is_none_or(|last| now.saturating_duration_since(last) >= QUIET);
        self.count >= FAILURES_APART && !quiet
    }
}

const FAILURES_APART: u32 = 2;
const QUIET: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_set_apart_by_the_second_failure_until_a_quiet_minute() {
        let begin = Instant::now();
        let second = Duration::from_secs(1);
        let mut failures = Failures::default();
        failures.note(begin);
        assert!(!failures.set_apart(begin));
        failures.note(begin + 60 * second);
        assert!(!failures.set_apart(begin + 60 * second), "the first one is forgotten");
        failures.note(begin + 100 * second);
        assert!(failures.set_apart(begin + 159 * second));
        assert!(!failures.set_apart(begin + 160 * second));
    }
}
