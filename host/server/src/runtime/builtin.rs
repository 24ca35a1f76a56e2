//! The policies inside the binary.
//!
//! Their sources are in `policies/`; `policies/build.sh` makes the components from them. A table of its own, so that a new
//! policy touches nothing that loads policies.

/// The policies that a route can name as `builtin:NAME`, by name: name and component.
#[must_use]
pub fn builtin_policies() -> [(&'static str, &'static [u8]); 22] {
    POLICIES
}

/// A committed component by the name of its policy.
macro_rules! component {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../../../policies/prebuilt/", $name, ".wasm")))
    };
}

const POLICIES: [(&str, &[u8]); 22] = [
    component!("best-of-n"),
    component!("big-little"),
    component!("cascade"),
    component!("citer"),
    component!("co-llm"),
    component!("contrastive"),
    component!("ensemble"),
    component!("entropy"),
    component!("glimpse"),
    component!("margin"),
    component!("mixture"),
    component!("pinned"),
    component!("proxy-tuning"),
    component!("query-level"),
    component!("r-stitch"),
    component!("r2r"),
    component!("random-share"),
    component!("relay"),
    component!("reward-guided"),
    component!("spec-reason"),
    component!("speculative"),
    component!("typical"),
];
