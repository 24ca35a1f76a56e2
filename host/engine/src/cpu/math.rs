//! Functions of one number, sixteen at a time.

use super::simd::Isa;

/// e^x, within two units in the last place; the smallest normal number's e^x below, e^88 above, NaN for NaN.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by the polynomial of the Cephes library's `expf`, 2^n by its bits.
#[inline(always)]
pub(super) fn exp<I: Isa>(isa: I, x: I::Floats) -> I::Floats {
    let clamped = isa.min(isa.max(x, isa.splat(LOWEST)), isa.splat(HIGHEST));
    // Adding and taking away 1.5 * 2^23 rounds to a whole number.
    let shifted = isa.fma(clamped, isa.splat(std::f32::consts::LOG2_E), isa.splat(ROUND));
    let n = isa.sub(shifted, isa.splat(ROUND));
    let r = isa.fma(n, isa.splat(-LN2_HIGH), clamped);
    let r = isa.fma(n, isa.splat(-LN2_LOW), r);
    let mut polynomial = isa.splat(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        polynomial = isa.fma(polynomial, r, isa.splat(coefficient));
    }
    let small = isa.fma(polynomial, isa.mul(r, r), isa.add(r, isa.splat(1.0)));
    // Clamping loses a NaN, and a model with damaged weights has to be noticed.
    isa.add(isa.mul(small, isa.power_of_two(n)), isa.sub(clamped, clamped_nan(isa, x, clamped)))
}

/// x where it is NaN, `clamped` elsewhere: the difference from `clamped` is 0 or NaN.
#[inline(always)]
fn clamped_nan<I: Isa>(isa: I, x: I::Floats, clamped: I::Floats) -> I::Floats {
    // `min` and `max` give their second operand where one is NaN.
    isa.min(clamped, isa.max(clamped, x))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(super) fn sigmoid<I: Isa>(isa: I, x: I::Floats) -> I::Floats {
    let one = isa.splat(1.0);
    isa.div(one, isa.add(one, exp(isa, isa.sub(isa.splat(0.0), x))))
}

/// x * sigmoid(x).
#[inline(always)]
pub(super) fn silu<I: Isa>(isa: I, x: I::Floats) -> I::Floats {
    isa.mul(x, sigmoid(isa, x))
}

/// GELU in its tanh form: x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), which is x sigmoid(2u).
#[inline(always)]
pub(super) fn gelu_tanh<I: Isa>(isa: I, x: I::Floats) -> I::Floats {
    let cube = isa.mul(isa.mul(x, x), x);
    let u = isa.fma(cube, isa.splat(0.044_715), x);
    isa.mul(x, sigmoid(isa, isa.mul(u, isa.splat(2.0 * 0.797_884_6))))
}

/// GELU in its erf form: x Phi(x) with Phi the normal distribution, within 3e-7 + 1e-7 |x|.
///
/// q = (1 - erf(|x| / sqrt 2)) / 2 by formula 7.1.26 of Abramowitz and Stegun; Phi(x) is 1 - q for x >= 0 and q below.
#[inline(always)]
pub(super) fn gelu_erf<I: Isa>(isa: I, x: I::Floats) -> I::Floats {
    let (zero, one) = (isa.splat(0.0), isa.splat(1.0));
    let size = isa.abs(x);
    let t = isa.div(one, isa.fma(size, isa.splat(0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2), one));
    let mut polynomial = isa.splat(1.061_405_4);
    for coefficient in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        polynomial = isa.fma(polynomial, t, isa.splat(coefficient));
    }
    let density = exp(isa, isa.mul(isa.mul(x, x), isa.splat(-0.5)));
    let q = isa.mul(isa.mul(isa.mul(polynomial, t), density), isa.splat(0.5));
    // `max` gives its second operand where one is NaN.
    isa.sub(isa.max(zero, x), isa.mul(size, q))
}

/// cap * tanh(x / cap), which is cap (2 sigmoid(2x / cap) - 1).
#[inline(always)]
pub(super) fn soft_cap<I: Isa>(isa: I, x: I::Floats, cap: f32) -> I::Floats {
    let s = sigmoid(isa, isa.mul(x, isa.splat(2.0 / cap)));
    isa.fma(s, isa.splat(2.0 * cap), isa.splat(-cap))
}

/// ln of the smallest normal f32, rounded up.
const LOWEST: f32 = -87.336_54;
/// Where 2^n still has bits.
const HIGHEST: f32 = 88.0;
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
