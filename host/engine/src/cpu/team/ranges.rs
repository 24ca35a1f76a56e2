//! How the parts of a phase come to the threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Line;

/// The parts of a phase, a range for each thread. A thread that is done with its own goes on with what is left of the
/// others'. So each reads memory in order for as long as it can, which is what fetching ahead lives by, and all end
/// together.
pub(super) struct Ranges<'a> {
    /// The next part of each range to be taken.
    next: &'a [Line<AtomicUsize>],
    count: usize,
    /// How many parts are taken at once.
    taken: usize,
}

impl<'a> Ranges<'a> {
    /// Ranges of `count` parts, one for each of `next`, which no thread uses now.
    pub(super) fn new(next: &'a [Line<AtomicUsize>], count: usize, grain: usize) -> Self {
        // Few enough takings that they cost nothing, many enough that the threads end together.
        let taken = grain.max(count / (next.len() * 8)).max(1);
        let ranges = Self { next, count, taken };
        for (range, next) in next.iter().enumerate() {
            next.0.store(ranges.first(range), Ordering::Relaxed);
        }
        ranges
    }

    /// Gives a thread parts, each to one thread and once, until none is left.
    pub(super) fn take(&self, thread: usize, mut work: impl FnMut(usize)) {
        for range in (thread..self.next.len()).chain(0..thread) {
            let end = self.first(range + 1);
            loop {
                let from = self.next[range].0.fetch_add(self.taken, Ordering::Relaxed);
                if from >= end {
                    break;
                }
                (from..end.min(from + self.taken)).for_each(&mut work);
            }
        }
    }

    /// Where a range begins.
    fn first(&self, range: usize) -> usize {
        self.count * range / self.next.len()
    }
}
