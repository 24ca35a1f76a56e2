//! Numbers that nobody can guess: request ids, seeds for clients that give none, and secrets.

use std::hash::{BuildHasher, RandomState};

/// 64 bits from the operating system's randomness, through the standard library's keyed hash.
pub(super) fn unguessable() -> u64 {
    // Each state has keys of its own, so hashing a constant is enough.
    RandomState::new().hash_one(0u8)
}

/// Bytes of the operating system's generator, for what must stay secret.
///
/// # Panics
/// Where the system gives none: then nothing can be kept apart, and the standard library's maps do not work either.
pub(crate) fn secret<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has a generator");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_equal() {
        let numbers: std::collections::BTreeSet<u64> = (0..1000).map(|_| unguessable()).collect();
        assert_eq!(numbers.len(), 1000);
    }
}
