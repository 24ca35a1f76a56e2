//! An API key: `tr-ID-SECRET`, 8 and 32 random bytes in hexadecimal.
//!
//! The id is public; it finds the record and stands in logs and in the audit log. Of the secret only its SHA-256 is kept.
//! A slow hash, as for passwords, has no use here: 256 random bits cannot be searched.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Names a key without giving it away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct KeyId([u8; 8]);

/// A key's secret. It is shown once and never kept.
#[derive(Clone)]
pub struct Secret {
    id: KeyId,
    secret: [u8; 32],
}

/// What is kept of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// Its name.
    pub id: KeyId,
    /// SHA-256 of the secret's 32 bytes.
    pub digest: SecretDigest,
    /// What it opens.
    pub scope: Scope,
    /// When it was made, seconds since 1970.
    #[serde(default)]
    pub created_unix_s: u64,
    /// From when on it opens nothing, seconds since 1970. Default: never.
    #[serde(default)]
    pub expires_unix_s: Option<u64>,
    /// When it was revoked, seconds since 1970. Default: it was not.
    #[serde(default)]
    pub revoked_unix_s: Option<u64>,
}

/// What a key opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything, for everybody.
    Admin,
    /// What this tenant may do, for itself.
    Tenant(String),
}

/// SHA-256 of a secret. It is compared in constant time only, so it has no `==` that is not.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SecretDigest([u8; 32]);

/// A text that is no key, id or digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not of the form {0}")]
pub struct Malformed(&'static str);

impl Secret {
    /// The key of these random bytes, which must come from the system's generator and be used for nothing else.
    #[must_use]
    pub fn of(random: [u8; 40]) -> Self {
        let (id, secret) = random.split_at(8);
        Self {
            id: KeyId(id.try_into().expect("8 bytes")),
            secret: secret.try_into().expect("40 less 8 bytes"),
        }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// What is kept of it.
    #[must_use]
    pub fn digest(&self) -> SecretDigest {
        SecretDigest(Sha256::digest(self.secret).into())
    }

    /// The record of a key that is made now.
    #[must_use]
    pub fn record(&self, scope: Scope, now_unix_s: u64) -> KeyRecord {
        KeyRecord {
            id: self.id,
            digest: self.digest(),
            scope,
            created_unix_s: now_unix_s,
            expires_unix_s: None,
            revoked_unix_s: None,
        }
    }

    /// The text that its owner sends, to be shown once.
    ///
    /// ```
    /// # use tenant::key::Secret;
    /// let text = Secret::of([0xab; 40]).reveal();
    /// assert_eq!(text, format!("tr-{}-{}", "ab".repeat(8), "ab".repeat(32)));
    /// assert_eq!(text.parse::<Secret>().unwrap().digest(), Secret::of([0xab; 40]).digest());
    /// ```
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}-{}", self.id, hex(&self.secret))
    }
}

impl FromStr for Secret {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
        let parsed =
            parts.and_then(|(id, secret)| Some(Self { id: KeyId(unhex(id)?), secret: unhex(secret)? }));
        parsed.ok_or(Malformed("tr-ID-SECRET"))
    }
}

impl fmt::Debug for Secret {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.id)
    }
}

impl PartialEq for SecretDigest {
    /// Takes the same time wherever they differ.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretDigest {}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(..)")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl FromStr for KeyId {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        unhex(text).map(Self).ok_or(Malformed("16 hexadecimal digits"))
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        hex(&id.0)
    }
}

impl TryFrom<String> for KeyId {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Self, Malformed> {
        text.parse()
    }
}

impl From<SecretDigest> for String {
    fn from(digest: SecretDigest) -> Self {
        hex(&digest.0)
    }
}

impl TryFrom<String> for SecretDigest {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Self, Malformed> {
        unhex(&text).map(Self).ok_or(Malformed("64 hexadecimal digits"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

const PREFIX: &str = "tr-";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_revealed_is_what_is_recognised(random in proptest::array::uniform32(0u8..), id in 0u8..) {
            let mut bytes = [id; 40];
            bytes[8..].copy_from_slice(&random);
            let secret = Secret::of(bytes);
            let again: Secret = secret.reveal().parse().unwrap();
            prop_assert_eq!((again.id(), again.digest()), (secret.id(), secret.digest()));
        }

        #[test]
        fn no_text_breaks_the_parser(text in "\\PC*") {
            prop_assert!(text.parse::<Secret>().is_err());
        }
    }

    #[test]
    fn nothing_that_is_printed_or_kept_holds_the_secret() {
        let secret = Secret::of(std::array::from_fn(|at| at as u8 + 100));
        let hidden = hex(&secret.secret);
        let record = secret.record(Scope::Tenant("a".to_owned()), 5);
        let json = serde_json::to_string(&record).unwrap();
        for shown in [format!("{secret:?}"), format!("{record:?}"), json.clone()] {
            assert!(!shown.contains(&hidden), "{shown}");
        }
        assert_eq!(serde_json::from_str::<KeyRecord>(&json).unwrap(), record);
    }

    /// The digest is that of `sha256sum` over 32 zero bytes.
    #[test]
    fn the_digest_is_sha_256() {
        let digest = String::from(Secret::of([0; 40]).digest());
        assert_eq!(digest, "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
    }
}
