//! Names a component by its bytes.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a component. Two revisions with the same digest are the same policy.
///
/// `{}` shows the first twelve hexadecimal digits, `{:#}` all 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of these parts one after the other.
    pub(crate) fn of_parts<const N: usize>(parts: [&[u8]; N]) -> Self {
        let mut hashing = Hashing::default();
        parts.iter().for_each(|part| hashing.add(part));
        hashing.digest()
    }

    /// The raw digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A digest in the making.
#[derive(Default)]
pub(crate) struct Hashing(Sha256);

impl Hashing {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn digest(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if f.alternate() { self.0.len() } else { SHORT_BYTES };
        self.0[..shown].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Enough to tell the revisions of one server apart in a log line.
const SHORT_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vector of FIPS 180 for "abc".
    #[test]
    fn a_digest_is_shown_short_or_whole() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string(), "ba7816bf8f01");
        assert_eq!(format!("{digest:#}"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
