//! What this machine does at best: how fast it reads memory, and how fast it multiplies.
//!
//! Reading is timed as a comparison of two equal halves of a buffer: the C library does that at the width of the
//! machine's vector unit, whatever this crate was compiled for. Every thread has a buffer of its own, in huge pages as the
//! engine's weights are, and fills it itself, so that the pages are near it.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use engine::Peaks;
use memmap2::MmapMut;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Threads that read and multiplied at once.
    pub threads: usize,
    /// Size of the first buffer: the model's weights, unless they are larger than the second.
    pub weights_bytes: u64,
    /// How fast that buffer is read over and over, in 10^9 bytes per second.
    pub weights_read_gb_per_s: f64,
    /// Size of a buffer that no cache holds.
    pub memory_bytes: u64,
    /// How fast that one is read.
    pub memory_read_gb_per_s: f64,
    /// How fast it multiplies, as the engine measures it.
    pub peaks: Peaks,
}

/// How much is read to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// The buffer that no cache holds.
    memory_bytes: u64,
    /// A timed pass reads at least this much; a small buffer is read repeatedly.
    pass_bytes: u64,
    /// Timed passes; the fastest counts.
    passes: usize,
}

impl Effort {
    /// For figures.
    pub(super) const THOROUGH: Self = Self { memory_bytes: 512 << 20, pass_bytes: 256 << 20, passes: 8 };
    /// For tests of what is done with the figures.
    #[cfg(test)]
    pub(super) const TOUCH: Self = Self { memory_bytes: 1 << 20, pass_bytes: 1, passes: 1 };
}

impl Machine {
    /// Measures with buffers for a model of `weight_bytes`.
    pub(super) fn measure(threads: usize, weight_bytes: u64, effort: Effort) -> Self {
        let weights_bytes = weight_bytes.min(effort.memory_bytes);
        let memory_read_gb_per_s = read_speed(threads, effort.memory_bytes, effort);
        let weights_read_gb_per_s = if weights_bytes < effort.memory_bytes {
            // Noise must not make a cache slower than what lies behind it.
            read_speed(threads, weights_bytes, effort).max(memory_read_gb_per_s)
        } else {
            memory_read_gb_per_s
        };
        let (memory_bytes, peaks) = (effort.memory_bytes, engine::measure_peaks(threads));
        Self { threads, weights_bytes, weights_read_gb_per_s, memory_bytes, memory_read_gb_per_s, peaks }
    }
}

/// In 10^9 bytes per second.
fn read_speed(threads: usize, bytes: u64, effort: Effort) -> f64 {
    let half = (bytes as usize / threads / 2).max(1);
    let repeats = (effort.pass_bytes / bytes.max(1)).max(1);
    let barrier = Barrier::new(threads);
    let reader = || {
        let buffer = filled(2 * half);
        let (first, second) = buffer.split_at(half);
        let mut fastest = f64::INFINITY;
        for _ in 0..effort.passes {
            barrier.wait();
            let begun = Instant::now();
            for _ in 0..repeats {
                black_box(black_box(first) == black_box(second));
            }
            barrier.wait();
            fastest = fastest.min(begun.elapsed().as_secs_f64());
        }
        fastest
    };
    let seconds = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(reader)).collect();
        let times = readers.into_iter().map(|reader| reader.join().expect("reading does not panic"));
        times.fold(f64::MIN_POSITIVE, f64::max)
    });
    (2 * half * threads) as f64 * repeats as f64 / seconds / 1e9
}

/// Ones, in huge pages where the system has them.
fn filled(bytes: usize) -> MmapMut {
    let mut buffer = MmapMut::map_anon(bytes).expect("memory for the measurement");
    #[cfg(target_os = "linux")]
    // Advice: where the system does not take it, pages stay small.
    buffer.advise(memmap2::Advice::HugePage).ok();
    buffer.fill(1);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_larger_than_the_caches_is_read_from_memory() {
        let machine = Machine::measure(2, u64::MAX, Effort::TOUCH);
        assert_eq!(machine.weights_bytes, machine.memory_bytes);
        assert_eq!(machine.weights_read_gb_per_s, machine.memory_read_gb_per_s);
        assert!(machine.memory_read_gb_per_s > 0.0);
    }

    #[test]
    fn a_model_smaller_than_its_threads_is_measured_too() {
        let machine = Machine::measure(3, 1, Effort::TOUCH);
        assert!(machine.weights_read_gb_per_s >= machine.memory_read_gb_per_s);
    }
}
