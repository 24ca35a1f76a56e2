//! Eager admission with chunked prefill: whoever has tokens to feed takes part in the next step.
//!
//! Every row of a step gets at least one token, so a long prompt never holds up journeys that decode; what is left of
//! the token budget goes to the longest-waiting rows first. Served journeys go to the back of the queue, so that with
//! more residents than rows each is served once a round.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use journey::JourneyId;

/// Bounds of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most journeys in a step.
    pub rows_max: NonZeroUsize,
    /// Most tokens in a step over all rows. A step has at least a token per row even if this is smaller.
    pub tokens_max: NonZeroUsize,
}

/// One journey's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose tokens.
    pub journey: JourneyId,
    /// How many of its pending tokens are fed, at least 1.
    pub tokens: usize,
}

/// What a subserver does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Run one step with these rows.
    Run(Vec<Share>),
    /// Nobody has anything to feed.
    Wait,
}

#[derive(Clone, Copy, Debug)]
struct Resident {
    /// Place in the queue; smaller is earlier.
    ticket: u64,
    pending: usize,
}

/// The residents of one subserver, in the order in which they are served.
#[derive(Debug)]
pub struct Scheduler {
    limits: Limits,
    residents: BTreeMap<JourneyId, Resident>,
    queue: BTreeMap<u64, JourneyId>,
    next_ticket: u64,
}

impl Scheduler {
    /// A scheduler without residents.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, residents: BTreeMap::new(), queue: BTreeMap::new(), next_ticket: 0 }
    }

    /// A journey comes, or stays after a step, with this many tokens to feed (at least 1).
    ///
    /// A journey that is already resident keeps its place in the queue.
    pub fn set_pending(&mut self, journey: JourneyId, pending: usize) {
        debug_assert!(pending > 0, "{journey} has nothing to feed");
        let pending = pending.max(1);
        if let Some(resident) = self.residents.get_mut(&journey) {
            resident.pending = pending;
            return;
        }
        let ticket = self.take_ticket();
        self.residents.insert(journey, Resident { ticket, pending });
        self.queue.insert(ticket, journey);
    }

    /// A journey has left this subserver; unknown journeys are ignored.
    pub fn remove(&mut self, journey: JourneyId) {
        if let Some(resident) = self.residents.remove(&journey) {
            self.queue.remove(&resident.ticket);
        }
    }

    /// Chooses the next step and sends those it serves to the back of the queue.
    pub fn next_turn(&mut self) -> Turn {
        let rows: Vec<(u64, JourneyId)> = self
            .queue
            .iter()
            .take(self.limits.rows_max.get())
            .map(|(&ticket, &journey)| (ticket, journey))
            .collect();
        if rows.is_empty() {
            return Turn::Wait;
        }
        let mut spare = self.limits.tokens_max.get().saturating_sub(rows.len());
        let shares = rows
            .into_iter()
            .map(|(ticket, journey)| {
                let pending = self.requeue(ticket, journey);
                let more = (pending - 1).min(spare);
                spare -= more;
                Share { journey, tokens: 1 + more }
            })
            .collect();
        Turn::Run(shares)
    }

    /// Number of residents.
    #[must_use]
    pub fn len(&self) -> usize {
        self.residents.len()
    }

    /// Whether nobody is resident.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.residents.is_empty()
    }

    /// Moves a journey to the back of the queue and returns what it has to feed.
    fn requeue(&mut self, ticket: u64, journey: JourneyId) -> usize {
        let behind = self.take_ticket();
        self.queue.remove(&ticket);
        self.queue.insert(behind, journey);
        self.residents.get_mut(&journey).map_or(1, |resident| {
            resident.ticket = behind;
            resident.pending
        })
    }

    fn take_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scheduler(rows_max: usize, tokens_max: usize) -> Scheduler {
        let some = |n| NonZeroUsize::new(n).expect("not zero");
        Scheduler::new(Limits { rows_max: some(rows_max), tokens_max: some(tokens_max) })
    }

    fn shares(turn: Turn) -> Vec<(u64, usize)> {
        match turn {
            Turn::Run(shares) => shares.iter().map(|s| (s.journey.0, s.tokens)).collect(),
            Turn::Wait => Vec::new(),
        }
    }

    #[test]
    fn a_long_prompt_is_cut_so_that_others_decode_beside_it() {
        let mut queue = scheduler(8, 10);
        queue.set_pending(JourneyId(1), 100);
        queue.set_pending(JourneyId(2), 1);
        queue.set_pending(JourneyId(3), 4);
        assert_eq!(shares(queue.next_turn()), [(1, 8), (2, 1), (3, 1)]);
        queue.set_pending(JourneyId(1), 92);
        queue.remove(JourneyId(2));
        assert_eq!(shares(queue.next_turn()), [(1, 9), (3, 1)]);
    }

    #[test]
    fn with_more_residents_than_rows_each_is_served_once_a_round() {
        let mut queue = scheduler(2, 8);
        for id in 1..=5 {
            queue.set_pending(JourneyId(id), 1);
        }
        let served: Vec<u64> = (0..5).flat_map(|_| shares(queue.next_turn())).map(|(id, _)| id).collect();
        assert_eq!(served, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn nobody_to_serve_means_wait() {
        let mut queue = scheduler(2, 8);
        assert_eq!(queue.next_turn(), Turn::Wait);
        queue.set_pending(JourneyId(1), 1);
        queue.remove(JourneyId(1));
        queue.remove(JourneyId(1));
        assert_eq!(queue.next_turn(), Turn::Wait);
    }

    proptest! {
        /// No token is fed that is not pending, bounds hold, and nobody waits longer than a round.
        #[test]
        fn bounds_hold_and_nobody_starves(
            rows_max in 1usize..5, tokens_max in 1usize..20,
            events in proptest::collection::vec((0u64..8, 1usize..30, any::<bool>()), 1..200),
        ) {
            let mut queue = scheduler(rows_max, tokens_max);
            let mut pending: BTreeMap<u64, usize> = BTreeMap::new();
            let mut waited: BTreeMap<u64, usize> = BTreeMap::new();
            for (id, tokens, leave) in events {
                if leave {
                    queue.remove(JourneyId(id));
                    pending.remove(&id);
                    waited.remove(&id);
                } else {
                    queue.set_pending(JourneyId(id), tokens);
                    pending.insert(id, tokens);
                }
                let served = shares(queue.next_turn());
                prop_assert_eq!(served.len(), pending.len().min(rows_max));
                let total: usize = served.iter().map(|s| s.1).sum();
                prop_assert!(total <= tokens_max.max(served.len()));
                for (&id, &has) in &pending {
                    let share = served.iter().find(|s| s.0 == id);
                    prop_assert!(share.is_none_or(|s| s.1 >= 1 && s.1 <= has));
                    let rounds = waited.entry(id).or_default();
                    *rounds = if share.is_some() { 0 } else { *rounds + 1 };
                    prop_assert!(*rounds <= 8usize.div_ceil(rows_max), "journey {} waited {} steps", id, rounds);
                }
            }
        }
    }
}
