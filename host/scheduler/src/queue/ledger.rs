//! What each tenant was served, and whose turn that makes it.
//!
//! Separate from the choice of a step, so that the rule by which counters rise and are lifted stands in one place. It
//! knows nothing of budgets. A tenant without residents is remembered only as long as its counter is above the floor:
//! below it, coming back would lift it to the floor anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use journey::JourneyId;

use super::{SHARE_MAX, Tenant};

/// One tenant.
#[derive(Debug, Default)]
struct Account {
    /// Service so far, or the floor at which it came back, over the tenant's share; parts of a token.
    counter: u64,
    /// What a token adds to it.
    step: u64,
    /// Its residents by ticket, those that have waited longest first.
    queue: BTreeMap<u64, JourneyId>,
}

/// A tenant in the order of service: by counter, then by how long its first journey has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Next {
    counter: u64,
    /// Of its journey that has waited longest.
    pub(super) ticket: u64,
    pub(super) tenant: Tenant,
}

/// Counters of all tenants that have residents, or have had more than those that do.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<Tenant, Account>,
    /// Tenants with residents, but those that were set aside.
    order: BTreeSet<Next>,
    /// Tenants that have all they can get of the step that is being chosen.
    aside: Vec<Next>,
    /// Tenants without residents whose counter is above the floor.
    absent: BTreeSet<(u64, Tenant)>,
    /// No tenant with residents has a lower counter; never falls.
    floor: u64,
}

impl Ledger {
    /// A journey joins the queue of its tenant, whose counter is lifted to the floor if it comes back.
    pub(super) fn admit(&mut self, (tenant, share): (Tenant, NonZeroU32), ticket: u64, journey: JourneyId) {
        let floor = self.floor;
        let account = self.accounts.entry(tenant).or_default();
        self.absent.remove(&(account.counter, tenant));
        self.update(tenant, |account| {
            account.counter = account.counter.max(floor);
            account.step = step(share);
            account.queue.insert(ticket, journey);
        });
    }

    /// A journey leaves the queue of its tenant.
    pub(super) fn withdraw(&mut self, tenant: Tenant, ticket: u64) {
        self.update(tenant, |account| {
            account.queue.remove(&ticket);
        });
        if self.order.is_empty() {
            // Nobody waits any more, so nobody was served at the expense of anybody who does.
            self.accounts.clear();
            self.absent.clear();
        } else if self.first_ticket(tenant).is_none() {
            self.absent.insert((self.counter(tenant), tenant));
            self.forget_the_lifted();
        }
    }

    /// The tenant's first journey goes to the back of its queue.
    pub(super) fn requeue(&mut self, next: Next, behind: u64) -> Option<JourneyId> {
        let mut journey = None;
        self.update(next.tenant, |account| {
            journey = account.queue.remove(&next.ticket);
            account.queue.extend(journey.map(|journey| (behind, journey)));
        });
        journey
    }

    /// A tenant is served this much, tokens.
    pub(super) fn charge(&mut self, tenant: Tenant, cost: u64) {
        self.update(tenant, |account| account.counter += cost * account.step);
    }

    /// A tenant is not asked again before [`Self::take_back`].
    pub(super) fn set_aside(&mut self, next: Next) {
        self.order.remove(&next);
        self.aside.push(next);
    }

    /// Those that were set aside are asked again.
    pub(super) fn take_back(&mut self) {
        self.order.extend(self.aside.drain(..));
    }

    /// A step was chosen that serves these tenants in full. The floor rises to the least counter of the others, and they
    /// rise with it: they could have had more, so nothing is owed to them.
    pub(super) fn settle(&mut self, in_full: &[Tenant]) {
        let keys: Vec<Next> = in_full.iter().filter_map(|tenant| self.key(*tenant)).collect();
        for key in keys {
            self.order.remove(&key);
        }
        let most = in_full.iter().map(|tenant| self.counter(*tenant)).max();
        let least = self.least().map(|next| next.counter).or(most).unwrap_or(0);
        self.floor = self.floor.max(least);
        let floor = self.floor;
        for tenant in in_full {
            self.update(*tenant, |account| account.counter = account.counter.max(floor));
        }
        self.forget_the_lifted();
    }

    /// The tenant that is served next.
    pub(super) fn least(&self) -> Option<Next> {
        self.order.first().copied()
    }

    /// A tenant's counter, and what a token adds to it.
    pub(super) fn level(&self, tenant: Tenant) -> (u64, u64) {
        self.accounts.get(&tenant).map_or((0, TOKEN), |account| (account.counter, account.step))
    }

    /// What a tenant was served over its share, parts of a token.
    pub(super) fn counter(&self, tenant: Tenant) -> u64 {
        self.accounts.get(&tenant).map_or(0, |account| account.counter)
    }

    /// The ticket of a tenant's journey that has waited longest.
    pub(super) fn first_ticket(&self, tenant: Tenant) -> Option<u64> {
        self.key(tenant).map(|key| key.ticket)
    }

    /// Number of tenants that are remembered.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.accounts.len()
    }

    /// Changes an account and moves the tenant to where it then belongs.
    fn update(&mut self, tenant: Tenant, change: impl FnOnce(&mut Account)) {
        if let Some(key) = self.key(tenant) {
            self.order.remove(&key);
        }
        if let Some(account) = self.accounts.get_mut(&tenant) {
            change(account);
        }
        self.order.extend(self.key(tenant));
    }

    fn key(&self, tenant: Tenant) -> Option<Next> {
        let account = self.accounts.get(&tenant)?;
        let ticket = *account.queue.first_key_value()?.0;
        Some(Next { counter: account.counter, ticket, tenant })
    }

    fn forget_the_lifted(&mut self) {
        while let Some((_, tenant)) =
            self.absent.first().copied().filter(|(counter, _)| *counter <= self.floor)
        {
            self.absent.pop_first();
            self.accounts.remove(&tenant);
        }
    }
}

/// What a token adds to the counter of a tenant with this share.
pub(super) fn step(share: NonZeroU32) -> u64 {
    TOKEN / u64::from(share.get().min(SHARE_MAX))
}

/// Parts of a token in which counters are kept, so that a token over a share is a whole number of them.
const TOKEN: u64 = 1 << 20;
