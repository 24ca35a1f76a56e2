//! When new sessions of a failing revision are refused.
//!
//! Pure: the time is an argument. A revision that fails now and then is left alone, as each failure already ends in the
//! fallback of its own journey. One that fails over and over costs every journey a session for nothing, so it is *open*
//! for a while: its journeys take the fallback from the start. Then one session *probes* whether it works again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many failures are too many, and how long a revision then rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerRule {
    /// This many failures within [`BreakerRule::window`] open it. Default 5.
    pub failures: usize,
    /// So do failures above this share of the calls of a window, in thousandths. Default 10. It matters where
    /// [`BreakerRule::failures`] is set high.
    pub failures_per_mille: u64,
    /// Calls below which a share says nothing. Default 1,000.
    pub calls_least: u64,
    /// Default 10 s.
    pub window: Duration,
    /// The first rest; each one that follows soon after it is twice as long. Default 1 s.
    pub rest_least: Duration,
    /// The longest rest. Default 60 s.
    pub rest_most: Duration,
    /// Calls after which a probing session has shown that the revision works. Default 16.
    pub probe_calls: u32,
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self {
            failures: 5,
            failures_per_mille: 10,
            calls_least: 1000,
            window: Duration::from_secs(10),
            rest_least: Duration::from_secs(1),
            rest_most: Duration::from_secs(60),
            probe_calls: 16,
        }
    }
}

/// Counts the failures of one revision and says who may begin a session.
#[derive(Debug)]
pub struct Breaker {
    rule: BreakerRule,
    phase: Phase,
    since: Instant,
    /// The last failures while closed, oldest first; at most [`BreakerRule::failures`].
    recent: VecDeque<Instant>,
    /// For the share: when the window began, the calls before it, and the failures in it.
    window: (Instant, u64, u64),
    /// The rest after the next opening.
    rest: Duration,
}

/// Where a breaker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Sessions begin.
    Closed,
    /// Sessions are refused until then.
    Open {
        /// When the next session probes.
        until: Instant,
    },
    /// One session probes, all others are refused.
    Probing,
}

/// Whether a session may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Session,
    /// It may, and what becomes of it must be told.
    Probe,
    /// It may not; asking again is worth while after this time.
    Refused {
        /// Zero while a session probes.
        retry_in: Duration,
    },
}

/// What became of a probing session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// It made its calls, or ended well after fewer.
    Works,
    /// A call failed.
    Failed,
    /// It ended before it made a call, which tells nothing.
    Nothing,
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(rule: BreakerRule, now: Instant) -> Self {
        let rest = rule.rest_least;
        Self { rule, phase: Phase::Closed, since: now, recent: VecDeque::new(), window: (now, 0, 0), rest }
    }

    /// Whether a session may begin now.
    pub fn admit(&mut self, now: Instant) -> Admission {
        match self.phase {
            Phase::Closed => Admission::Session,
            Phase::Probing => Admission::Refused { retry_in: Duration::ZERO },
            Phase::Open { until } if now < until => Admission::Refused { retry_in: until - now },
            Phase::Open { .. } => {
                self.turn(Phase::Probing, now);
                Admission::Probe
            }
        }
    }

    /// A session that does not probe failed. `calls`: how many succeeded since the revision was loaded. Failures while
    /// it is not closed are those of sessions that began before, and change nothing.
    pub fn failed(&mut self, now: Instant, calls: u64) {
        if self.phase == Phase::Closed && (self.too_many(now) | self.too_often(now, calls)) {
            self.open(now);
        }
    }

    /// A probing session is over, or has shown enough.
    pub fn probed(&mut self, now: Instant, outcome: Probed) {
        if self.phase != Phase::Probing {
            return;
        }
        match outcome {
            Probed::Works => self.turn(Phase::Closed, now),
            Probed::Failed => self.open(now),
            Probed::Nothing => self.turn(Phase::Open { until: now }, now),
        }
    }

    /// Where it is, and since when.
    #[must_use]
    pub fn phase(&self) -> (Phase, Instant) {
        (self.phase, self.since)
    }

    /// Calls after which a probing session has shown enough.
    #[must_use]
    pub fn probe_calls(&self) -> u32 {
        self.rule.probe_calls
    }

    fn open(&mut self, now: Instant) {
        // A revision that worked for a while begins with a short rest again.
        let held = now.saturating_duration_since(self.since);
        if self.phase == Phase::Closed && held >= self.rule.rest_most {
            self.rest = self.rule.rest_least;
        }
        self.turn(Phase::Open { until: now + self.rest }, now);
        self.rest = (self.rest * 2).min(self.rule.rest_most);
        self.recent.clear();
    }

    fn turn(&mut self, phase: Phase, now: Instant) {
        (self.phase, self.since) = (phase, now);
    }

    fn too_many(&mut self, now: Instant) -> bool {
        if self.recent.len() >= self.rule.failures {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let within = |first: &Instant| now.saturating_duration_since(*first) <= self.rule.window;
        self.recent.len() >= self.rule.failures && self.recent.front().is_some_and(within)
    }

    fn too_often(&mut self, now: Instant, calls: u64) -> bool {
        let (began, _, _) = self.window;
        if now.saturating_duration_since(began) > self.rule.window {
            self.window = (now, calls, 0);
        }
        let (_, before, failures) = &mut self.window;
        *failures += 1;
        let all = calls.saturating_sub(*before) + *failures;
        all >= self.rule.calls_least && *failures * 1000 > all * self.rule.failures_per_mille
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Opens it with five failures.
    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(BreakerRule::default(), now);
        (0..5).for_each(|_| breaker.failed(now, 0));
        breaker
    }

    #[test]
    fn five_failures_in_ten_seconds_open_it() {
        let begin = Instant::now();
        let mut breaker = Breaker::new(BreakerRule::default(), begin);
        for failure in 0..20 {
            breaker.failed(begin + 3 * SECOND * failure, 0);
        }
        let now = begin + 60 * SECOND;
        assert_eq!(breaker.admit(now), Admission::Session, "four in ten seconds are borne for ever");
        for _ in 0..3 {
            breaker.failed(now, 0);
        }
        assert_eq!(breaker.admit(now), Admission::Refused { retry_in: SECOND });
    }

    #[test]
    fn a_share_of_the_calls_opens_it_once_there_are_enough() {
        let begin = Instant::now();
        let rule = BreakerRule { failures: 1000, ..BreakerRule::default() };
        let mut breaker = Breaker::new(rule, begin);
        (0..99).for_each(|_| breaker.failed(begin, 900));
        assert_eq!(breaker.admit(begin), Admission::Session, "999 calls tell nothing");
        breaker.failed(begin, 900);
        assert!(matches!(breaker.admit(begin), Admission::Refused { .. }));
        let mut breaker = Breaker::new(BreakerRule { failures: 1000, ..BreakerRule::default() }, begin);
        (0..100).for_each(|_| breaker.failed(begin, 9900));
        assert_eq!(breaker.admit(begin), Admission::Session, "one in a hundred is borne");
        breaker.failed(begin, 9900);
        assert!(matches!(breaker.admit(begin), Admission::Refused { .. }));
    }

    #[test]
    fn one_session_probes_after_the_rest() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        let later = begin + SECOND;
        assert_eq!(breaker.admit(later), Admission::Probe);
        assert_eq!(breaker.admit(later), Admission::Refused { retry_in: Duration::ZERO });
        breaker.failed(later, 0);
        breaker.probed(later, Probed::Works);
        assert_eq!(breaker.admit(later), Admission::Session);
        assert_eq!(breaker.phase(), (Phase::Closed, later));
    }

    #[test]
    fn rests_double_up_to_a_minute() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let rest = seconds * SECOND;
            assert_eq!(breaker.admit(now), Admission::Refused { retry_in: rest });
            now += rest;
            assert_eq!(breaker.admit(now), Admission::Probe);
            breaker.probed(now, Probed::Failed);
        }
    }

    #[test]
    fn a_rest_is_short_again_after_a_good_minute_only() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        let closed = begin + SECOND;
        assert_eq!(breaker.admit(closed), Admission::Probe);
        breaker.probed(closed, Probed::Works);
        (0..5).for_each(|_| breaker.failed(closed + SECOND, 0));
        assert_eq!(breaker.admit(closed + SECOND), Admission::Refused { retry_in: 2 * SECOND });
        let closed = closed + 3 * SECOND;
        assert_eq!(breaker.admit(closed), Admission::Probe);
        breaker.probed(closed, Probed::Works);
        let much_later = closed + 60 * SECOND;
        (0..5).for_each(|_| breaker.failed(much_later, 0));
        assert_eq!(breaker.admit(much_later), Admission::Refused { retry_in: SECOND });
    }

    #[test]
    fn a_probe_that_tells_nothing_leaves_the_next_one_to_try() {
        let begin = Instant::now();
        let mut breaker = opened(begin);
        assert_eq!(breaker.admit(begin + SECOND), Admission::Probe);
        breaker.probed(begin + SECOND, Probed::Nothing);
        assert_eq!(breaker.admit(begin + SECOND), Admission::Probe);
    }
}
