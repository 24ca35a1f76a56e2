//! The cores of one machine among the engines of one process.
//!
//! Every engine has threads of its own, which sleep between its steps. What is shared is the right to use cores: a step
//! begins by asking how many threads it may wake, and ends by saying that they are asleep again. Results do not depend
//! on the answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// How engines that have work at the same time share the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreSharing {
    /// Each engine keeps its own part of the cores, whether the others have work or not.
    Split,
    /// All cores for an engine that is alone; equal parts, from its next step on, for one that is not.
    #[default]
    Join,
    /// All cores for one step at a time, in the order in which steps were asked for.
    Turns,
}

/// Cores that several engines compute on.
#[derive(Debug)]
pub struct Cores {
    threads: usize,
    sharing: CoreSharing,
    engines: usize,
    /// Engines that are in a step.
    busy: AtomicUsize,
    turns: Mutex<Turns>,
    next: Condvar,
}

/// The first number is whose turn it is, the second the next one to be drawn.
#[derive(Debug, Default)]
struct Turns {
    serving: u64,
    drawn: u64,
}

impl Cores {
    /// `threads` may compute at once, at least one, for that many `engines`.
    #[must_use]
    pub fn new(threads: usize, sharing: CoreSharing, engines: usize) -> Self {
        let (threads, engines) = (threads.max(1), engines.max(1));
        let (busy, turns, next) = (AtomicUsize::new(0), Mutex::default(), Condvar::new());
        Self { threads, sharing, engines, busy, turns, next }
    }

    /// Threads that an engine can make use of.
    #[must_use]
    pub fn threads_max(&self) -> usize {
        match self.sharing {
            CoreSharing::Split => (self.threads / self.engines).max(1),
            CoreSharing::Join | CoreSharing::Turns => self.threads,
        }
    }

    /// Begins a step; waits where it is another's turn.
    pub(super) fn begin(&self) -> Busy<'_> {
        if self.sharing == CoreSharing::Turns {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let mine = turns.drawn;
            turns.drawn += 1;
            while turns.serving != mine {
                turns = self.next.wait(turns).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let busy = self.busy.fetch_add(1, Ordering::AcqRel) + 1;
        let threads = match self.sharing {
            CoreSharing::Join => (self.threads / busy).max(1),
            CoreSharing::Split | CoreSharing::Turns => self.threads_max(),
        };
        Busy { cores: self, threads }
    }
}

/// A step that is running; dropped when it ends.
pub(super) struct Busy<'a> {
    cores: &'a Cores,
    /// Threads that it may use.
    pub(super) threads: usize,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.cores.busy.fetch_sub(1, Ordering::AcqRel);
        if self.cores.sharing == CoreSharing::Turns {
            self.cores.turns.lock().unwrap_or_else(PoisonError::into_inner).serving += 1;
            self.cores.next.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn who_is_alone_has_all_cores_and_who_is_not_has_a_part() {
        let cores = Cores::new(4, CoreSharing::Join, 3);
        let first = cores.begin();
        let second = cores.begin();
        let third = cores.begin();
        assert_eq!([first.threads, second.threads, third.threads], [4, 2, 1]);
        drop((first, second, third));
        assert_eq!(cores.begin().threads, 4);
    }

    #[test]
    fn a_part_is_kept_when_cores_are_split() {
        let cores = Cores::new(5, CoreSharing::Split, 2);
        let busy = cores.begin();
        assert_eq!([cores.threads_max(), busy.threads, cores.begin().threads], [2; 3]);
        assert_eq!(Cores::new(2, CoreSharing::Split, 9).threads_max(), 1);
    }

    #[test]
    fn turns_are_taken_in_order_and_one_at_a_time() {
        let cores = Arc::new(Cores::new(2, CoreSharing::Turns, 5));
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = cores.begin();
        let threads: Vec<_> = (0..4u64)
            .map(|index| {
                let (shared, order) = (Arc::clone(&cores), Arc::clone(&order));
                let thread = std::thread::spawn(move || {
                    let busy = shared.begin();
                    assert_eq!((busy.threads, shared.busy.load(Ordering::Acquire)), (2, 1));
                    order.lock().unwrap().push(index);
                });
                // It has drawn its number before the next thread begins.
                while cores.turns.lock().unwrap().drawn < index + 2 {
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    }
}
