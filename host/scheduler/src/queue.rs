//! Eager admission with chunked prefill, fair between tenants: whoever has tokens to feed takes part in the next step.
//!
//! Every row of a step gets at least one token, so a long prompt never holds up journeys that decode. Where a step cannot
//! hold everything that waits, its places and what is left of its token budget go to the tenant that was served least;
//! within a tenant, places go round and the longest-waiting rows get the spare tokens first. With one tenant that is
//! plain round robin.
//!
//! Service is counted as in the virtual token counter of Sheng et al. (2024, "Fairness in Serving Large Language Models"):
//! a counter for each tenant, raised by what it is served, and lifted to the least of those who still wait when the
//! tenant comes back or got all that it asked for, so that nobody saves up service by being idle. A token counts one; the
//! first of a row counts as many as there are spare ones for each place, `tokens_max / rows_max - 1`, as it takes a place
//! too. All places of a step are then worth as much as all its spare tokens: who decodes and who prefills can both have
//! what they need of one step, and a prompt costs less per token than decoding does.
//!
//! Between two tenants of whom each has something left to feed after every step, counters never differ by more than
//! [`Limits::counter_gap_max`], however long it goes on, provided that `tokens_max >= rows_max`.

mod draft;
mod ledger;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use journey::JourneyId;

use draft::Draft;
use ledger::{Ledger, Next};

/// On whose behalf a journey runs; tenants share a model's steps evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u64);

/// Bounds of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most journeys in a step.
    pub rows_max: NonZeroUsize,
    /// Most tokens in a step over all rows. A step has at least a token per row even if this is smaller.
    pub tokens_max: NonZeroUsize,
}

impl Limits {
    /// What the first token of a row counts for, in tokens: it takes a place in the step as well.
    #[must_use]
    pub fn place_cost(self) -> u64 {
        (self.tokens_max.get() / self.rows_max.get()).saturating_sub(1).max(1) as u64
    }

    /// Most by which the counters of two tenants differ that both always have something left to feed, in tokens.
    ///
    /// A place goes to a tenant only while its counter is the least, after which it is ahead by a place at most; the spare
    /// tokens of one step may come on top where the other one's rows have nothing more to feed. Without a place there
    /// are no spare tokens, so the lead does not add up over steps.
    #[must_use]
    pub fn counter_gap_max(self) -> u64 {
        self.place_cost() + self.tokens_max.get() as u64
    }
}

/// One journey's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose tokens.
    pub journey: JourneyId,
    /// How many of its pending tokens are fed, at least 1.
    pub tokens: usize,
}

/// What a subserver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Run one step with these rows.
    Run(Vec<Share>),
    /// Nobody has anything to feed.
    Wait,
}

#[derive(Clone, Copy, Debug)]
struct Resident {
    tenant: Tenant,
    /// Place in the tenant's queue; smaller is earlier.
    ticket: u64,
    pending: usize,
}

/// The residents of one subserver, in the order in which they are served.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    residents: BTreeMap<JourneyId, Resident>,
    ledger: Ledger,
    last_ticket: u64,
}

impl Scheduler {
    /// A scheduler without residents.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, residents: BTreeMap::new(), ledger: Ledger::default(), last_ticket: 0 }
    }

    /// A tenant's journey comes, or stays after a step, with this many tokens to feed (at least 1).
    ///
    /// A journey that is already resident keeps its place in the queue, and its tenant.
    pub fn set_pending(&mut self, journey: JourneyId, tenant: Tenant, pending: usize) {
        debug_assert!(pending > 0, "{journey} has nothing to feed");
        let pending = pending.max(1);
        if let Some(resident) = self.residents.get_mut(&journey) {
            resident.pending = pending;
            return;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.residents.insert(journey, Resident { tenant, ticket, pending });
        self.ledger.admit(tenant, ticket, journey);
    }

    /// A journey has left this subserver; unknown journeys are ignored.
    pub fn remove(&mut self, journey: JourneyId) {
        if let Some(resident) = self.residents.remove(&journey) {
            self.ledger.withdraw(resident.tenant, resident.ticket);
        }
    }

    /// Chooses the next step and sends those it serves to the back of their tenant's queue.
    ///
    /// `O(log n)` for each row, with `n` residents and tenants.
    pub fn next_turn(&mut self) -> Turn {
        if self.residents.is_empty() {
            return Turn::Wait;
        }
        let mut draft = Draft::new(self.limits, self.residents.len());
        self.seat(&mut draft);
        for (tenant, tokens) in draft.spend_spare(|tenant| self.ledger.counter(tenant)) {
            self.ledger.charge(tenant, tokens);
        }
        self.ledger.settle(&draft.served_in_full());
        Turn::Run(draft.into_shares())
    }

    /// Number of residents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.residents.len()
    }

    /// Whether nobody is resident.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.residents.is_empty()
    }

    /// Gives places one by one to the tenant with the least counter. One that has all its journeys in the step goes on
    /// for tokens in their stead, or the others' rows could leave it none of the budget.
    fn seat(&mut self, draft: &mut Draft) {
        let seated_from = self.last_ticket;
        let place = self.limits.place_cost();
        while let Some(next) = self.ledger.least().filter(|_| !draft.is_full()) {
            if next.ticket > seated_from {
                match draft.bid(next.tenant, place) {
                    0 => self.ledger.set_aside(next),
                    tokens => self.ledger.charge(next.tenant, tokens),
                }
            } else if let Some((journey, pending)) = self.serve(next) {
                draft.add_row(next.tenant, journey, pending);
                self.ledger.charge(next.tenant, place);
            }
        }
        self.ledger.take_back();
        draft.note_complete(|tenant| self.ledger.first_ticket(tenant) > Some(seated_from));
    }

    /// Moves a journey to the back of its tenant's queue; with what it has to feed.
    fn serve(&mut self, next: Next) -> Option<(JourneyId, usize)> {
        self.last_ticket += 1;
        let journey = self.ledger.requeue(next, self.last_ticket)?;
        let resident = self.residents.get_mut(&journey)?;
        resident.ticket = self.last_ticket;
        Some((journey, resident.pending))
    }
}
