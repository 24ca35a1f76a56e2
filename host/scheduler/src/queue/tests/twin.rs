//! Naive twins: the rule for several tenants by scanning lists, and round robin as it is without tenants.

use std::collections::{BTreeMap, BTreeSet};

use super::{Limits, Tenant};

struct Waiting {
    id: u64,
    tenant: Tenant,
    pending: usize,
}

/// The rule as it is told, on a list in the order of waiting. Counters are kept for ever.
pub(super) struct Twin {
    limits: Limits,
    queue: Vec<Waiting>,
    counters: BTreeMap<Tenant, u64>,
    floor: u64,
}

impl Twin {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, queue: Vec::new(), counters: BTreeMap::new(), floor: 0 }
    }

    pub(super) fn set_pending(&mut self, id: u64, tenant: Tenant, pending: usize) {
        if let Some(waiting) = self.queue.iter_mut().find(|waiting| waiting.id == id) {
            waiting.pending = pending;
            return;
        }
        self.queue.push(Waiting { id, tenant, pending });
        let counter = self.counters.entry(tenant).or_default();
        *counter = (*counter).max(self.floor);
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.queue.retain(|waiting| waiting.id != id);
        if self.queue.is_empty() {
            self.counters.clear();
        }
    }

    pub(super) fn next_turn(&mut self) -> Vec<(u64, usize)> {
        let (rows_max, tokens_max) = (self.limits.rows_max.get(), self.limits.tokens_max.get());
        let (waiting_before, place) = (self.queue.len(), self.limits.place_cost());
        let mut rows: Vec<Waiting> = Vec::new();
        let mut extra: BTreeMap<Tenant, usize> = BTreeMap::new();
        let mut aside = BTreeSet::new();
        let mut tokens = 0;
        while rows.len() < rows_max.min(waiting_before) && (tokens < tokens_max || tokens == rows.len()) {
            // Those that still wait, then those in the step, so that the first of a tenant here is its next.
            let all = self.queue.iter().chain(&rows).enumerate();
            let asked = all.filter(|(_, waiting)| !aside.contains(&waiting.tenant));
            let Some((at, tenant)) =
                asked.map(|(at, w)| (at, w.tenant)).min_by_key(|(at, tenant)| (self.counters[tenant], *at))
            else {
                break;
            };
            let cost = if at < self.queue.len() {
                rows.push(self.queue.remove(at));
                tokens += 1;
                place
            } else {
                let more = hunger(&rows, &extra, tenant).min(place as usize);
                let more = more.min(tokens_max.saturating_sub(tokens));
                *extra.entry(tenant).or_default() += more;
                tokens += more;
                if more == 0 {
                    aside.insert(tenant);
                }
                more as u64
            };
            *self.counters.get_mut(&tenant).unwrap() += cost;
        }
        while tokens < tokens_max {
            let hungry = rows.iter().map(|w| w.tenant).filter(|tenant| hunger(&rows, &extra, *tenant) > 0);
            let Some(tenant) = hungry.min_by_key(|tenant| (self.counters[tenant], *tenant)) else { break };
            *extra.entry(tenant).or_default() += 1;
            *self.counters.get_mut(&tenant).unwrap() += 1;
            tokens += 1;
        }
        self.settle(&rows, &extra);
        let shares = rows.iter().map(|row| {
            let extra = extra.entry(row.tenant).or_default();
            let more = (row.pending - 1).min(*extra);
            *extra -= more;
            (row.id, 1 + more)
        });
        let shares = shares.collect();
        self.queue.append(&mut rows);
        shares
    }

    fn settle(&mut self, rows: &[Waiting], extra: &BTreeMap<Tenant, usize>) {
        let backlogged = |tenant: &Tenant| {
            self.queue.iter().any(|waiting| waiting.tenant == *tenant) || hunger(rows, extra, *tenant) > 0
        };
        let here: BTreeSet<Tenant> = self.queue.iter().chain(rows).map(|waiting| waiting.tenant).collect();
        let (behind, level): (Vec<Tenant>, Vec<Tenant>) = here.into_iter().partition(backlogged);
        let least = behind.iter().map(|tenant| self.counters[tenant]).min();
        let floor = least.or_else(|| level.iter().map(|tenant| self.counters[tenant]).max());
        self.floor = self.floor.max(floor.unwrap_or(0));
        for tenant in level {
            let counter = self.counters.get_mut(&tenant).unwrap();
            *counter = (*counter).max(self.floor);
        }
    }
}

/// Tokens that a tenant's rows could be fed beyond what they have.
fn hunger(rows: &[Waiting], extra: &BTreeMap<Tenant, usize>, tenant: Tenant) -> usize {
    let more: usize = rows.iter().filter(|row| row.tenant == tenant).map(|row| row.pending - 1).sum();
    more - extra.get(&tenant).copied().unwrap_or(0)
}

/// Round robin over all journeys; spare tokens go to those that have waited longest.
pub(super) struct RoundRobin {
    rows_max: usize,
    tokens_max: usize,
    queue: Vec<(u64, usize)>,
}

impl RoundRobin {
    pub(super) fn new(rows_max: usize, tokens_max: usize) -> Self {
        Self { rows_max, tokens_max, queue: Vec::new() }
    }

    pub(super) fn set_pending(&mut self, id: u64, pending: usize) {
        match self.queue.iter_mut().find(|(other, _)| *other == id) {
            Some(entry) => entry.1 = pending,
            None => self.queue.push((id, pending)),
        }
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.queue.retain(|(other, _)| *other != id);
    }

    pub(super) fn next_turn(&mut self) -> Vec<(u64, usize)> {
        let rows: Vec<(u64, usize)> = self.queue.drain(..self.rows_max.min(self.queue.len())).collect();
        let mut spare = self.tokens_max.saturating_sub(rows.len());
        self.queue.extend(&rows);
        let share = |(id, pending): (u64, usize)| {
            let more = (pending - 1).min(spare);
            spare -= more;
            (id, 1 + more)
        };
        rows.into_iter().map(share).collect()
    }
}
