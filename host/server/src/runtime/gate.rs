//! Which components are taken at all: those whose digest is listed, and those whose bytes a known key signed.

use ring::signature::{ED25519, UnparsedPublicKey};
use store::Digest;

use crate::config::Uploads;

/// A component that is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// It is not among those that are allowed, and has no signature.
    #[error(
        "this server takes only components that it knows: sha256 {0} is not in uploads.allow, and it comes without a signature"
    )]
    NotAllowed(Digest),
    /// The signature is none of a key that is known.
    #[error(
        "the signature is not of this component by a key of uploads.keys; make one with `tokenrouter policy sign`"
    )]
    Signature,
}

/// Whether a component that comes from elsewhere may serve.
///
/// # Errors
/// [`GateError`].
pub(crate) fn check(
    uploads: &Uploads,
    digest: Digest,
    component: &[u8],
    signature: Option<&[u8]>,
) -> Result<(), GateError> {
    if !uploads.is_guarded() || uploads.allow.contains(&digest) {
        return Ok(());
    }
    let signature = signature.ok_or(GateError::NotAllowed(digest))?;
    let good = |key: &crate::config::PublicKey| {
        UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(component, signature).is_ok()
    };
    if uploads.keys.iter().any(good) { Ok(()) } else { Err(GateError::Signature) }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    fn uploads(allow: &[Digest], seeds: &[u8]) -> Uploads {
        let key = |seed: &u8| pair(*seed).public_key().as_ref().try_into().expect("32 bytes");
        let keys = seeds.iter().map(|seed| Digest::from_bytes(key(seed)).to_string());
        let keys = keys.map(|key| key.try_into().expect("a key")).collect();
        Uploads { allow: allow.to_vec(), keys, ..Uploads::default() }
    }

    fn pair(seed: u8) -> Ed25519KeyPair {
        Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("any seed is one")
    }

    #[test]
    fn without_a_list_everything_goes_and_with_one_only_what_is_known() {
        let (one, other) = (b"one", b"other");
        let check = |uploads: &Uploads, bytes: &[u8], signature: Option<&[u8]>| {
            check(uploads, Digest::of(bytes), bytes, signature)
        };
        assert!(check(&uploads(&[], &[]), one, None).is_ok());
        let listed = uploads(&[Digest::of(one)], &[]);
        assert!(check(&listed, one, None).is_ok());
        assert!(matches!(check(&listed, other, None), Err(GateError::NotAllowed(_))));
        let keyed = uploads(&[Digest::of(one)], &[1, 2]);
        let signed = |seed, bytes| pair(seed).sign(bytes);
        assert!(check(&keyed, one, None).is_ok());
        assert!(matches!(check(&keyed, other, None), Err(GateError::NotAllowed(_))));
        assert!(check(&keyed, other, Some(signed(2, other).as_ref())).is_ok());
        for wrong in [signed(2, one), signed(3, other)] {
            assert!(matches!(check(&keyed, other, Some(wrong.as_ref())), Err(GateError::Signature)));
        }
        assert!(matches!(check(&keyed, other, Some(b"short")), Err(GateError::Signature)));
    }
}
