//! One tenant while the server runs: its settings, and what it uses.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scheduler::{Behalf, Tenant};
use tenant::quota::Level;
use tenant::{Ledger, Refused, Reservation, Table};

use super::Clock;
use crate::runtime::{Bill, Catalog, Route};

/// One tenant under its settings of a time.
pub(super) struct Member {
    name: String,
    table: Table,
    identity: Tenant,
    /// The tenant's under all its settings. Every call is one short step under this lock, so what fits is admitted exactly,
    /// however many ask at once.
    account: Arc<Mutex<Account>>,
    clock: Clock,
}

/// What a tenant uses.
#[derive(Default)]
struct Account {
    ledger: Ledger,
    /// Since the server began.
    used: Used,
}

/// A request of which not all answers are over.
struct Open {
    /// None once it is settled.
    reservation: Option<Reservation>,
    /// That are not over.
    answers: usize,
    /// Used by those that are.
    tokens: u64,
}

impl Open {
    /// One of its answers is over. Its place is free at once; tokens are settled with the last.
    fn ended(&mut self, account: &mut Account, tokens: u64, now: Duration) {
        self.tokens += tokens;
        self.answers = self.answers.saturating_sub(1);
        match self.reservation.take() {
            Some(mut reservation) if self.answers > 0 => {
                account.ledger.end_journey(&mut reservation);
                self.reservation = Some(reservation);
            }
            Some(reservation) => {
                account.ledger.settle(reservation, self.tokens, now);
                account.used.tokens += self.tokens;
            }
            None => {}
        }
    }
}

/// What a tenant has used since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Requests that were let in.
    pub requests: u64,
    /// Requests that a quota refused.
    pub refused: u64,
    /// Tokens of prompts and answers; of requests that run, not yet.
    pub tokens: u64,
}

/// Where a tenant stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Since the server began.
    pub used: Used,
    /// Requests that run now.
    pub journeys: u32,
    /// How many may run at once, if that is bounded.
    pub journeys_max: Option<u32>,
    /// Requests and tokens a minute, where they are bounded.
    pub levels: [Option<Level>; 2],
}

impl Member {
    pub(super) fn new(name: &str, table: &Table, identity: Tenant, clock: Clock) -> Self {
        let account = Account { ledger: Ledger::new(table.quotas), used: Used::default() };
        let account = Arc::new(Mutex::new(account));
        Self { name: name.to_owned(), table: table.clone(), identity, account, clock }
    }

    /// The same tenant under other settings.
    pub(super) fn with(&self, table: &Table) -> Self {
        self.account().ledger.set_quotas(table.quotas);
        let (account, clock) = (Arc::clone(&self.account), self.clock.clone());
        Self { name: self.name.clone(), table: table.clone(), identity: self.identity, account, clock }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn identity(&self) -> Tenant {
        self.identity
    }

    pub(super) fn behalf(&self) -> Behalf {
        let Table { share, priority, .. } = self.table;
        Behalf { tenant: self.identity, share, priority }
    }

    pub(super) fn find<'a>(&self, catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Route>> {
        let route = catalog.routes.get(name)?;
        if route.is_model() {
            self.table.model(&catalog.routes, name)
        } else {
            self.table.route(&catalog.routes, name)
        }
    }

    /// Whether it may see a route, served or not.
    pub(super) fn sees(&self, catalog: &Catalog, route: &str) -> bool {
        self.table.route(&catalog.routes, route).is_some()
            || self.table.route(&catalog.broken, route).is_some()
    }

    /// Holds so many answers and tokens; a bill for each answer.
    pub(super) fn reserve(&self, answers: usize, tokens: usize) -> Result<Vec<Bill>, Refused> {
        let journeys = u32::try_from(answers).unwrap_or(u32::MAX);
        let ask = tenant::Ask { journeys, tokens: tokens as u64 };
        let reservation = {
            let mut account = self.account();
            let reserved = account.ledger.reserve(ask, self.clock.elapsed());
            let Used { requests, refused, .. } = &mut account.used;
            *(if reserved.is_ok() { requests } else { refused }) += 1;
            reserved?
        };
        let (account, clock) = (Arc::clone(&self.account), self.clock.clone());
        let open = Arc::new(Mutex::new(Open { reservation: Some(reservation), answers, tokens: 0 }));
        let bill = |_| {
            let (account, clock, open) = (Arc::clone(&account), clock.clone(), Arc::clone(&open));
            Bill::to(move |tokens| {
                let now = clock.elapsed();
                let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
                let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
                open.ended(&mut account, tokens, now);
            })
        };
        Ok((0..answers).map(bill).collect())
    }

    pub(super) fn levels(&self) -> [Option<Level>; 2] {
        self.account().ledger.levels(self.clock.elapsed())
    }

    pub(super) fn standing(&self) -> Standing {
        let mut account = self.account();
        Standing {
            used: account.used,
            journeys: account.ledger.journeys(),
            journeys_max: self.table.quotas.journeys.map(NonZeroU32::get),
            levels: account.ledger.levels(self.clock.elapsed()),
        }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
