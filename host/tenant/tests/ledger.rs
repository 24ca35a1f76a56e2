//! The ledger against a plain list of everything that happened, and a hundred requests at once.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tenant::quota::{Ask, Ledger, Quotas, Refused, Reservation};

#[derive(Clone, Debug)]
enum Event {
    Reserve {
        journeys: u32,
        tokens: u64,
    },
    /// Ends the request that began this many requests ago; it used this part of what it reserved, in tenths.
    Settle {
        back: usize,
        tenths: u64,
    },
    Wait {
        millis: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u32..4, 0u64..60).prop_map(|(journeys, tokens)| Event::Reserve { journeys, tokens }),
        3 => (0usize..4, 0u64..=10).prop_map(|(back, tenths)| Event::Settle { back, tenths }),
        2 => (0u64..30_000).prop_map(|millis| Event::Wait { millis }),
    ]
}

/// All that ever happened, and sums over it by the definition.
#[derive(Default)]
struct Naive {
    accepted: Vec<Duration>,
    settled: Vec<(Duration, u64)>,
    running: Vec<(Ask, Reservation)>,
}

impl Naive {
    fn requests(&self, now: Duration) -> u64 {
        self.accepted.iter().filter(|at| counts(**at, now)).count() as u64
    }

    fn tokens(&self, now: Duration) -> u64 {
        let settled = self.settled.iter().filter(|(at, _)| counts(*at, now)).map(|(_, tokens)| tokens);
        settled.sum::<u64>() + self.running.iter().map(|(ask, _)| ask.tokens).sum::<u64>()
    }

    fn journeys(&self) -> u32 {
        self.running.iter().map(|(ask, _)| ask.journeys).sum()
    }

    fn fits(&self, ask: Ask, now: Duration) -> bool {
        self.requests(now) < REQUESTS
            && self.tokens(now) + ask.tokens <= TOKENS
            && self.journeys() + ask.journeys <= JOURNEYS
    }
}

fn counts(at: Duration, now: Duration) -> bool {
    now.as_secs() <= at.as_secs() + 60
}

proptest! {
    #[test]
    fn a_ledger_accepts_what_a_list_of_all_events_says(events in proptest::collection::vec(event(), 1..200)) {
        let (mut ledger, mut naive, mut now) = (Ledger::new(quotas()), Naive::default(), Duration::ZERO);
        for event in events {
            match event {
                Event::Wait { millis } => now += Duration::from_millis(millis),
                Event::Settle { back, tenths } => {
                    if let Some(at) = naive.running.len().checked_sub(back + 1) {
                        let (ask, reservation) = naive.running.remove(at);
                        let used = ask.tokens * tenths / 10;
                        ledger.settle(reservation, used, now);
                        naive.settled.push((now, used));
                    }
                }
                Event::Reserve { journeys, tokens } => {
                    let ask = Ask { journeys, tokens };
                    let answer = ledger.reserve(ask, now);
                    prop_assert_eq!(answer.is_ok(), naive.fits(ask, now), "{:?}", answer);
                    match answer {
                        Ok(reservation) => {
                            naive.running.push((ask, reservation));
                            naive.accepted.push(now);
                        }
                        Err(refused) => check_retry(&ledger, ask, now, refused)?,
                    }
                }
            }
            prop_assert_eq!(ledger.journeys(), naive.journeys());
        }
        check_any_minute(&naive, now)?;
    }
}

/// Asking after `retry_after` works, unless journeys that run are in the way; asking a little earlier does not.
fn check_retry(ledger: &Ledger, ask: Ask, now: Duration, refused: Refused) -> Result<(), TestCaseError> {
    let Refused::Exceeded { retry_after, .. } = refused else { return Ok(()) };
    let at = |after: Duration| ledger.clone().reserve(ask, now + after);
    prop_assert!(at(retry_after.saturating_sub(Duration::from_millis(1))).is_err());
    let held_in_the_way = ledger.clone().reserve(ask, now + Duration::from_secs(100)).is_err();
    prop_assert!(held_in_the_way || at(retry_after).is_ok());
    Ok(())
}

/// By brute force, over every window that ends where something happened.
fn check_any_minute(naive: &Naive, end: Duration) -> Result<(), TestCaseError> {
    let within = |at: Duration, last: Duration| at <= last && at + Duration::from_secs(60) > last;
    for last in naive.accepted.iter().copied().chain([end]) {
        let accepted = naive.accepted.iter().filter(|at| within(**at, last)).count() as u64;
        prop_assert!(accepted <= REQUESTS, "{} requests in the minute to {:?}", accepted, last);
    }
    for &(last, _) in &naive.settled {
        let tokens: u64 =
            naive.settled.iter().filter(|(at, _)| within(*at, last)).map(|(_, tokens)| tokens).sum();
        prop_assert!(tokens <= TOKENS, "{} tokens settled in the minute to {:?}", tokens, last);
    }
    Ok(())
}

#[test]
fn of_a_hundred_at_once_exactly_ten_get_through() {
    let ledger =
        Mutex::new(Ledger::new(Quotas { requests_per_minute: NonZeroU64::new(10), ..Quotas::default() }));
    let start = Barrier::new(100);
    let accepted: usize = std::thread::scope(|scope| {
        let ask = || {
            start.wait();
            ledger.lock().unwrap().reserve(Ask { journeys: 1, tokens: 100 }, Duration::ZERO).is_ok()
        };
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(accepted, 10);
}

fn quotas() -> Quotas {
    Quotas {
        requests_per_minute: NonZeroU64::new(REQUESTS),
        tokens_per_minute: NonZeroU64::new(TOKENS),
        journeys: NonZeroU32::new(JOURNEYS),
    }
}

const REQUESTS: u64 = 6;
const TOKENS: u64 = 150;
const JOURNEYS: u32 = 7;
