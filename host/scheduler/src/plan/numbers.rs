//! Special functions that the formulas use, for real arguments.

/// The harmonic number `H_x = 1 + 1/2 + ... + 1/x`, continued to real `x >= 0` (asymptotic; error 5e-2 at 0, 2e-3 at 1,
/// 1e-4 from 3 on).
pub(super) fn harmonic(x: f64) -> f64 {
    let shifted = x.max(0.0) + 0.5;
    shifted.ln() + EULER + 1.0 / (24.0 * shifted * shifted)
}

/// The probabilities of 0..=trials successes.
pub(super) fn binomial(trials: usize, chance: f64) -> Vec<f64> {
    let mut all = vec![0.0; trials + 1];
    if chance >= 1.0 - 1e-9 {
        all[trials] = 1.0;
        return all;
    }
    let odds = chance / (1.0 - chance);
    let mut value = (1.0 - chance).powf(trials as f64);
    for (successes, slot) in all.iter_mut().enumerate() {
        *slot = value;
        value *= (trials - successes) as f64 / (successes + 1) as f64 * odds;
    }
    all
}

/// The standard normal distribution function (Abramowitz and Stegun 7.1.26, error below 2e-7).
pub(super) fn normal_below(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = ((((1.061_405_429 * t - 1.453_152_027) * t + 1.421_413_741) * t - 0.284_496_736) * t
        + 0.254_829_592)
        * t;
    let erf = 1.0 - polynomial * (-x * x).exp();
    if z >= 0.0 { 0.5 * (1.0 + erf) } else { 0.5 * (1.0 - erf) }
}

/// Expected shortfall `E (wanted - Q)+` for a normal `Q`.
pub(super) fn shortfall(wanted: f64, mean: f64, deviation: f64) -> f64 {
    if deviation < 1e-9 {
        return (wanted - mean).max(0.0);
    }
    let z = (wanted - mean) / deviation;
    deviation * (z * normal_below(z) + 0.398_942_280_4 * (-0.5 * z * z).exp())
}

const EULER: f64 = 0.577_215_664_9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_sums_and_tables() {
        let mut sum = 0.0;
        for n in 1..200 {
            sum += 1.0 / f64::from(n);
            assert!((harmonic(f64::from(n)) - sum).abs() < 2e-3, "H_{n}");
        }
        for (z, expected) in [(-2.0, 0.022_750), (0.0, 0.5), (1.0, 0.841_345), (2.33, 0.990_097)] {
            assert!((normal_below(z) - expected).abs() < 1e-5, "at {z}");
        }
        // (1/4 + 3/4)^3
        for (got, expected) in binomial(3, 0.25).iter().zip([27.0, 27.0, 9.0, 1.0]) {
            assert!((got - expected / 64.0).abs() < 1e-12);
        }
        assert_eq!(binomial(2, 1.0), [0.0, 0.0, 1.0]);
        // E(0 - Z)+ of a standard normal is 1 / sqrt(2 pi).
        assert!((shortfall(0.0, 0.0, 1.0) - 0.398_942).abs() < 1e-6);
        assert_eq!(shortfall(3.0, 1.0, 0.0), 2.0);
    }
}
