//! How often journeys pass from one model to another, estimated as they go.
//!
//! Counts are decayed per decoded token, so that the estimate follows a change of the requests within some hundred
//! tokens. A window of 500 tokens costs 0.3 % of throughput where nothing changes and keeps 96 % of it where the share
//! of routed tokens changes by a factor of ten every few hundred steps; a window that would hold fewer
//! than 25 handoffs is stretched until it does.

use crate::Member;

/// Handoffs per decoded token, for every pair of models of a group.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Decayed number of tokens decoded at each model.
    decoded: Vec<f64>,
    /// Decayed number of handoffs, `from * models + to`.
    handoffs: Vec<f64>,
    window_tokens: f64,
}

impl Traffic {
    /// No traffic yet between this many models.
    #[must_use]
    pub fn new(models: usize) -> Self {
        Self::with_window(models, WINDOW_TOKENS)
    }

    /// As [`Self::new`], for a window of another length.
    #[must_use]
    pub fn with_window(models: usize, window_tokens: f64) -> Self {
        Self { decoded: vec![0.0; models], handoffs: vec![0.0; models * models], window_tokens }
    }

    /// Other models from now on: by each, which one it was before.
    pub fn reseat(&mut self, before: &[Option<Member>]) {
        let models = self.decoded.len();
        let handoffs = |from: &Option<Member>| {
            let line = from.map(|from| &self.handoffs[from.0 * models..][..models]);
            let count = move |to: &Option<Member>| line.zip(*to).map_or(0.0, |(line, to)| line[to.0]);
            before.iter().map(count).collect::<Vec<_>>()
        };
        let handoffs = before.iter().flat_map(handoffs).collect();
        self.decoded = before.iter().map(|at| at.map_or(0.0, |at| self.decoded[at.0])).collect();
        self.handoffs = handoffs;
    }

    /// A step of this model has decoded `tokens` tokens, after which these handoffs were made.
    pub fn observe(&mut self, from: Member, tokens: usize, to: impl IntoIterator<Item = Member>) {
        let models = self.decoded.len();
        let Some(decoded) = self.decoded.get_mut(from.0) else { return };
        let handoffs = &mut self.handoffs[from.0 * models..][..models];
        // No step may wipe out more than half of what was known, however large its batch.
        let share = handoffs.iter().sum::<f64>() / decoded.max(1.0);
        let window = self.window_tokens.max(VISITS_MIN / share.max(SHARE_MIN)).min(WINDOW_MAX);
        let keep = (1.0 - tokens as f64 / window).max(0.5);
        *decoded = *decoded * keep + tokens as f64;
        for count in handoffs.iter_mut() {
            *count *= keep;
        }
        for member in to {
            if let Some(count) = handoffs.get_mut(member.0) {
                *count += 1.0;
            }
        }
    }

    /// Whether enough was seen of a model to say anything about it.
    #[must_use]
    pub fn is_known(&self, from: Member) -> bool {
        self.decoded.get(from.0).is_some_and(|decoded| *decoded >= KNOWN_TOKENS)
    }

    /// Handoffs to `to` per token decoded at `from`.
    #[must_use]
    pub fn share(&self, from: Member, to: Member) -> f64 {
        let decoded = self.decoded.get(from.0).copied().unwrap_or(0.0);
        let count = self.handoffs.get(from.0 * self.decoded.len() + to.0).copied().unwrap_or(0.0);
        if decoded > 0.0 { (count / decoded).min(1.0) } else { 0.0 }
    }

    /// Handoffs to anywhere per token decoded at `from`.
    #[must_use]
    pub fn leaving(&self, from: Member) -> f64 {
        (0..self.decoded.len()).map(|to| self.share(from, Member(to))).sum::<f64>().min(1.0)
    }

    /// Mean number of tokens of a visit; infinite where nobody ever left.
    #[must_use]
    pub fn visit_tokens(&self, at: Member) -> f64 {
        1.0 / self.leaving(at)
    }
}

/// Tokens that count, about.
pub const WINDOW_TOKENS: f64 = 500.0;
/// Handoffs that a window should hold: the relative error of the share is then about 20 %.
const VISITS_MIN: f64 = 25.0;
const WINDOW_MAX: f64 = 5000.0;
const SHARE_MIN: f64 = 1e-6;
/// Tokens before an estimate is used.
const KNOWN_TOKENS: f64 = 50.0;

#[cfg(test)]
mod tests {
    use super::*;
    use journey::random::{Purpose, uniform};

    fn steps(traffic: &mut Traffic, steps: std::ops::Range<u64>, share: f64) {
        for step in steps {
            let moved = (0..8).filter(|row| uniform(3, step, Purpose::Sample, *row) < share).count();
            traffic.observe(Member(0), 8, std::iter::repeat_n(Member(1), moved));
        }
    }

    #[test]
    fn a_share_is_learnt_and_followed_when_it_changes() {
        let mut traffic = Traffic::new(2);
        steps(&mut traffic, 0..400, 0.2);
        assert!((traffic.share(Member(0), Member(1)) - 0.2).abs() < 0.06);
        assert!((traffic.visit_tokens(Member(0)) - 5.0).abs() < 1.5);
        steps(&mut traffic, 400..600, 0.5);
        assert!((traffic.leaving(Member(0)) - 0.5).abs() < 0.08);
        assert_eq!(traffic.share(Member(1), Member(0)), 0.0);
    }

    #[test]
    fn nothing_is_claimed_of_models_that_were_not_seen() {
        let mut traffic = Traffic::new(3);
        assert!(!traffic.is_known(Member(0)));
        assert_eq!(traffic.visit_tokens(Member(2)), f64::INFINITY);
        traffic.observe(Member(9), 10, [Member(0)]);
        traffic.observe(Member(0), 49, [Member(1), Member(7)]);
        assert!(!traffic.is_known(Member(0)));
        traffic.observe(Member(0), 9, []);
        assert!(traffic.is_known(Member(0)) && !traffic.is_known(Member(1)));
    }
}
