//! Which answer was of which arm, so that feedback finds it: the last answers in memory, and in the store if there is one.
//!
//! Bounded by number and by age. An answer is scored once; who scores it again changes nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use experiment::Unit;
use serde::{Deserialize, Serialize};

/// An answer that can be scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scorable {
    /// Its experiment's name.
    pub(super) experiment: String,
    /// When that was begun.
    pub(super) begun_unix_ms: u64,
    /// Its arm.
    pub(super) arm: usize,
    /// Where it is counted.
    pub(super) unit: Unit,
    /// Whose it is: the beginning of a digest of the tenant.
    pub(super) owner: u64,
    /// When it was begun, milliseconds since 1970.
    pub(super) at_unix_ms: u64,
    /// Whether it has been scored.
    pub(super) is_scored: bool,
}

/// The answers that can be scored, by the number in their id.
#[derive(Default)]
pub(super) struct Answers(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_id: HashMap<u64, Scorable>,
    /// Ids in the order in which they came.
    order: VecDeque<u64>,
    /// Those that the store does not have as they are.
    unsaved: BTreeSet<u64>,
    /// When the last one was begun that was forgotten because there were too many.
    crowded_out_unix_ms: u64,
}

impl Answers {
    /// One more answer; the oldest beyond the bounds are forgotten.
    pub(super) fn add(&self, id: u64, scorable: Scorable) {
        let now = scorable.at_unix_ms;
        let mut known = self.known();
        known.put(id, scorable);
        known.forget(now);
    }

    /// An answer that somebody scores.
    pub(super) fn get(&self, id: u64) -> Option<Scorable> {
        self.known().by_id.get(&id).cloned()
    }

    /// Marks an answer as scored, one that only the store knew too. False where it was scored before.
    pub(super) fn score(&self, id: u64, scorable: &Scorable) -> bool {
        let mut known = self.known();
        if known.by_id.get(&id).is_some_and(|known| known.is_scored) || scorable.is_scored {
            return false;
        }
        known.put(id, Scorable { is_scored: true, ..scorable.clone() });
        true
    }

    /// What the store does not have as it is, which it is given now.
    pub(super) fn unsaved(&self) -> Vec<(u64, Scorable)> {
        let mut known = self.known();
        let ids = std::mem::take(&mut known.unsaved);
        ids.into_iter().filter_map(|id| Some((id, known.by_id.get(&id)?.clone()))).collect()
    }

    /// The store did not take these.
    pub(super) fn not_saved(&self, ids: impl Iterator<Item = u64>) {
        let mut known = self.known();
        let ids: Vec<u64> = ids.filter(|id| known.by_id.contains_key(id)).collect();
        known.unsaved.extend(ids);
    }

    /// Answers before this are forgotten, in the store too.
    pub(super) fn oldest_unix_ms(&self, now_unix_ms: u64) -> u64 {
        self.known().crowded_out_unix_ms.max(now_unix_ms.saturating_sub(AGE_MS_MAX))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing is called under the lock that could leave it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn put(&mut self, id: u64, scorable: Scorable) {
        if self.by_id.insert(id, scorable).is_none() {
            self.order.push_back(id);
        }
        self.unsaved.insert(id);
    }

    fn forget(&mut self, now_unix_ms: u64) {
        while let Some(oldest) = self.order.front() {
            let at = self.by_id.get(oldest).map_or(0, |scorable| scorable.at_unix_ms);
            let crowded = self.order.len() > ANSWERS_MAX;
            if !crowded && now_unix_ms.saturating_sub(at) <= AGE_MS_MAX {
                return;
            }
            if crowded {
                self.crowded_out_unix_ms = self.crowded_out_unix_ms.max(at);
            }
            if let Some(oldest) = self.order.pop_front() {
                self.by_id.remove(&oldest);
                self.unsaved.remove(&oldest);
            }
        }
    }
}

/// Answers that can be scored at a time.
const ANSWERS_MAX: usize = 100_000;
/// How long an answer can be scored, in milliseconds: a day.
pub(super) const AGE_MS_MAX: u64 = 24 * 60 * 60 * 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(at_unix_ms: u64) -> Scorable {
        let unit = Unit { phase: 1, cluster: 0, cell: 0 };
        let experiment = "one".to_owned();
        Scorable { experiment, begun_unix_ms: 1, arm: 0, unit, owner: 7, at_unix_ms, is_scored: false }
    }

    #[test]
    fn answers_are_forgotten_by_age_and_by_number() {
        let answers = Answers::default();
        answers.add(1, answer(1));
        answers.add(2, answer(2 + AGE_MS_MAX));
        assert_eq!((answers.get(1), answers.oldest_unix_ms(0)), (None, 0), "a day later");
        for id in 3..ANSWERS_MAX as u64 + 4 {
            answers.add(id, answer(AGE_MS_MAX + id));
        }
        assert!(answers.get(2).is_none() && answers.get(4).is_some());
        assert_eq!(answers.oldest_unix_ms(0), AGE_MS_MAX + 3);
        assert_eq!(answers.unsaved().len(), ANSWERS_MAX);
        assert!(answers.unsaved().is_empty());
    }

    #[test]
    fn an_answer_is_scored_once_even_if_only_the_store_knew_it() {
        let answers = Answers::default();
        answers.add(1, answer(1));
        assert!(answers.score(1, &answer(1)) && !answers.score(1, &answer(1)));
        assert!(answers.score(2, &answer(1)), "of before a restart");
        assert!(!answers.score(2, &answer(1)));
        assert!(!answers.score(3, &Scorable { is_scored: true, ..answer(1) }));
    }
}
