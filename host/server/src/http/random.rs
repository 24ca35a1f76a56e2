//! Numbers that nobody can guess: request ids, and seeds for clients that give none.

use std::hash::{BuildHasher, RandomState};

/// 64 bits from the operating system's randomness, through the standard library's keyed hash.
pub(super) fn unguessable() -> u64 {
    // Each state has keys of its own, so hashing a constant is enough.
    RandomState::new().hash_one(0u8)
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
