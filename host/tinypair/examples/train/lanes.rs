//! Wide arithmetic on plain slices, and the one place that picks the instruction set.
//!
//! Matrix products go to candle; what is left (softmax, norms, gates, attention over heads of 16) is written as loops
//! over [`WIDTH`] independent lanes, which the compiler turns into vector code. A sum over a slice is kept in lanes
//! too: floating-point addition may not be reordered, so a plain `sum` would stay scalar.

use std::ops::{Deref, DerefMut};

/// Lanes handled together: one AVX-512 register, two AVX2 ones, four of NEON.
pub(crate) const WIDTH: usize = 16;

/// One number per lane, aligned so that no access straddles two cache lines (which costs more than the arithmetic).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub(crate) [f32; WIDTH]);

impl Deref for Lanes {
    type Target = [f32; WIDTH];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Lanes {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// Runs `work` compiled for the widest vectors of this processor that have fused multiply-add.
///
/// Only what is inlined into `work` gains, hence `#[inline(always)]` on every function called inside.
#[inline]
pub(crate) fn wide<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "calling a function with target features has no safe form")]
    {
        let has_fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        if has_fma && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: every feature the function is compiled with was found on this processor.
            return unsafe { with_avx512(work) };
        }
        if has_fma {
            // SAFETY: both features the function is compiled with were found on this processor.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

/// `e^x` to 1e-7 of its value near zero and 1e-5 far from it, and exactly zero below `x = -40`.
///
/// The zero is what keeps training fast: probabilities of 1e-38 would make products too small for a normal number, and
/// each of those costs the processor over a hundred cycles.
///
/// `e^x = 2^n * 2^f` with `n` the nearest integer to `x / ln 2`. Adding 1.5 * 2^23 rounds to that integer and leaves
/// it in the low bits, from where a shift puts it into the exponent.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    let scaled = x.clamp(-87.0, 87.0) * std::f32::consts::LOG2_E;
    let rounded = scaled + ROUND;
    let f = scaled - (rounded - ROUND);
    let mut power = 1.540_353e-4_f32;
    for coefficient in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 0.240_226_5, std::f32::consts::LN_2, 1.0]
    {
        power = power.mul_add(f, coefficient);
    }
    let value = power * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23);
    if x < -40.0 { 0.0 } else { value }
}

/// The sum of all lanes, in halves, so that the additions do not wait for each other.
#[inline(always)]
pub(crate) fn sum(mut lanes: Lanes) -> f32 {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
    }
    lanes[0]
}

/// The sum of `f(a, b)` over two slices of equal length.
#[inline(always)]
pub(crate) fn sum_with(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let (a_wide, a_rest) = a.as_chunks::<WIDTH>();
    let (b_wide, b_rest) = b.as_chunks::<WIDTH>();
    let mut lanes = Lanes::default();
    for (a, b) in a_wide.iter().zip(b_wide) {
        for lane in 0..WIDTH {
            lanes[lane] += f(a[lane], b[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| f(*a, *b)).sum();
    sum(lanes) + rest
}

/// The largest entry of `values`.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let (wide, rest) = values.as_chunks::<WIDTH>();
    let mut lanes = Lanes([f32::NEG_INFINITY; WIDTH]);
    for values in wide {
        for lane in 0..WIDTH {
            lanes[lane] = if values[lane] > lanes[lane] { values[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |a, b| a.max(*b))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_exponential_agrees_with_the_exact_one() {
        for step in -4_000..8_000_i16 {
            let x = f32::from(step) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-5, "{x}");
        }
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn lanes_and_the_remainder_both_count() {
        let values: Vec<f32> = (0..37_u8).map(f32::from).collect();
        assert_eq!(sum_with(&values, &values, |a, _| a), 666.0);
        assert_eq!(max(&values), 36.0);
    }
}
