//! Why a policy does not come from a registry, or does not get there.

use store::Digest;

/// The message names the registry and what to do; no credentials are in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// It cannot be asked.
    #[error("cannot reach the registry {host}: {source}")]
    Unreachable {
        /// The registry.
        host: String,
        /// Why.
        source: Box<ureq::Error>,
    },
    /// It says no.
    #[error("the registry {host} answers {status} to {what}{hint}")]
    Refused {
        /// The registry.
        host: String,
        /// HTTP status.
        status: u16,
        /// What was asked.
        what: String,
        /// What could help.
        hint: &'static str,
    },
    /// What came has another digest than was asked for.
    #[error("the {what} that {host} gave is not what was asked for: its SHA-256 is {found}, not {wanted}")]
    Damaged {
        /// The registry.
        host: String,
        /// Manifest or component.
        what: &'static str,
        /// What was asked for.
        wanted: Digest,
        /// What came.
        found: Digest,
    },
    /// More than is taken.
    #[error("the {what} is larger than the {most} bytes that are taken{key}")]
    TooLarge {
        /// Manifest or component.
        what: &'static str,
        /// The bound.
        most: u64,
        /// The key that sets it, if there is one.
        key: &'static str,
    },
    /// It is no policy.
    #[error("{reference} is no Wasm component: {problem}")]
    NoComponent {
        /// What was asked for.
        reference: String,
        /// Why not.
        problem: String,
    },
    /// The registry wants to know who asks in a way that is not understood.
    #[error("the registry {host} asks for credentials in a way that is not supported ({asked:?})")]
    Challenge {
        /// The registry.
        host: String,
        /// Its words.
        asked: String,
    },
    /// Credentials cannot be read.
    #[error("{0}")]
    Credentials(String),
}
