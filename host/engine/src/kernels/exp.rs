//! e^x for softmax, the same bits on every platform and simple enough for the compiler to run several at once.

/// e^x for x <= 0, within two units in the last place; 0 below the smallest normal number.
///
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by the polynomial of the Cephes library's `expf`, 2^n by its bits.
#[inline]
pub(super) fn exp_nonpositive(x: f32) -> f32 {
    let clamped = if x > LOWEST { x } else { LOWEST };
    // Adding and taking away 1.5 * 2^23 rounds to a whole number without a call.
    let n = (clamped * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = (clamped - n * LN2_HIGH) - n * LN2_LOW;
    let mut polynomial = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        polynomial = polynomial * r + coefficient;
    }
    let power = f32::from_bits(((n as i32 + 127) as u32) << 23);
    let result = (polynomial * (r * r) + r + 1.0) * power;
    // A NaN must stay one: a model with damaged weights has to be noticed.
    if x.is_nan() {
        x
    } else if x > LOWEST {
        result
    } else {
        0.0
    }
}

/// ln of the smallest normal f32, rounded up.
const LOWEST: f32 = -87.336_54;
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts: n * LN2_HIGH is exact for every n that occurs.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_double_precision() {
        for i in 0..=870_000 {
            let x = -(i as f32) * 1e-4;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp_nonpositive(x)) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "e^{x}: relative error {error}");
        }
        assert_eq!(exp_nonpositive(0.0), 1.0);
    }

    #[test]
    fn ends_are_zero_and_not_a_number() {
        assert_eq!(exp_nonpositive(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_nonpositive(-1e9), 0.0);
        assert!(exp_nonpositive(f32::NAN).is_nan());
    }
}
