//! The threads of one model, for work in many short phases.
//!
//! A decode step has a few hundred phases of some microseconds each. Handing one to a general thread pool costs about
//! as much as doing it, so the threads of a team wait for the next phase by looking at one number, and sleep only when
//! none comes for a while. [`Team::each`] hands out the parts of a phase; it borrows everything, so a phase ends
//! before the next line runs.
//!
//! `unsafe` here is what a scoped thread does: a job's lifetime is hidden from the workers while the caller waits.
#![expect(unsafe_code, reason = "lends borrowed jobs and disjoint parts to threads that outlive the borrow")]

mod ranges;
mod split;

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use ranges::Ranges;
#[cfg(test)]
use split::Count;
pub(crate) use split::{Chunks, ColumnBlock, Columns, Split};

/// Threads that do phases together; the thread that calls is one of them.
pub(crate) struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Of each thread's range of parts, the next to be taken.
    next: Vec<Line<AtomicUsize>>,
    /// Threads that take part, the caller's included. A cell also says that there is one phase at a time: a team may move
    /// between threads and not be shared by them.
    width: Cell<usize>,
}

impl Team {
    /// A team of `threads`, at least one.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let threads = threads.max(1);
        let next = (0..threads).map(|_| Line::default()).collect();
        let mut team = Self { shared, workers: Vec::new(), next, width: Cell::new(threads) };
        for index in 1..threads {
            let shared = Arc::clone(&team.shared);
            let thread = std::thread::Builder::new().name(format!("engine-{index}"));
            team.workers.push(thread.spawn(move || shared.serve(index))?);
        }
        Ok(team)
    }

    /// How many threads take part.
    pub(crate) fn size(&self) -> usize {
        self.width.get()
    }

    /// Lets at most `threads` take part from the next phase on; the others sleep.
    pub(crate) fn resize(&self, threads: usize) {
        self.width.set(threads.clamp(1, self.workers.len() + 1));
    }

    /// Does `work` on every part, each on some thread, and returns when all are done. Fewer than two times `grain`
    /// parts are done here, since waking the others would cost more.
    #[expect(clippy::needless_pass_by_value, reason = "a phase uses its parts up")]
    pub(crate) fn each<S: Split>(&self, grain: usize, split: S, work: impl Fn(usize, S::Part) + Sync) {
        let count = split.count();
        if self.size() == 1 || count < 2 * grain.max(1) {
            for index in 0..count {
                // SAFETY: each index once.
                work(index, unsafe { split.part(index) });
            }
            return;
        }
        let ranges = Ranges::new(&self.next[..self.size()], count, grain);
        let job = |thread: usize| {
            ranges.take(thread, |index| {
                // SAFETY: a range gives each of its indices out once.
                work(index, unsafe { split.part(index) });
            });
        };
        self.run(&job);
    }

    /// Runs `job` on every thread that takes part.
    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        // SAFETY: only the lifetime changes. Workers use the job between the release of `phase` and their `done`,
        // and `wait` returns, also by unwinding, after the last of these.
        let job: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(job) };
        let shared = &*self.shared;
        // SAFETY: no worker reads the job now: all are done with the last phase.
        unsafe { *shared.job.get() = Some(job) };
        shared.done.0.store(0, Ordering::Relaxed);
        let helpers = self.size() - 1;
        let count = shared.phase.0.load(Ordering::Relaxed) >> WIDTH_BITS;
        shared.phase.0.store((count + 1) << WIDTH_BITS | helpers as u64, Ordering::Release);
        for worker in &self.workers[..helpers] {
            worker.thread().unpark();
        }
        let mine = catch_unwind(AssertUnwindSafe(|| job(0)));
        shared.wait(helpers);
        if let Err(panic) = mine {
            resume_unwind(panic);
        }
        assert!(!shared.failed.load(Ordering::Relaxed), "a thread of the engine panicked; see its message");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches panics of its jobs, so joining it cannot fail.
            worker.join().ok();
        }
    }
}

/// What the threads see of each other. Each number has a cache line of its own.
#[derive(Default)]
struct Shared {
    /// Counts phases, and in its lowest bits says how many workers take part: a new value means a new job for these. In
    /// one number, so that a worker that looks late cannot take the width of one phase for that of another.
    phase: Line<AtomicU64>,
    /// Workers that are done with the phase.
    done: Line<AtomicUsize>,
    /// The phase's job; written by the caller between phases only.
    job: UnsafeCell<Option<&'static (dyn Fn(usize) + Sync)>>,
    stop: AtomicBool,
    failed: AtomicBool,
}

// SAFETY: `job` is written only while no worker reads it, see `run`; everything else is atomic.
unsafe impl Sync for Shared {}
// SAFETY: the job is Sync, so a reference to it may move between threads.
unsafe impl Send for Shared {}

impl Shared {
    /// The life of the worker `index`, counted from 1.
    fn serve(&self, index: usize) {
        let mut seen = 0;
        let mut looks = 0;
        loop {
            let phase = self.phase.0.load(Ordering::Acquire);
            if phase == seen {
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                looks += 1;
                if looks < LOOKS_BEFORE_SLEEP {
                    std::hint::spin_loop();
                } else {
                    std::thread::park();
                }
                continue;
            }
            seen = phase;
            if index as u64 > phase % (1 << WIDTH_BITS) {
                // Not in this team for now: its core is another's.
                looks = LOOKS_BEFORE_SLEEP;
                continue;
            }
            looks = 0;
            // SAFETY: the phase was released after the job was written, and the next is not before `done`.
            if let Some(job) = unsafe { *self.job.get() }
                && catch_unwind(AssertUnwindSafe(|| job(index))).is_err()
            {
                self.failed.store(true, Ordering::Relaxed);
            }
            self.done.0.fetch_add(1, Ordering::Release);
        }
    }

    /// Waits until `workers` are done.
    fn wait(&self, workers: usize) {
        let mut looks = 0;
        while self.done.0.load(Ordering::Acquire) < workers {
            looks += 1;
            // A worker that lost its core to someone else needs one to go on.
            if looks < LOOKS_BEFORE_SLEEP { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

#[derive(Default)]
#[repr(align(128))]
struct Line<T>(T);

/// Some twenty microseconds: longer than what lies between the phases of a step, shorter than between steps.
const LOOKS_BEFORE_SLEEP: u32 = 600;

/// Of a phase's number, those that say how many workers take part.
const WIDTH_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_part_is_done_once_by_some_thread() {
        let team = Team::new(3).unwrap();
        for count in [0, 1, 2, 7, 1000] {
            let mut numbers = vec![0u32; count * 3];
            team.each(1, Chunks::new(&mut numbers, 3), |index, part| {
                part.iter_mut().for_each(|number| *number += index as u32 + 1);
            });
            assert!(numbers.iter().zip(0..).all(|(&number, i)| number == i / 3 + 1));
        }
    }

    #[test]
    fn phases_see_what_the_one_before_wrote() {
        let team = Team::new(2).unwrap();
        let mut numbers = vec![1u64; 64];
        for _ in 0..2000 {
            let before = numbers.iter().fold(0u64, |sum, &number| sum.wrapping_add(number));
            team.each(1, Chunks::new(&mut numbers, 1), |_, part| part[0] = part[0].wrapping_add(before));
        }
        assert!(numbers.iter().all(|&number| number == numbers[0]));
    }

    #[test]
    fn a_team_grows_and_shrinks_between_phases() {
        let team = Team::new(4).unwrap();
        let threads = Mutex::new(HashSet::new());
        for round in 0..3000 {
            let width = round % 6;
            team.resize(width);
            assert_eq!(team.size(), width.clamp(1, 4));
            let mut numbers = [0u32; 40];
            threads.lock().unwrap().clear();
            team.each(1, Chunks::new(&mut numbers, 1), |_, part| {
                part[0] += 1;
                threads.lock().unwrap().insert(std::thread::current().id());
            });
            assert!(numbers.iter().all(|&number| number == 1), "round {round}: {numbers:?}");
            assert!(threads.lock().unwrap().len() <= team.size());
        }
    }

    #[test]
    fn columns_of_a_matrix_are_separate() {
        let team = Team::new(2).unwrap();
        let mut matrix = vec![0.0; 5 * 7];
        team.each(1, Columns::new(&mut matrix, 7, &[0, 3, 4, 7]), |index, mut block| {
            for row in 0..5 {
                block.row(row).fill((10 * row + index) as f32);
            }
        });
        assert_eq!(matrix[14..21], [20.0, 20.0, 20.0, 21.0, 22.0, 22.0, 22.0]);
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_are_done() {
        let team = Team::new(2).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            team.each(1, Count(100), |index, ()| assert!(index != 50, "fifty"));
        }));
        assert!(panicked.is_err());
    }
}
