//! The bound on the gap between two tokens of a journey: how strict the deadline rule has to be.
//!
//! Before a model waits, it asks whether the gap of those who wait already would get longer than the bound. Softly, a
//! gap begins one small-model step before the journey arrived, which is right for the 99th percentile where few tokens
//! are routed; strictly, it begins with the last token that one of the journeys gave, which bounds the longest gap and
//! costs throughput. The guard starts softly and becomes strict when more than 1 % of the recent gaps were too long.

/// What a gap is measured from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// A step of the feeder before the oldest arrival.
    Soft,
    /// The earliest last token of anybody who waits.
    Hard,
}

/// Recent gaps against the bound.
#[derive(Clone, Debug)]
pub struct Gaps {
    bound_s: Option<f64>,
    /// Decayed count of gaps and of those that were too long.
    seen: f64,
    too_long: f64,
    strictness: Strictness,
    is_guarded: bool,
}

impl Gaps {
    /// Starts softly with a guard, or stays strict.
    pub(super) fn new(bound_s: Option<f64>, from: Strictness) -> Self {
        let is_guarded = from == Strictness::Soft;
        Self { bound_s, seen: 0.0, too_long: 0.0, strictness: from, is_guarded }
    }

    /// A journey has given a token this long after the one before.
    pub(super) fn note(&mut self, gap_s: f64) {
        let Some(bound_s) = self.bound_s else { return };
        let keep = 1.0 - 1.0 / WINDOW_TOKENS;
        self.seen = self.seen * keep + 1.0;
        self.too_long = self.too_long * keep + f64::from(u8::from(gap_s > bound_s));
        if !self.is_guarded || self.seen < 0.2 * WINDOW_TOKENS {
            return;
        }
        if self.share() > HARD_FROM {
            self.strictness = Strictness::Hard;
        } else if self.share() < SOFT_FROM {
            self.strictness = Strictness::Soft;
        }
    }

    /// Another bound holds from now on; what was seen of the one before says nothing about it.
    pub(super) fn set_bound(&mut self, bound_s: Option<f64>) {
        if bound_s != self.bound_s {
            (self.bound_s, self.seen, self.too_long) = (bound_s, 0.0, 0.0);
        }
    }

    /// The bound, seconds.
    #[must_use]
    pub fn bound_s(&self) -> Option<f64> {
        self.bound_s
    }

    /// Share of the recent gaps that were too long.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.too_long / self.seen.max(1.0)
    }

    /// What gaps are measured from now.
    #[must_use]
    pub fn strictness(&self) -> Strictness {
        self.strictness
    }
}

const WINDOW_TOKENS: f64 = 2000.0;
const HARD_FROM: f64 = 0.01;
/// Well below the other, so that the rule does not flutter.
const SOFT_FROM: f64 = 0.002;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_becomes_strict_above_a_per_cent_and_stays_so_for_a_while() {
        let mut gaps = Gaps::new(Some(1.0), Strictness::Soft);
        for at in 0..4000 {
            gaps.note(if at % 150 == 0 { 1.5 } else { 0.5 });
        }
        assert_eq!(gaps.strictness(), Strictness::Soft, "0.7 % is within the bound");
        for at in 0..4000 {
            gaps.note(if at % 50 == 0 { 1.5 } else { 0.5 });
        }
        assert_eq!(gaps.strictness(), Strictness::Hard, "2 % is not");
        for _ in 0..1000 {
            gaps.note(0.5);
        }
        assert_eq!(gaps.strictness(), Strictness::Hard);
        for _ in 0..4000 {
            gaps.note(0.5);
        }
        assert_eq!(gaps.strictness(), Strictness::Soft);
    }
}
