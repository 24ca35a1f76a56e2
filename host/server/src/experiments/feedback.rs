//! Scores of answers: from the people who read them, or from a program that judges them afterwards.

use store::{Area, StoreError};

use super::Experiments;
use super::answers::{AGE_MS_MAX, Scorable};
use crate::control::Control;
use crate::unix;

/// How good an answer was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The number in the answer's id.
    pub id: u64,
    /// From 0 to 1.
    pub score: f64,
}

/// What became of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scored {
    /// It counts.
    Counted,
    /// The answer had one.
    Before,
    /// The answer was made under other weights, or by an experiment that is gone.
    Late,
}

impl Experiments {
    /// Takes scores of answers that this owner may score: all of them, or, where one is of an answer that is unknown, too old
    /// or somebody else's, none, and says at which place it stands. Reads the store where memory does not know an answer.
    ///
    /// # Errors
    /// [`StoreError`], if what is kept cannot be read.
    pub(crate) fn score(
        &self,
        control: &Control,
        scores: &[Score],
        owner: u64,
    ) -> Result<Result<Vec<Scored>, usize>, StoreError> {
        let mut found = Vec::with_capacity(scores.len());
        for (place, score) in scores.iter().enumerate() {
            match self.scorable(control, score.id)?.filter(|scorable| scorable.owner == owner) {
                Some(scorable) => found.push(scorable),
                None => return Ok(Err(place)),
            }
        }
        let scored = scores.iter().zip(&found).map(|(score, scorable)| self.take(score, scorable));
        Ok(Ok(scored.collect()))
    }

    fn take(&self, score: &Score, scorable: &Scorable) -> Scored {
        let all = self.all.load();
        let entry = all.get(&scorable.experiment);
        let Some(entry) = entry.filter(|entry| entry.kept.begun_unix_ms == scorable.begun_unix_ms) else {
            return Scored::Late;
        };
        if !self.answers.score(score.id, scorable) {
            return Scored::Before;
        }
        if entry.book.scored(scorable.arm, scorable.unit, score.score) {
            Scored::Counted
        } else {
            Scored::Late
        }
    }

    fn scorable(&self, control: &Control, id: u64) -> Result<Option<Scorable>, StoreError> {
        if let Some(known) = self.answers.get(id) {
            return Ok(Some(known));
        }
        let Ok(store) = control.store() else { return Ok(None) };
        let kept = store.observed::<Scorable>(Area::Feedback, &key(id))?;
        let oldest = unix::now_ms().saturating_sub(AGE_MS_MAX);
        Ok(kept.filter(|scorable| scorable.at_unix_ms >= oldest))
    }
}

/// An answer's name in the store.
pub(super) fn key(id: u64) -> String {
    format!("{id:016x}")
}
