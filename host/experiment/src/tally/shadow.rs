//! What a shadow arm would have done.
//!
//! A shadow is asked about the tokens of the entry model at which the arm that answered could have left it, on the
//! answer as it was made: what the shadow says is not applied, so the next token is never its own doing. Counted are
//! these decisions. The share of tokens that follows from them is exact where visits are of one token, and elsewhere as
//! good as the sequence would have gone on alike.

use serde::{Deserialize, Serialize};

/// What one shadow said of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Tokens that it was asked about.
    pub asked: u64,
    /// Those at which it decided as the arm that answered: both left the entry model, or both stayed.
    pub agreed: u64,
    /// Those at which it would have left.
    pub left: u64,
    /// Tokens of the visits that it wanted, by role.
    pub visits: Vec<u64>,
    /// Whether a visit was without a number of tokens.
    pub is_unbounded: bool,
    /// Whether it failed, and was not asked to the end.
    pub failed: bool,
}

/// What one shadow said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shadow {
    /// Answers that it was asked about.
    pub answers: u64,
    /// Those at which it failed.
    pub failed: u64,
    /// Those at which it wanted a visit without a number of tokens.
    pub unbounded: u64,
    /// Tokens that it was asked about.
    pub asked: u64,
    /// Those at which it decided as the arm that answered.
    pub agreed: u64,
    /// Those at which it would have left the entry model.
    pub left: u64,
    /// Tokens of the visits that it wanted, by role.
    pub visits: Vec<u64>,
}

impl Shadow {
    /// The part of the tokens at which it decided as the arm that answered.
    #[must_use]
    pub fn agreement(&self) -> Option<f64> {
        (self.asked > 0).then(|| self.agreed as f64 / self.asked as f64)
    }

    /// The part of all tokens that each of so many roles would have made. None before the first token, and once a visit was
    /// without a number of tokens.
    ///
    /// ```
    /// # use experiment::tally::Shadow;
    /// // Of 10 tokens it leaves at 2, for 3 tokens of role 1 each time: 8 and 6 of 14.
    /// let shadow = Shadow { asked: 10, left: 2, visits: vec![0, 6], ..Shadow::default() };
    /// assert_eq!(shadow.shares(2), Some(vec![8.0 / 14.0, 6.0 / 14.0]));
    /// ```
    #[must_use]
    pub fn shares(&self, roles: usize) -> Option<Vec<f64>> {
        if self.asked == 0 || self.unbounded > 0 {
            return None;
        }
        let made = |role: usize| {
            let visits = self.visits.get(role).copied().unwrap_or(0);
            if role == 0 { visits + self.asked.saturating_sub(self.left) } else { visits }
        };
        let all: u64 = (0..roles).map(made).sum();
        Some((0..roles).map(|role| made(role) as f64 / all.max(1) as f64).collect())
    }

    pub(super) fn add(&mut self, replayed: &Replayed) {
        let Replayed { asked, agreed, left, visits, is_unbounded, failed } = replayed;
        self.merge(&Self {
            answers: 1,
            failed: u64::from(*failed),
            unbounded: u64::from(*is_unbounded),
            asked: *asked,
            agreed: *agreed,
            left: *left,
            visits: visits.clone(),
        });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.answers += other.answers;
        self.failed += other.failed;
        self.unbounded += other.unbounded;
        self.asked += other.asked;
        self.agreed += other.agreed;
        self.left += other.left;
        self.visits.resize(self.visits.len().max(other.visits.len()), 0);
        for (sum, visits) in self.visits.iter_mut().zip(&other.visits) {
            *sum += visits;
        }
    }
}
