//! Sixteen numbers at a time, on whatever the processor has.
//!
//! Kernels are written once, generic over [`Isa`], and compiled once per instruction set; [`dispatch`] enters the best
//! one. Every operation is exactly rounded (or exact, for integers) and every reduction has one fixed order, so all
//! instruction sets give the same bits: [`Portable`] is the oracle of the others, and the one that runs elsewhere.
//!
//! A value of an [`Isa`] type proves that the processor has the instructions: [`Level::detect`] alone makes them. This
//! module and its children are one of the few places with `unsafe` code: calls of intrinsics, and nothing else.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

/// Numbers in a vector.
pub(crate) const LANES: usize = 16;

/// An instruction set.
pub(crate) trait Isa: Copy + Send + Sync {
    /// Sixteen f32.
    type Floats: Copy;
    /// Sixteen i32.
    type Ints: Copy;
    /// Sixty-four u8: four for each of the sixteen lanes.
    type Codes: Copy;

    /// What [`Isa::dot_bytes`] has already taken away from each code.
    const BYTES_ZERO: i32;

    /// Runs `work` compiled for this instruction set.
    fn run<W: Work>(self, work: W) -> W::Output;

    /// All lanes the same.
    fn splat(self, x: f32) -> Self::Floats;
    /// Reads sixteen numbers.
    fn load(self, x: &[f32; LANES]) -> Self::Floats;
    /// Reads sixteen half-precision numbers, given by their bits.
    fn load_half(self, x: &[u16; LANES]) -> Self::Floats;
    /// Reads sixteen bf16 numbers, given by their bits.
    fn load_brain(self, x: &[u16; LANES]) -> Self::Floats;
    /// Reads sixteen whole numbers from -128 to 127.
    fn load_bytes(self, x: &[i8; LANES]) -> Self::Floats;
    /// Writes sixteen numbers.
    fn store(self, x: Self::Floats, into: &mut [f32; LANES]);
    /// Writes sixteen numbers rounded to half precision, to nearest even.
    fn store_half(self, x: Self::Floats, into: &mut [u16; LANES]);
    /// a + b.
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a - b.
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a * b.
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a / b.
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a * b + c, rounded once.
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// The larger of each pair; b where one of them is no number.
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The smaller of each pair; b where one of them is no number.
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// |x|.
    fn abs(self, x: Self::Floats) -> Self::Floats;
    /// The first `count` lanes of x, and `fill` in the others.
    fn first(self, x: Self::Floats, count: usize, fill: f32) -> Self::Floats;
    /// Whether some lane is larger than `bound`.
    fn any_above(self, x: Self::Floats, bound: f32) -> bool;
    /// 2^n for whole numbers n from -126 to 127.
    fn power_of_two(self, n: Self::Floats) -> Self::Floats;
    /// The largest lane.
    fn largest(self, x: Self::Floats) -> f32;
    /// The sum of the lanes: lane i + lane i + 8, of these i + 4, then i + 2, then i + 1.
    fn sum(self, x: Self::Floats) -> f32;

    /// All lanes the same.
    fn splat_int(self, x: i32) -> Self::Ints;
    /// Rounds to whole numbers, to nearest even.
    fn round(self, x: Self::Floats) -> Self::Ints;
    /// As floats.
    fn to_floats(self, x: Self::Ints) -> Self::Floats;
    /// Writes the lanes, which fit i8.
    fn store_bytes(self, x: Self::Ints, into: &mut [i8; LANES]);
    /// The sum of the lanes.
    fn sum_int(self, x: Self::Ints) -> i32;

    /// Reads sixty-four codes.
    fn codes(self, x: &[u8; 4 * LANES]) -> Self::Codes;
    /// The lower four bits of each code.
    fn low(self, x: Self::Codes) -> Self::Codes;
    /// The upper four bits of each code.
    fn high(self, x: Self::Codes) -> Self::Codes;
    /// Adds to each lane the products of its four codes, all below 16, with the four i8 in x, none of them -128.
    fn dot_nibbles(self, sum: Self::Ints, codes: Self::Codes, x: i32) -> Self::Ints;
    /// As [`Isa::dot_nibbles`] for any codes, each less [`Isa::BYTES_ZERO`].
    fn dot_bytes(self, sum: Self::Ints, codes: Self::Codes, x: i32) -> Self::Ints;

    /// Brings closer the cache line that lies `offset` bytes after the start of `at`; it may be beyond its end.
    fn prefetch<T: ?Sized>(self, at: &T, offset: usize);
    /// As [`Isa::prefetch`] for what is wanted later: into the second cache, which has room for it.
    fn prefetch_early<T: ?Sized>(self, at: &T, offset: usize);
}

/// Brings closer all cache lines of some bytes, counted from the start of `at`; they may lie beyond its end.
#[inline(always)]
pub(crate) fn prefetch<I: Isa, T: ?Sized>(isa: I, at: &T, bytes: Range<usize>) {
    for offset in bytes.step_by(LINE) {
        isa.prefetch(at, offset);
    }
}

/// As [`prefetch`] for what is wanted later.
#[inline(always)]
pub(crate) fn prefetch_early<I: Isa, T: ?Sized>(isa: I, at: &T, bytes: Range<usize>) {
    for offset in bytes.step_by(LINE) {
        isa.prefetch_early(at, offset);
    }
}

/// Bytes that come from memory together.
const LINE: usize = 64;

/// The next sixteen numbers, with `fill` where there are fewer.
#[inline(always)]
pub(crate) fn load_up_to<I: Isa>(isa: I, from: &[f32], fill: f32) -> I::Floats {
    if let Some(whole) = from.first_chunk() {
        return isa.load(whole);
    }
    let mut lanes = [fill; LANES];
    lanes[..from.len()].copy_from_slice(from);
    isa.load(&lanes)
}

/// Writes sixteen numbers, or as many as there is room for.
#[inline(always)]
pub(crate) fn store_up_to<I: Isa>(isa: I, values: I::Floats, into: &mut [f32]) {
    if let Some(whole) = into.first_chunk_mut() {
        return isa.store(values, whole);
    }
    let mut lanes = [0.0; LANES];
    isa.store(values, &mut lanes);
    let count = into.len();
    into.copy_from_slice(&lanes[..count]);
}

/// Something to be run on an instruction set. `with` and all it calls per element must be `#[inline(always)]`.
pub(crate) trait Work {
    /// What it gives.
    type Output;
    /// Does it.
    fn with<I: Isa>(self, isa: I) -> Self::Output;
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// Plain Rust.
    Portable(Portable),
}

impl Level {
    /// The best one.
    pub(crate) fn detect() -> Self {
        Self::available()[0]
    }

    /// All, best first.
    pub(crate) fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(Avx512::detect().map(Self::Avx512));
            all.extend(Avx2::detect().map(Self::Avx2));
        }
        all.push(Self::Portable(Portable));
        all
    }

    /// A name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "AVX2",
            Self::Portable(_) => "portable",
        }
    }
}

/// Runs `work` on an instruction set.
pub(crate) fn dispatch<W: Work>(level: Level, work: W) -> W::Output {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(isa) => isa.run(work),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(isa) => isa.run(work),
        Level::Portable(isa) => isa.run(work),
    }
}

#[cfg(test)]
mod tests;
