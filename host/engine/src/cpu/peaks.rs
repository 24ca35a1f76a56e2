//! How fast this machine multiplies at best: the bound that measured speeds are held against.

use std::hint::black_box;
use std::time::Instant;

use super::simd::{Isa, LANES, Level, Work, dispatch};

/// Products per second of all threads together, in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peaks {
    /// Of 8-bit numbers, in 10^9 per second.
    pub int8_gmac_per_s: f64,
    /// Of f32, fused with an addition, in 10^9 per second.
    pub f32_gmac_per_s: f64,
    /// The instruction set.
    pub instructions: &'static str,
}

/// Measures for some tenths of a second on `threads` threads.
#[must_use]
pub fn measure_peaks(threads: usize) -> Peaks {
    let level = Level::detect();
    Peaks {
        int8_gmac_per_s: rate(threads, || dispatch(level, Bytes)),
        f32_gmac_per_s: rate(threads, || dispatch(level, Floats)),
        instructions: level.name(),
    }
}

/// The best of some rounds, each on all threads at once.
fn rate(threads: usize, work: impl Fn() -> u64 + Sync) -> f64 {
    let round = || {
        let begin = Instant::now();
        let products: u64 = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
        });
        products as f64 / begin.elapsed().as_secs_f64() / 1e9
    };
    (0..ROUNDS).map(|_| round()).fold(0.0, f64::max)
}

struct Bytes;

impl Work for Bytes {
    type Output = u64;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> u64 {
        let codes = isa.codes(black_box(&[3; 4 * LANES]));
        let mut sums = [isa.splat_int(0); CHAINS];
        for step in 0..STEPS as u32 {
            for sum in &mut sums {
                *sum = isa.dot_bytes(*sum, codes, step.cast_signed());
            }
        }
        black_box(sums.map(|sum| isa.sum_int(sum)));
        (STEPS * CHAINS * 4 * LANES) as u64
    }
}

struct Floats;

impl Work for Floats {
    type Output = u64;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> u64 {
        let factor = isa.load(black_box(&[0.5; LANES]));
        let mut sums = [isa.splat(1.0); CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = isa.fma(*sum, factor, factor);
            }
        }
        black_box(sums.map(|sum| isa.sum(sum)));
        (STEPS * CHAINS * LANES) as u64
    }
}

/// Sums under way: more than the latency of an instruction times how many start at once.
const CHAINS: usize = 12;
const STEPS: usize = 4_000_000;
const ROUNDS: usize = 5;
