//! Policies in OCI registries: `oci://HOST/REPOSITORY[:TAG]@sha256:DIGEST`.
//!
//! An artifact is what the Wasm world has agreed on: a manifest with a config of `application/vnd.wasm.config.v0+json` and
//! one layer of `application/wasm`, the component. It has no manifest of ours beside it: what a route is says the
//! configuration, and what a policy needs says the component. A signature of the component, for servers that take only
//! what they know, is an annotation of the layer.
//!
//! The digest in a name is the manifest's, and the manifest has the component's: with it a name means the same bytes for
//! ever, on every replica. Nothing that came is used before it was held against its digest.
//!
//! The few requests are made here, over the client that brings models: `oci-client` of the ORAS project would bring 57 more
//! crates, a second HTTP client among them. Everything here waits for the network.

mod artifact;
mod client;
mod credentials;
mod error;
mod reference;
#[cfg(test)]
mod tests;

pub use artifact::{Artifact, Layer};
pub use client::Client;
pub use error::RegistryError;
pub use reference::{OCI, Pinned, Reference};
