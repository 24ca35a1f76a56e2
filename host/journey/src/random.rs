//! Counter-based randomness: the same numbers whatever the batch, the scheduler or the hops.
//!
//! Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011). A number is a
//! function of (seed, position, purpose, index) and of nothing else, so a journey that moves between models, is
//! evicted, or shares its batch with others draws what it would have drawn alone.

/// What a number is for. Different purposes never share numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Choosing the token at a position.
    Sample = 0,
    /// A policy's own draws at a position.
    Policy = 1,
    /// Whether speculative sampling keeps a drafted token.
    Accept = 2,
    /// Choosing what replaces a drafted token that was not kept.
    Residual = 3,
    /// Choosing the token at a position of a draft that a question asked for; the draft's number counts the draws.
    Draft = 4,
}

/// A uniform number in [0, 1) with 53 random bits.
///
/// `position` is the index in the sequence of the token being decided; `index` counts the draws made there.
#[must_use]
pub fn uniform(seed: u64, position: u64, purpose: Purpose, index: u32) -> f64 {
    let counter = [low(position), high(position), index, purpose as u32];
    let words = philox4x32(counter, [low(seed), high(seed)]);
    let bits = (u64::from(words[0]) << 32) | u64::from(words[1]);
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let first = u64::from(MULTIPLIER[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIER[1]) * u64::from(counter[2]);
        counter =
            [high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)];
    }
    counter
}

fn low(x: u64) -> u32 {
    x as u32
}

fn high(x: u64) -> u32 {
    (x >> 32) as u32
}

const ROUNDS: u32 = 10;
const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer vectors of the authors' Random123 distribution (`kat_vectors`, philox 4x32 10).
    #[test]
    fn philox_gives_the_published_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox4x32([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn numbers_are_uniform_and_differ_by_every_argument() {
        let mean = (0..10_000).map(|p| uniform(7, p, Purpose::Sample, 0)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "mean {mean}");
        let base = uniform(7, 3, Purpose::Sample, 0);
        assert!((0.0..1.0).contains(&base));
        assert_ne!(base, uniform(8, 3, Purpose::Sample, 0));
        assert_ne!(base, uniform(7, 4, Purpose::Sample, 0));
        assert_ne!(base, uniform(7, 3, Purpose::Policy, 0));
        assert_ne!(base, uniform(7, 3, Purpose::Sample, 1));
    }
}
