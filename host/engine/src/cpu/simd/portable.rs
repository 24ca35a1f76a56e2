//! Plain Rust: the meaning of every operation, and what runs where no other instruction set is known.

use half::{bf16, f16};

use super::{Isa, LANES, Work};

/// Plain Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Isa for Portable {
    type Floats = [f32; LANES];
    type Ints = [i32; LANES];
    type Codes = [u8; 4 * LANES];

    const BYTES_ZERO: i32 = 0;

    #[inline(always)]
    fn run<W: Work>(self, work: W) -> W::Output {
        work.with(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Floats {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::Floats {
        *x
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Self::Floats {
        x.map(|bits| f16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn load_brain(self, x: &[u16; LANES]) -> Self::Floats {
        x.map(|bits| bf16::from_bits(bits).to_f32())
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> Self::Floats {
        x.map(f32::from)
    }

    #[inline(always)]
    fn store(self, x: Self::Floats, into: &mut [f32; LANES]) {
        *into = x;
    }

    #[inline(always)]
    fn store_half(self, x: Self::Floats, into: &mut [u16; LANES]) {
        *into = x.map(|x| f16::from_f32(x).to_bits());
    }

    #[inline(always)]
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        lanes(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        lanes(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        lanes(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        lanes(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        lanes(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    fn max(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        lanes(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn min(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        lanes(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn abs(self, x: Self::Floats) -> Self::Floats {
        x.map(f32::abs)
    }

    #[inline(always)]
    fn first(self, x: Self::Floats, count: usize, fill: f32) -> Self::Floats {
        lanes(|i| if i < count { x[i] } else { fill })
    }

    #[inline(always)]
    fn any_above(self, x: Self::Floats, bound: f32) -> bool {
        x.iter().any(|&x| x > bound)
    }

    #[inline(always)]
    fn power_of_two(self, n: Self::Floats) -> Self::Floats {
        n.map(|n| f32::from_bits(((n as i32 + 127) as u32) << 23))
    }

    #[inline(always)]
    fn largest(self, x: Self::Floats) -> f32 {
        x.iter().fold(f32::NEG_INFINITY, |largest, &x| if x > largest { x } else { largest })
    }

    #[inline(always)]
    fn sum(self, x: Self::Floats) -> f32 {
        let mut x = x;
        for width in [8, 4, 2, 1] {
            for i in 0..width {
                x[i] += x[i + width];
            }
        }
        x[0]
    }

    #[inline(always)]
    fn splat_int(self, x: i32) -> Self::Ints {
        [x; LANES]
    }

    #[inline(always)]
    fn round(self, x: Self::Floats) -> Self::Ints {
        x.map(|x| x.round_ties_even() as i32)
    }

    #[inline(always)]
    fn to_floats(self, x: Self::Ints) -> Self::Floats {
        x.map(|x| x as f32)
    }

    #[inline(always)]
    fn store_bytes(self, x: Self::Ints, into: &mut [i8; LANES]) {
        *into = x.map(|x| x as i8);
    }

    #[inline(always)]
    fn sum_int(self, x: Self::Ints) -> i32 {
        x.iter().sum()
    }

    #[inline(always)]
    fn codes(self, x: &[u8; 4 * LANES]) -> Self::Codes {
        *x
    }

    #[inline(always)]
    fn low(self, x: Self::Codes) -> Self::Codes {
        x.map(|x| x & 15)
    }

    #[inline(always)]
    fn high(self, x: Self::Codes) -> Self::Codes {
        x.map(|x| x >> 4)
    }

    #[inline(always)]
    fn dot_nibbles(self, sum: Self::Ints, codes: Self::Codes, x: i32) -> Self::Ints {
        self.dot_bytes(sum, codes, x)
    }

    #[inline(always)]
    fn dot_bytes(self, sum: Self::Ints, codes: Self::Codes, x: i32) -> Self::Ints {
        let x = x.to_le_bytes().map(u8::cast_signed);
        let product = |i: usize, j: usize| i32::from(codes[4 * i + j]) * i32::from(x[j]);
        lanes(|i| sum[i] + product(i, 0) + product(i, 1) + product(i, 2) + product(i, 3))
    }

    #[inline(always)]
    fn prefetch<T: ?Sized>(self, _: &T, _: usize) {}

    #[inline(always)]
    fn prefetch_early<T: ?Sized>(self, _: &T, _: usize) {}
}

#[inline(always)]
fn lanes<T>(lane: impl FnMut(usize) -> T) -> [T; LANES] {
    std::array::from_fn(lane)
}
