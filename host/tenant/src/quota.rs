//! Requests and tokens a minute, and journeys at once: reserve, then settle.
//!
//! A request reserves the most that it can use before it runs, and settles what it did use when it has ended, however it
//! ended. What is reserved counts in full until then; what is settled counts for a minute from then on. One rule follows
//! for every ledger whose requests use no more than they reserved, and it is tested against a plain list of all events:
//!
//! > Of the journeys' tokens of any 60 seconds, those settled in it and those held at its end are together at most
//! > `tokens_per_minute`; of requests at most `requests_per_minute` are accepted in any 60 seconds; never do more than
//! > `journeys` run.
//!
//! A token bucket of the same size would let twice that through in a minute, after an idle one. Seconds are whole, so a
//! request is counted for up to 61 seconds. A refused request counts nowhere.
//!
//! A ledger belongs to one tenant, and each call is one step: whoever guards it with a lock admits exactly what fits, however
//! many ask at once.

mod window;

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use window::Window;

/// What a tenant may use. What is not named has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Requests accepted in any 60 seconds.
    pub requests_per_minute: Option<NonZeroU64>,
    /// Tokens fed and made in any 60 seconds.
    pub tokens_per_minute: Option<NonZeroU64>,
    /// Journeys at once; a request with n answers has n.
    pub journeys: Option<NonZeroU32>,
}

/// The most that a request can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Answers that it asks for, at least 1.
    pub journeys: u32,
    /// Tokens of the prompt and of all answers at their longest.
    pub tokens: u64,
}

/// One of the quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quota {
    /// `requests_per_minute`
    Requests,
    /// `tokens_per_minute`
    Tokens,
    /// `journeys`
    Journeys,
}

/// A request that may not run now. The ledger is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It fits later.
    #[error("the quota of {limit} {} is used up; ask again in {} s", quota.unit(), whole_seconds(*retry_after))]
    Exceeded {
        /// The quota that takes longest.
        quota: Quota,
        /// Its size.
        limit: u64,
        /// When it fits if nobody else asks. Where running journeys stand in the way nobody knows; then a second.
        retry_after: Duration,
    },
    /// It never fits.
    #[error("{asked} is more than the whole quota of {limit} {}", quota.unit())]
    TooLarge {
        /// The quota.
        quota: Quota,
        /// Its size.
        limit: u64,
        /// What was asked.
        asked: u64,
    },
}

/// Where a quota of a minute stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its size.
    pub limit: u64,
    /// What is left of it.
    pub left: u64,
    /// When all of it is there again, if nobody asks and what runs now ends now.
    pub whole_in: Duration,
}

/// What a request holds until it is settled. One that is dropped instead counts for ever, so whoever runs the request
/// settles it on every way out.
#[must_use = "what is reserved counts until it is settled"]
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation {
    journeys: u32,
    tokens: u64,
}

/// What a tenant has reserved, and what it used within the last minute.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    quotas: Quotas,
    requests: Window,
    tokens: Window,
    tokens_held: u64,
    journeys_held: u32,
}

impl Ledger {
    /// Nothing used yet.
    #[must_use]
    pub fn new(quotas: Quotas) -> Self {
        Self { quotas, ..Self::default() }
    }

    /// Other bounds from now on; what was used stays.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.quotas = quotas;
    }

    /// Holds what a request can use, if it fits. `now` is the time since any fixed moment, and never goes back.
    ///
    /// ```
    /// # use std::num::NonZeroU64;
    /// # use std::time::Duration;
    /// # use tenant::quota::{Ask, Ledger, Quota, Quotas, Refused};
    /// let quotas = Quotas { tokens_per_minute: NonZeroU64::new(100), ..Quotas::default() };
    /// let mut ledger = Ledger::new(quotas);
    /// let (ask, at) = (Ask { journeys: 1, tokens: 80 }, Duration::from_secs);
    /// let reservation = ledger.reserve(ask, at(0)).unwrap();
    /// ledger.settle(reservation, 30, at(5)); // 30 count from second 5 on, to the end of second 65
    /// let refused = ledger.reserve(ask, at(10)).unwrap_err(); // 30 + 80 > 100
    /// let retry_after = at(66 - 10);
    /// assert_eq!(refused, Refused::Exceeded { quota: Quota::Tokens, limit: 100, retry_after });
    /// assert!(ledger.reserve(ask, at(66)).is_ok());
    /// ```
    ///
    /// # Errors
    /// [`Refused`], with the quota that is in the way.
    pub fn reserve(&mut self, ask: Ask, now: Duration) -> Result<Reservation, Refused> {
        let ask = Ask { journeys: ask.journeys.max(1), ..ask };
        self.requests.advance(now);
        self.tokens.advance(now);
        if let Some(refused) = self.refusal(ask) {
            return Err(refused);
        }
        self.requests.add(1);
        self.tokens_held = self.tokens_held.saturating_add(ask.tokens);
        self.journeys_held = self.journeys_held.saturating_add(ask.journeys);
        Ok(Reservation { journeys: ask.journeys, tokens: ask.tokens })
    }

    /// One of several answers of a request has ended while others go on: its place is free.
    pub fn end_journey(&mut self, reservation: &mut Reservation) {
        if reservation.journeys > 0 {
            reservation.journeys -= 1;
            self.journeys_held = self.journeys_held.saturating_sub(1);
        }
    }

    /// A request has ended, by itself, by an error or because its client left, and used this many tokens. More than it
    /// reserved count too.
    #[expect(clippy::needless_pass_by_value, reason = "a reservation is settled once")]
    pub fn settle(&mut self, reservation: Reservation, tokens: u64, now: Duration) {
        self.tokens_held = self.tokens_held.saturating_sub(reservation.tokens);
        self.journeys_held = self.journeys_held.saturating_sub(reservation.journeys);
        self.tokens.advance(now);
        self.tokens.add(tokens);
    }

    /// Whether nothing is held or remembered, so that the ledger may be forgotten.
    #[must_use]
    pub fn is_idle(&mut self, now: Duration) -> bool {
        self.requests.advance(now);
        self.tokens.advance(now);
        self.journeys_held == 0 && self.tokens_held == 0 && self.requests.sum() == 0 && self.tokens.sum() == 0
    }

    /// Journeys that run now.
    #[must_use]
    pub fn journeys(&self) -> u32 {
        self.journeys_held
    }

    /// Tokens that count now: held, and settled within the last minute.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens_held + self.tokens.sum()
    }

    /// Where requests and tokens a minute stand; nothing where there is no bound.
    pub fn levels(&mut self, now: Duration) -> [Option<Level>; 2] {
        self.requests.advance(now);
        self.tokens.advance(now);
        [
            Level::of(self.quotas.requests_per_minute, 0, &self.requests),
            Level::of(self.quotas.tokens_per_minute, self.tokens_held, &self.tokens),
        ]
    }

    /// Why an ask does not fit, if it does not: never, or else the quota that takes longest.
    fn refusal(&self, ask: Ask) -> Option<Refused> {
        let uses = self.uses(ask);
        let too_large = uses.iter().find(|quota| quota.asked > quota.limit);
        if let Some(&Use { quota, limit, asked, .. }) = too_large {
            return Some(Refused::TooLarge { quota, limit, asked });
        }
        let waits = uses.iter().filter_map(|quota| Some((quota, quota.wait()?)));
        let (longest, retry_after) = waits.max_by_key(|(_, wait)| *wait)?;
        Some(Refused::Exceeded { quota: longest.quota, limit: longest.limit, retry_after })
    }

    fn uses(&self, ask: Ask) -> [Use<'_>; 3] {
        let unbounded = u64::MAX;
        let (journeys, held) = (u64::from(ask.journeys), u64::from(self.journeys_held));
        let limit = self.quotas.journeys.map_or(unbounded, |limit| u64::from(limit.get()));
        let minute = |limit: Option<NonZeroU64>| limit.map_or(unbounded, NonZeroU64::get);
        [
            Use {
                quota: Quota::Requests,
                limit: minute(self.quotas.requests_per_minute),
                asked: 1,
                held: 0,
                window: Some(&self.requests),
            },
            Use {
                quota: Quota::Tokens,
                limit: minute(self.quotas.tokens_per_minute),
                asked: ask.tokens,
                held: self.tokens_held,
                window: Some(&self.tokens),
            },
            Use { quota: Quota::Journeys, limit, asked: journeys, held, window: None },
        ]
    }
}

impl Level {
    fn of(limit: Option<NonZeroU64>, held: u64, window: &Window) -> Option<Self> {
        let limit = limit?.get();
        let settled = window.sum();
        let remembered = Some(settled).filter(|settled| *settled > 0).and_then(|all| window.until_freed(all));
        let whole_in = if held > 0 { window::MOST } else { remembered.unwrap_or_default() };
        Some(Self { limit, left: limit.saturating_sub(held.saturating_add(settled)), whole_in })
    }
}

/// A time in whole seconds, after which it is over.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// One quota and what an ask would add to it.
struct Use<'a> {
    quota: Quota,
    limit: u64,
    asked: u64,
    held: u64,
    window: Option<&'a Window>,
}

impl Use<'_> {
    /// How long until it fits; None if it fits now.
    fn wait(&self) -> Option<Duration> {
        let used = self.held.saturating_add(self.window.map_or(0, Window::sum));
        let over = used.saturating_add(self.asked).checked_sub(self.limit).filter(|over| *over > 0)?;
        Some(self.window.and_then(|window| window.until_freed(over)).unwrap_or(UNKNOWN_WAIT))
    }
}

impl Quota {
    fn unit(self) -> &'static str {
        match self {
            Self::Requests => "requests a minute",
            Self::Tokens => "tokens a minute",
            Self::Journeys => "journeys at once",
        }
    }
}

/// What a client is told to wait for journeys whose end nobody knows.
const UNKNOWN_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn journeys(at_once: u32) -> Ledger {
        Ledger::new(Quotas { journeys: NonZeroU32::new(at_once), ..Quotas::default() })
    }

    const fn ask(journeys: u32, tokens: u64) -> Ask {
        Ask { journeys, tokens }
    }

    #[test]
    fn several_answers_take_several_places_and_give_them_back_one_by_one() {
        let mut ledger = journeys(3);
        let mut three = ledger.reserve(ask(3, 10), Duration::ZERO).unwrap();
        let refused = ledger.reserve(ask(1, 10), Duration::ZERO).unwrap_err();
        let expected = Refused::Exceeded { quota: Quota::Journeys, limit: 3, retry_after: UNKNOWN_WAIT };
        assert_eq!(refused, expected);
        (0..2).for_each(|_| ledger.end_journey(&mut three));
        let two = ledger.reserve(ask(2, 10), Duration::ZERO).unwrap();
        ledger.settle(three, 0, Duration::ZERO);
        assert_eq!(ledger.journeys(), 2);
        ledger.settle(two, 0, Duration::ZERO);
        assert_eq!(
            [60, 61].map(|at| ledger.is_idle(Duration::from_secs(at))),
            [false, true],
            "the request is remembered"
        );
    }

    #[test]
    fn levels_tell_what_is_left_and_when_it_is_whole() {
        let minute = NonZeroU64::new(100);
        let quotas = Quotas { requests_per_minute: minute, tokens_per_minute: minute, journeys: None };
        let mut ledger = Ledger::new(quotas);
        let at = Duration::from_secs;
        let level = |left, whole_in| Some(Level { limit: 100, left, whole_in: at(whole_in) });
        assert_eq!(ledger.levels(at(0)), [level(100, 0), level(100, 0)]);
        let one = ledger.reserve(ask(1, 80), at(10)).unwrap();
        assert_eq!(ledger.levels(at(20)), [level(99, 51), level(20, 61)]);
        ledger.settle(one, 30, at(30));
        assert_eq!(ledger.levels(at(40)), [level(99, 31), level(70, 51)]);
        assert_eq!(ledger.levels(at(91)), [level(100, 0), level(100, 0)]);
        assert_eq!(journeys(1).levels(at(0)), [None, None]);
    }

    #[test]
    fn what_never_fits_is_not_told_to_come_back() {
        let refused = journeys(3).reserve(ask(4, 1), Duration::ZERO).unwrap_err();
        assert_eq!(refused.to_string(), "4 is more than the whole quota of 3 journeys at once");
    }

    #[test]
    fn bounds_change_while_requests_run() {
        let mut ledger = journeys(1);
        let one = ledger.reserve(ask(1, 1), Duration::ZERO).unwrap();
        ledger.set_quotas(Quotas { journeys: NonZeroU32::new(2), ..Quotas::default() });
        let two = ledger.reserve(ask(1, 1), Duration::ZERO).unwrap();
        ledger.set_quotas(Quotas { journeys: NonZeroU32::new(1), ..Quotas::default() });
        ledger.settle(one, 1, Duration::ZERO);
        assert!(ledger.reserve(ask(1, 1), Duration::ZERO).is_err());
        ledger.settle(two, 1, Duration::ZERO);
        assert!(ledger.reserve(ask(1, 1), Duration::ZERO).is_ok());
    }
}
