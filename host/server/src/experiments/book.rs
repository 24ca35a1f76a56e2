//! What the arms of one experiment did, in memory: one short lock for each answer, when it has ended.

use std::sync::{Mutex, MutexGuard, PoisonError};

use experiment::tally::{Ended, Replayed, Usage};
use experiment::{Answer, Experiment, Tallies, Unit};
use serde::{Deserialize, Serialize};

use crate::runtime::Course;

/// The tallies of an experiment.
pub(super) struct Book {
    /// When its experiment was begun; what belongs to another of the same name is not written here.
    pub(super) begun_unix_ms: u64,
    pages: Mutex<Pages>,
}

struct Pages {
    tallies: Tallies,
    /// By arm, since the process began: unlike tallies they outlive a change of weights.
    counts: Vec<Counts>,
    /// By shadow, since the process began: answers that it was not asked about, as too many waited.
    skipped: Vec<u64>,
    /// Whether there is something that the store does not have.
    is_unsaved: bool,
    /// Whether there is something that the guardrails have not seen.
    is_unchecked: bool,
}

/// What one arm did since the process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Answers that have ended.
    pub(crate) answers: u64,
    /// Those that failed.
    pub(crate) errors: u64,
    /// Those that went on without their policy.
    pub(crate) fallbacks: u64,
    /// Tokens made, by role.
    pub(crate) made: Vec<u64>,
    /// Their price.
    pub(crate) cost: f64,
}

/// Tallies as they are kept over restarts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    pub(super) begun_unix_ms: u64,
    pub(super) tallies: Tallies,
}

impl Book {
    /// An empty book, or one that goes on where the saved one ends, if that is of the same experiment and phase.
    pub(super) fn new(experiment: &Experiment, begun_unix_ms: u64, saved: Option<Saved>) -> Self {
        let arms = experiment.definition.arms.len();
        let is_of = |saved: &Saved| {
            saved.begun_unix_ms == begun_unix_ms
                && saved.tallies.phase == experiment.phase
                && saved.tallies.arms.len() == arms
                && saved.tallies.shadows.len() == experiment.definition.shadows.len()
        };
        let tallies = saved.filter(is_of).map_or_else(|| Tallies::new(experiment), |saved| saved.tallies);
        let counts = vec![Counts::default(); arms];
        let skipped = vec![0; experiment.definition.shadows.len()];
        // What is on the store may have crossed a guardrail just before the server stopped.
        let pages = Pages { tallies, counts, skipped, is_unsaved: false, is_unchecked: true };
        Self { begun_unix_ms, pages: Mutex::new(pages) }
    }

    /// The experiment is as it is now; where its weights have changed, the tallies begin anew.
    pub(super) fn follow(&self, experiment: &Experiment) {
        let mut pages = self.pages();
        if pages.tallies.phase != experiment.phase {
            pages.tallies = Tallies::new(experiment);
            pages.is_unsaved = true;
        }
    }

    /// A key was given this arm.
    pub(super) fn assigned(&self, arm: usize, unit: Unit) {
        let mut pages = self.pages();
        pages.tallies.assigned(arm, unit);
        pages.is_unsaved = true;
    }

    /// An answer of this arm is over. Without a unit it is counted, and says nothing of the arm.
    pub(super) fn ended(&self, arm: usize, unit: Option<Unit>, course: &Course, cost: f64) {
        let Course { ended, fell_back, ttft_s, gaps_s, usage, .. } = course;
        let mut pages = self.pages();
        if let Some(counts) = pages.counts.get_mut(arm) {
            counts.add(course, cost);
        }
        let Some(unit) = unit else { return };
        let answer = Answer { ended: *ended, fell_back: *fell_back, ttft_s: *ttft_s, gaps_s, usage, cost };
        pages.tallies.record(arm, unit, &answer);
        pages.is_unsaved = true;
        pages.is_unchecked = true;
    }

    /// Someone said how good an answer was. Returns whether it counts: answers under other weights do not.
    pub(super) fn scored(&self, arm: usize, unit: Unit, score: f64) -> bool {
        let mut pages = self.pages();
        if unit.phase != pages.tallies.phase {
            return false;
        }
        pages.tallies.feedback(arm, unit, score);
        pages.is_unsaved = true;
        pages.is_unchecked = true;
        true
    }

    /// A shadow was asked about an answer.
    pub(super) fn shadowed(&self, shadow: usize, unit: Unit, replayed: &Replayed) {
        let mut pages = self.pages();
        pages.tallies.shadowed(shadow, unit, replayed);
        pages.is_unsaved = true;
    }

    /// A shadow was not asked about an answer, as too many waited.
    pub(super) fn skipped(&self, shadow: usize) {
        if let Some(skipped) = self.pages().skipped.get_mut(shadow) {
            *skipped += 1;
        }
    }

    /// By shadow: answers that it was not asked about.
    pub(super) fn skips(&self) -> Vec<u64> {
        self.pages().skipped.clone()
    }

    /// The tallies as they are now.
    pub(super) fn tallies(&self) -> Tallies {
        self.pages().tallies.clone()
    }

    /// What the arms did since the process began.
    pub(super) fn counts(&self) -> Vec<Counts> {
        self.pages().counts.clone()
    }

    /// What the store does not have, which it is given now.
    pub(super) fn unsaved(&self) -> Option<Saved> {
        let mut pages = self.pages();
        std::mem::take(&mut pages.is_unsaved)
            .then(|| Saved { begun_unix_ms: self.begun_unix_ms, tallies: pages.tallies.clone() })
    }

    /// The store did not take it.
    pub(super) fn not_saved(&self) {
        self.pages().is_unsaved = true;
    }

    /// What the guardrails have not seen, which they look at now.
    pub(super) fn unchecked(&self) -> Option<Tallies> {
        let mut pages = self.pages();
        std::mem::take(&mut pages.is_unchecked).then(|| pages.tallies.clone())
    }

    /// The guardrails are to look once more.
    pub(super) fn look_again(&self) {
        self.pages().is_unchecked = true;
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        // Sums: whatever panicked, they are as good as before.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add(&mut self, course: &Course, cost: f64) {
        self.answers += 1;
        self.errors += u64::from(course.ended == Ended::Failed);
        self.fallbacks += u64::from(course.fell_back);
        self.cost += cost;
        self.made.resize(self.made.len().max(course.usage.len()), 0);
        for (sum, Usage { completion, .. }) in self.made.iter_mut().zip(&course.usage) {
            *sum += completion;
        }
    }
}
