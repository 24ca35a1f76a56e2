//! Whose call is made next: the slow ones take turns.
//!
//! One queue for each tenant of a revision, served in turn, one call of each at a time: its sessions may share an
//! instance, and a second thread would only wait for the first one's call to end.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// Queues of jobs, by whose they are.
#[derive(Debug)]
pub(super) struct Queues<K, J> {
    waiting: HashMap<K, VecDeque<J>>,
    /// Those who wait and have no job under way, in the order of their turns.
    turns: VecDeque<K>,
    busy: HashSet<K>,
}

impl<K, J> Default for Queues<K, J> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), turns: VecDeque::new(), busy: HashSet::new() }
    }
}

impl<K: Copy + Eq + Hash, J> Queues<K, J> {
    /// A job comes.
    pub(super) fn add(&mut self, whose: K, job: J) {
        let queue = self.waiting.entry(whose).or_default();
        queue.push_back(job);
        if queue.len() == 1 && !self.busy.contains(&whose) {
            self.turns.push_back(whose);
        }
    }

    /// The next job; its owner gets no other one until this is [`done`](Self::done).
    pub(super) fn take(&mut self) -> Option<(K, J)> {
        let whose = self.turns.pop_front()?;
        let queue = self.waiting.get_mut(&whose)?;
        let job = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&whose);
        }
        self.busy.insert(whose);
        Some((whose, job))
    }

    /// Takes jobs out of turn.
    pub(super) fn extract(&mut self, is_meant: impl Fn(&J) -> bool) -> Vec<J> {
        let taken = self.waiting.values_mut().flat_map(|queue| {
            let all = std::mem::take(queue);
            let (taken, left): (VecDeque<J>, VecDeque<J>) = all.into_iter().partition(&is_meant);
            *queue = left;
            taken
        });
        let taken = taken.collect();
        self.waiting.retain(|_, queue| !queue.is_empty());
        self.turns.retain(|whose| self.waiting.contains_key(whose));
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The job of this owner is over.
    pub(super) fn done(&mut self, whose: K) {
        if self.busy.remove(&whose) && self.waiting.contains_key(&whose) {
            self.turns.push_back(whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns_however_long_their_queues_are() {
        let mut queues = Queues::default();
        (0..3).for_each(|job| queues.add('a', job));
        queues.add('b', 0);
        let mut order = Vec::new();
        while let Some((whose, job)) = queues.take() {
            order.push((whose, job));
            queues.done(whose);
        }
        assert_eq!(order, [('a', 0), ('b', 0), ('a', 1), ('a', 2)]);
    }

    #[test]
    fn jobs_taken_out_of_turn_leave_the_turns_of_others() {
        let mut queues = Queues::default();
        for (whose, job) in [('a', 1), ('a', 2), ('b', 1), ('c', 2), ('c', 1)] {
            queues.add(whose, job);
        }
        assert_eq!(queues.take(), Some(('a', 1)));
        let mut taken = queues.extract(|job| *job == 1);
        taken.sort_unstable();
        assert_eq!(taken, [1, 1]);
        assert_eq!(queues.take(), Some(('c', 2)), "b has no turn any more, and a is busy");
        queues.done('a');
        queues.add('b', 3);
        assert_eq!([queues.take(), queues.take(), queues.take()], [Some(('a', 2)), Some(('b', 3)), None]);
        assert!(queues.is_empty());
    }

    #[test]
    fn an_owner_has_one_job_under_way() {
        let mut queues = Queues::default();
        queues.add('a', 0);
        queues.add('a', 1);
        assert_eq!(queues.take(), Some(('a', 0)));
        queues.add('a', 2);
        assert_eq!(queues.take(), None);
        queues.add('b', 0);
        assert_eq!(queues.take(), Some(('b', 0)), "others go on meanwhile");
        queues.done('a');
        assert_eq!(queues.take(), Some(('a', 1)));
        queues.done('a');
        queues.done('b');
        assert_eq!(queues.take(), Some(('a', 2)));
    }
}
