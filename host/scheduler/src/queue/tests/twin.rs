//! Naive twins: the rule for several tenants by scanning lists, and round robin as it is without tenants.

use std::collections::{BTreeMap, BTreeSet};

use super::{Behalf, Limits, Tenant};
use crate::queue::ledger::step;

struct Waiting {
    id: u64,
    tenant: Tenant,
    pending: usize,
}

/// What a tenant gets: those of a lower rank go first, and a token adds a step to its counter. It never changes.
#[derive(Clone, Copy)]
struct Standing {
    rank: u8,
    step: u64,
}

/// The rule as it is told, on a list in the order of waiting. Counters are kept for ever.
pub(super) struct Twin {
    limits: Limits,
    queue: Vec<Waiting>,
    counters: BTreeMap<Tenant, u64>,
    standings: BTreeMap<Tenant, Standing>,
    /// By rank.
    floors: BTreeMap<u8, u64>,
}

impl Twin {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue: Vec::new(),
            counters: BTreeMap::new(),
            standings: BTreeMap::new(),
            floors: BTreeMap::new(),
        }
    }

    pub(super) fn set_pending(&mut self, id: u64, behalf: impl Into<Behalf>, pending: usize) {
        let Behalf { tenant, share, priority } = behalf.into();
        let rank = u8::MAX - priority;
        self.standings.insert(tenant, Standing { rank, step: step(share) });
        if let Some(waiting) = self.queue.iter_mut().find(|waiting| waiting.id == id) {
            waiting.pending = pending;
            return;
        }
        self.queue.push(Waiting { id, tenant, pending });
        let counter = self.counters.entry(tenant).or_default();
        *counter = (*counter).max(self.floors.get(&rank).copied().unwrap_or(0));
    }

    fn rank(&self, tenant: Tenant) -> u8 {
        self.standings[&tenant].rank
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.queue.retain(|waiting| waiting.id != id);
        let here: BTreeSet<u8> = self.queue.iter().map(|waiting| self.rank(waiting.tenant)).collect();
        let standings = &self.standings;
        self.counters.retain(|tenant, _| here.contains(&standings[tenant].rank));
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
            let Some((at, tenant)) = asked
                .map(|(at, w)| (at, w.tenant))
                .min_by_key(|(at, tenant)| (self.rank(*tenant), self.counters[tenant], *at))
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
            *self.counters.get_mut(&tenant).unwrap() += cost * self.standings[&tenant].step;
        }
        while tokens < tokens_max {
            let hungry = rows.iter().map(|w| w.tenant).filter(|tenant| hunger(&rows, &extra, *tenant) > 0);
            // Whose counter is least with the token.
            let after = |tenant: &Tenant| self.counters[tenant] + self.standings[tenant].step;
            let next = hungry.min_by_key(|tenant| (self.rank(*tenant), after(tenant), *tenant));
            let Some(tenant) = next else { break };
            *extra.entry(tenant).or_default() += 1;
            *self.counters.get_mut(&tenant).unwrap() += self.standings[&tenant].step;
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
        let ranks: BTreeSet<u8> = here.iter().map(|tenant| self.rank(*tenant)).collect();
        for rank in ranks {
            let of_rank = here.iter().copied().filter(|tenant| self.rank(*tenant) == rank);
            let (behind, level): (Vec<Tenant>, Vec<Tenant>) = of_rank.partition(backlogged);
            let least = behind.iter().map(|tenant| self.counters[tenant]).min();
            let floor = least.or_else(|| level.iter().map(|tenant| self.counters[tenant]).max());
            let floor = floor.unwrap_or(0).max(self.floors.get(&rank).copied().unwrap_or(0));
            self.floors.insert(rank, floor);
            for tenant in level {
                let counter = self.counters.get_mut(&tenant).unwrap();
                *counter = (*counter).max(floor);
            }
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
