//! `[uploads]`: what tenants may upload, and how much.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use store::policy_history::REVISIONS_MAX;

use super::ConfigError;
use super::tree::count;

/// `[uploads]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Uploads {
    /// Largest component in bytes. Default 24 MiB, at most 32 MiB; one in Python has 19.
    pub bytes_max: NonZeroUsize,
    /// Policies that a tenant may have. Default 20.
    pub policies_max: NonZeroUsize,
    /// Revisions of a policy that are kept; the oldest idle one goes first. Default 10, 2 to 100.
    pub revisions_max: NonZeroUsize,
    /// Seconds of the processor for compiling a component, and again for trying it out; on the clock five times as many.
    /// Default 60.
    pub compile_seconds: NonZeroU32,
    /// Memory for each of the two, in MiB. Default 1024.
    pub compile_memory_mib: NonZeroU32,
    /// SHA-256 of components that are accepted. Default: any, unless `keys` names a key.
    pub allow: Vec<store::Digest>,
    /// Ed25519 public keys, 64 hexadecimal digits each: a component that one of them signed is accepted, too.
    pub keys: Vec<PublicKey>,
    /// The executable whose children compile and try. No key of the file: it is this process's own but in tests.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

/// An ed25519 public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

impl Default for Uploads {
    fn default() -> Self {
        let number = |n| NonZeroU32::new(n).expect("defaults are not 0");
        Self {
            bytes_max: count(24 << 20),
            policies_max: count(20),
            revisions_max: count(10),
            compile_seconds: number(60),
            compile_memory_mib: number(1024),
            allow: Vec::new(),
            keys: Vec::new(),
            program: None,
        }
    }
}

impl Uploads {
    /// Checks what is not a matter of types.
    pub(super) fn check(self) -> Result<Self, ConfigError> {
        let most = [
            ("uploads.bytes_max", self.bytes_max.get(), COMPONENT_BYTES_MAX),
            ("uploads.revisions_max", self.revisions_max.get(), REVISIONS_MAX),
        ];
        for (key, given, most) in most {
            if given > most {
                return Err(ConfigError::value(key, format!("{given} is too much; at most {most}")));
            }
        }
        if self.revisions_max.get() < REVISIONS_LEAST {
            let problem = format!("1 leaves no way back; at least {REVISIONS_LEAST}");
            return Err(ConfigError::value("uploads.revisions_max", problem));
        }
        Ok(self)
    }

    /// What each of the processes that compile and try may take.
    #[must_use]
    pub fn child_limits(&self) -> policy::ChildLimits {
        policy::ChildLimits {
            seconds: self.compile_seconds.get(),
            memory_bytes: u64::from(self.compile_memory_mib.get()) << 20,
            program: self.program.clone(),
        }
    }

    /// Whether components need a digest that is named, or a signature.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        !self.allow.is_empty() || !self.keys.is_empty()
    }
}

impl PublicKey {
    /// The raw key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl TryFrom<String> for PublicKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // Written as a digest is: 32 bytes in hexadecimal.
        let bytes: store::Digest = text.parse().map_err(|_| "not 64 lower-case hexadecimal digits")?;
        Ok(Self(*bytes.as_bytes()))
    }
}

impl From<PublicKey> for String {
    fn from(PublicKey(key): PublicKey) -> Self {
        store::Digest::from_bytes(key).to_string()
    }
}

/// The one that serves, and one to go back to.
const REVISIONS_LEAST: usize = 2;
/// What the policy host takes at most.
pub const COMPONENT_BYTES_MAX: usize = 32 << 20;
