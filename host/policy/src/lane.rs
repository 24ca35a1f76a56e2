//! When a policy's calls are made inside the decode loop's step, and when in a lane of their own.
//!
//! Pure: the time is an argument. A call inside the step holds up every journey of the batch, so a policy that is slow
//! goes to a thread of its own, where it holds up its own journeys only. It goes at the first call that shows it, and
//! comes back late: after a quiet period in which its calls were fast, which is longer each time it is slow again.
//! Where a call is made never changes what it answers.
//!
//! The clock alone is no judge, because a thread may be made to wait in the middle of the shortest call. So a call over
//! the budget counts at once if its own fuel or the memory it took explains the time, and otherwise only when it was one
//! of several.

use std::time::{Duration, Instant};

/// Where a policy's calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// In the decode loop, between two steps.
    InStep,
    /// By a thread that nobody else waits for.
    Own,
}

/// What is slow, and for how long a slow policy stays away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRule {
    /// Most time of one call inside the step; zero keeps every call out of it. Default 100 us: a compiled policy takes 1,
    /// an interpreted one 6 and its first calls ten times that; a step of a small model takes some milliseconds.
    pub in_step: Duration,
    /// Of calls that take longer and do nothing that explains it, or that burn half of what the time allows, so many are
    /// needed. Default 8.
    pub strikes: u32,
    /// Among so many calls. Default 1,000.
    pub strikes_calls: u32,
    /// The first quiet period; each one that follows soon after it is twice as long. Default 60 s.
    pub quiet_least: Duration,
    /// The longest. Default 1 h.
    pub quiet_most: Duration,
    /// Fast calls that it takes to come back. Default 64.
    pub calls_least: u32,
    /// Tenants of one revision that may be slow by themselves; beyond them the revision is, for everybody: who has many
    /// names is not let into the step once for each. Default 3.
    pub tenants_most: usize,
}

impl Default for LaneRule {
    fn default() -> Self {
        Self {
            in_step: Duration::from_micros(100),
            strikes: 8,
            strikes_calls: 1000,
            quiet_least: Duration::from_secs(60),
            quiet_most: Duration::from_secs(3600),
            calls_least: 64,
            tenants_most: 3,
        }
    }
}

/// What a call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// On the clock.
    pub time: Duration,
    /// Units of fuel; [`u64::MAX`] of a call that failed.
    pub fuel: u64,
    /// Bytes by which the instance's memory grew.
    pub grown: usize,
}

/// Why calls are made in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The rule allows nothing inside the step.
    Always,
    /// The rehearsal's calls took so long.
    Rehearsal(Duration),
    /// A call took so long by what it did.
    Call(Cost),
    /// Several calls took longer than they may; the last one so long.
    Repeated(Duration),
    /// Several tenants were slow.
    Tenants,
}

/// How slow the calls of a revision, or of one of its tenants, are.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Why and since when it is away from the step.
    away: Option<(Reason, Instant)>,
    /// When a call was last found slow, or its last stay in the lane ended.
    turned: Instant,
    /// Calls since then.
    fast: u32,
    /// Unexplained calls over the budget among the last [`Self::calls`].
    strikes: u32,
    calls: u32,
    /// The quiet period that the next stay takes.
    quiet: Duration,
}

impl LaneRule {
    /// Whether a call kept the budget. By its fuel, too, so that many calls just below the time are not made unseen.
    #[must_use]
    pub fn is_fast(&self, cost: &Cost) -> bool {
        cost.time <= self.in_step && (cost.fuel == u64::MAX || cost.fuel <= self.fuel() / 2)
    }

    /// Whether what a call did explains that it took longer than it may.
    fn explains(&self, cost: &Cost) -> bool {
        let burns = cost.fuel >= self.fuel() || cost.grown >= GROWN_BYTES;
        cost.time > self.in_step && burns
    }

    /// Units that take about the time of the budget.
    fn fuel(&self) -> u64 {
        u64::try_from(self.in_step.as_micros()).unwrap_or(u64::MAX).saturating_mul(FUEL_PER_US)
    }
}

impl Pace {
    /// One that is not slow.
    #[must_use]
    pub fn new(rule: &LaneRule, now: Instant) -> Self {
        Self { away: None, turned: now, fast: 0, strikes: 0, calls: 0, quiet: rule.quiet_least }
    }

    /// A call was made, wherever it was.
    pub fn note(&mut self, rule: &LaneRule, now: Instant, cost: &Cost) {
        if self.calls >= rule.strikes_calls {
            (self.calls, self.strikes) = (0, 0);
        }
        self.calls += 1;
        if rule.is_fast(cost) {
            self.fast = self.fast.saturating_add(1);
            return self.come_back(rule, now);
        }
        self.strikes += 1;
        if rule.explains(cost) {
            self.send_away(rule, now, Reason::Call(*cost));
        } else if self.strikes >= rule.strikes {
            self.send_away(rule, now, Reason::Repeated(cost.time));
        }
    }

    /// Something else says that it is slow, or a call does.
    pub fn send_away(&mut self, rule: &LaneRule, now: Instant, reason: Reason) {
        if self.away.is_none() {
            // Who was fast for long enough begins with a short stay again.
            if now.saturating_duration_since(self.turned) >= rule.quiet_most {
                self.quiet = rule.quiet_least;
            }
            self.away = Some((reason, now));
        }
        (self.turned, self.fast, self.strikes, self.calls) = (now, 0, 0, 0);
    }

    /// Where the next call is made.
    #[must_use]
    pub fn lane(&self) -> Lane {
        if self.away.is_some() { Lane::Own } else { Lane::InStep }
    }

    /// Why and since when it has a lane of its own.
    #[must_use]
    pub fn away(&self) -> Option<(Reason, Instant)> {
        self.away
    }

    /// Whether nothing is left of it to remember.
    #[must_use]
    pub fn is_forgotten(&self, rule: &LaneRule, now: Instant) -> bool {
        let over = now.saturating_duration_since(self.turned) >= rule.quiet_most;
        self.away.is_none() && (over || (self.quiet == rule.quiet_least && self.strikes == 0))
    }

    fn come_back(&mut self, rule: &LaneRule, now: Instant) {
        let quiet = now.saturating_duration_since(self.turned) >= self.quiet;
        if self.away.is_some() && quiet && self.fast >= rule.calls_least {
            self.away = None;
            self.turned = now;
            self.quiet = (self.quiet * 2).min(rule.quiet_most);
        }
    }
}

/// A tight loop burns 1,300 units in a microsecond; most code fewer.
const FUEL_PER_US: u64 = 1000;
/// The pages of so much new memory take 100 us to appear.
const GROWN_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const FAST: Cost = Cost { time: Duration::from_micros(1), fuel: 40, grown: 0 };
    const BURNS: Cost = Cost { time: Duration::from_micros(1500), fuel: 2_000_000, grown: 0 };
    /// As a thread that had to wait sees it.
    const WAITS: Cost = Cost { time: Duration::from_millis(4), ..FAST };

    fn noted(pace: &mut Pace, now: Instant, calls: u32, cost: &Cost) {
        (0..calls).for_each(|_| pace.note(&LaneRule::default(), now, cost));
    }

    #[test]
    fn one_call_that_burns_or_takes_memory_is_enough() {
        let (rule, now) = (LaneRule::default(), Instant::now());
        let takes = Cost { grown: 64 << 20, ..WAITS };
        for cost in [BURNS, takes] {
            let mut pace = Pace::new(&rule, now);
            noted(&mut pace, now, 1000, &FAST);
            assert_eq!(pace.lane(), Lane::InStep);
            pace.note(&rule, now, &cost);
            assert_eq!(pace.away(), Some((Reason::Call(cost), now)));
        }
    }

    #[test]
    fn a_thread_that_has_to_wait_now_and_then_proves_nothing() {
        let (rule, now) = (LaneRule::default(), Instant::now());
        let mut pace = Pace::new(&rule, now);
        for _ in 0..100 {
            noted(&mut pace, now, 250, &FAST);
            pace.note(&rule, now, &WAITS);
        }
        assert_eq!(pace.lane(), Lane::InStep, "four in a thousand calls");
        noted(&mut pace, now, 8, &WAITS);
        assert_eq!(pace.away(), Some((Reason::Repeated(WAITS.time), now)));
    }

    #[test]
    fn calls_that_burn_half_of_the_budget_add_up() {
        let now = Instant::now();
        let mut pace = Pace::new(&LaneRule::default(), now);
        let half = Cost { time: Duration::from_micros(60), fuel: 60_000, grown: 0 };
        noted(&mut pace, now, 7, &half);
        assert_eq!(pace.lane(), Lane::InStep);
        noted(&mut pace, now, 1, &half);
        assert_eq!(pace.lane(), Lane::Own);
    }

    #[test]
    fn it_comes_back_after_a_quiet_minute_of_fast_calls() {
        let (rule, begin) = (LaneRule::default(), Instant::now());
        let mut pace = Pace::new(&rule, begin);
        pace.note(&rule, begin, &BURNS);
        noted(&mut pace, begin + 59 * SECOND, 1000, &FAST);
        assert_eq!(pace.lane(), Lane::Own);
        pace.note(&rule, begin + 59 * SECOND, &BURNS);
        noted(&mut pace, begin + 118 * SECOND, 1000, &FAST);
        assert_eq!(pace.lane(), Lane::Own, "the minute begins with the last slow call");
        pace.note(&rule, begin + 119 * SECOND, &FAST);
        assert_eq!(pace.lane(), Lane::InStep);
        let mut silent = Pace::new(&rule, begin);
        silent.note(&rule, begin, &BURNS);
        noted(&mut silent, begin + 600 * SECOND, 63, &FAST);
        assert_eq!(silent.lane(), Lane::Own, "silence proves nothing");
    }

    #[test]
    fn who_is_slow_whenever_it_may_gets_a_handful_of_calls_an_hour() {
        let (rule, begin) = (LaneRule::default(), Instant::now());
        let mut pace = Pace::new(&rule, begin);
        let mut slow = 0;
        // It behaves in its lane, and burns as soon as it is back.
        for second in 0..3600 {
            for _ in 0..100 {
                let in_step = pace.lane() == Lane::InStep;
                slow += u32::from(in_step);
                pace.note(&rule, begin + second * SECOND, if in_step { &BURNS } else { &FAST });
            }
        }
        assert!(slow <= 6, "{slow} slow calls inside steps");
    }

    #[test]
    fn a_stay_is_short_again_after_a_good_hour() {
        let (rule, begin) = (LaneRule::default(), Instant::now());
        let mut pace = Pace::new(&rule, begin);
        pace.note(&rule, begin, &BURNS);
        noted(&mut pace, begin + 60 * SECOND, 64, &FAST);
        assert_eq!(pace.lane(), Lane::InStep);
        assert!(!pace.is_forgotten(&rule, begin + 61 * SECOND), "the next stay takes two minutes");
        let later = begin + 60 * SECOND + rule.quiet_most;
        assert!(pace.is_forgotten(&rule, later));
        pace.note(&rule, later, &BURNS);
        noted(&mut pace, later + 60 * SECOND, 64, &FAST);
        assert_eq!(pace.lane(), Lane::InStep);
    }
}
