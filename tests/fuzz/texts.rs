//! Files that operators and tenants write: configurations and policy components.

use std::path::Path;

use policy::{Limits, PolicyHost};
use tokenrouter::config::Config;

use super::Target;
use super::corpus::{self, Seed};

/// A configuration file.
pub(crate) struct Configs;

impl Target for Configs {
    fn seeds(&self) -> Vec<Seed> {
        let mut seeds = corpus::of("config");
        seeds.extend(corpus::files(&corpus::tree("examples/configs")));
        seeds
    }

    fn read(&mut self, _: &Seed, input: &[u8]) {
        // A file that is no text is refused before it is parsed.
        let Ok(text) = std::str::from_utf8(input) else { return };
        match Config::parse(text, Path::new("")) {
            Ok(config) => assert!(config.differences(&config).is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// A policy's component, as it is loaded and rehearsed.
pub(crate) struct Components(PolicyHost);

impl Components {
    pub(crate) fn new() -> Self {
        Self(PolicyHost::new(Limits { sessions: 8, ..Limits::default() }).expect("the runtime can be set up"))
    }
}

impl Target for Components {
    fn seeds(&self) -> Vec<Seed> {
        let mut seeds = corpus::of("policy");
        // The two smallest: a damaged one is told quickly, one that is not is compiled.
        let prebuilt = corpus::files(&corpus::tree("policies/prebuilt"));
        seeds.extend(
            prebuilt.into_iter().filter(|seed| ["pinned.wasm", "margin.wasm"].contains(&seed.name.as_str())),
        );
        seeds
    }

    fn read(&mut self, _: &Seed, input: &[u8]) {
        match self.0.load(input) {
            Ok(revision) => assert!(!revision.descriptor().name.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
