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
//! A tenant's counter rises by what it is served over its share, so of a busy model tenants get parts in the proportion of
//! their shares. Tenants of a higher priority come first at everything, for as long as they have something to feed; those of
//! one priority are shared among as above.
//!
//! Between two tenants of one priority and share 1 of whom each has something left to feed after every step, counters never differ by more than
//! [`Limits::counter_gap_max`], however long it goes on, provided that `tokens_max >= rows_max`.

mod draft;
mod ledger;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};

use journey::JourneyId;

use draft::Draft;
use ledger::{Ledger, Next};

/// On whose behalf a journey runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u64);

/// A tenant, and what it gets where there is not enough for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behalf {
    /// Who.
    pub tenant: Tenant,
    /// Its part relative to others of its priority, up to [`SHARE_MAX`].
    pub share: NonZeroU32,
    /// Tenants of a higher one go first.
    pub priority: u8,
}

impl From<Tenant> for Behalf {
    /// As all others: share 1, priority 0.
    fn from(tenant: Tenant) -> Self {
        Self { tenant, share: NonZeroU32::MIN, priority: 0 }
    }
}

/// The largest share. Parts are exact to a thousandth up to there.
pub const SHARE_MAX: u32 = 1000;

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

    /// Most by which the counters of two tenants of share 1 differ that both always have something left to feed, in tokens.
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
    whose: Whose,
    /// Place in the tenant's queue; smaller is earlier.
    ticket: u64,
    pending: usize,
}

/// An account: a tenant at a priority, those of higher ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Whose {
    priority: Reverse<u8>,
    tenant: Tenant,
}

/// The residents of one subserver, in the order in which they are served.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    residents: BTreeMap<JourneyId, Resident>,
    /// The highest priority first.
    ledgers: BTreeMap<Reverse<u8>, Ledger>,
    last_ticket: u64,
}

impl Scheduler {
    /// A scheduler without residents.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, residents: BTreeMap::new(), ledgers: BTreeMap::new(), last_ticket: 0 }
    }

    /// A tenant's journey comes, or stays after a step, with this many tokens to feed (at least 1).
    ///
    /// A journey that is already resident keeps its place in the queue, and its tenant.
    pub fn set_pending(&mut self, journey: JourneyId, behalf: impl Into<Behalf>, pending: usize) {
        debug_assert!(pending > 0, "{journey} has nothing to feed");
        let pending = pending.max(1);
        if let Some(resident) = self.residents.get_mut(&journey) {
            resident.pending = pending;
            return;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let Behalf { tenant, share, priority } = behalf.into();
        let priority = Reverse(priority);
        self.residents.insert(journey, Resident { whose: Whose { priority, tenant }, ticket, pending });
        self.ledgers.entry(priority).or_default().admit((tenant, share), ticket, journey);
    }

    /// A journey has left this subserver; unknown journeys are ignored.
    pub fn remove(&mut self, journey: JourneyId) {
        let Some(Resident { whose, ticket, .. }) = self.residents.remove(&journey) else { return };
        if let Some(ledger) = self.ledgers.get_mut(&whose.priority) {
            ledger.withdraw(whose.tenant, ticket);
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
        // Those who are seated now get tickets above this one.
        let seated_from = self.last_ticket;
        let place = self.limits.place_cost();
        for (priority, ledger) in &mut self.ledgers {
            let mut seating = Seating {
                residents: &mut self.residents,
                last_ticket: &mut self.last_ticket,
                priority: *priority,
                seated_from,
            };
            seating.seat(ledger, &mut draft, place);
        }
        for (priority, ledger) in &mut self.ledgers {
            for (tenant, tokens) in draft.spend_spare(*priority, |tenant| ledger.level(tenant)) {
                ledger.charge(tenant, tokens);
            }
            ledger.settle(&draft.served_in_full(*priority));
        }
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
}

/// The seating of one priority.
struct Seating<'a> {
    residents: &'a mut BTreeMap<JourneyId, Resident>,
    last_ticket: &'a mut u64,
    priority: Reverse<u8>,
    seated_from: u64,
}

impl Seating<'_> {
    /// Gives places one by one to the tenant with the least counter. One that has all its journeys in the step goes on
    /// for tokens in their stead, or the others' rows could leave it none of the budget.
    fn seat(&mut self, ledger: &mut Ledger, draft: &mut Draft, place: u64) {
        while let Some(next) = ledger.least().filter(|_| !draft.is_full()) {
            let whose = Whose { priority: self.priority, tenant: next.tenant };
            if next.ticket > self.seated_from {
                match draft.bid(whose, place) {
                    0 => ledger.set_aside(next),
                    tokens => ledger.charge(next.tenant, tokens),
                }
            } else if let Some((journey, pending)) = self.serve(ledger, next) {
                draft.add_row(whose, journey, pending);
                ledger.charge(next.tenant, place);
            }
        }
        ledger.take_back();
        draft.note_complete(self.priority, |tenant| ledger.first_ticket(tenant) > Some(self.seated_from));
    }

    /// Moves a journey to the back of its tenant's queue; with what it has to feed.
    fn serve(&mut self, ledger: &mut Ledger, next: Next) -> Option<(JourneyId, usize)> {
        *self.last_ticket += 1;
        let journey = ledger.requeue(next, *self.last_ticket)?;
        let resident = self.residents.get_mut(&journey)?;
        resident.ticket = *self.last_ticket;
        Some((journey, resident.pending))
    }
}
