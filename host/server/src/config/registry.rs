//! `[registry]`: how policies come from OCI registries, and which of them do.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Config, PolicySource, environment};
use crate::registry::Pinned;

/// `[registry]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Registry {
    /// Seconds that one request may take; a pull makes four at most. Default 60.
    pub timeout_seconds: NonZeroU32,
    /// Registries that are asked without TLS, each as references name it, with its port. Those of this machine are anyway.
    /// Default: none.
    pub plain_http: Vec<String>,
    /// Credentials by registry, a file as Docker's `config.json`. Default: the text in the variable `DOCKER_AUTH_CONFIG`, or
    /// else `config.json` in the folder that `DOCKER_CONFIG` names, or else none.
    pub auth_file: Option<PathBuf>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            timeout_seconds: NonZeroU32::new(60).expect("60 is not 0"),
            plain_http: Vec::new(),
            auth_file: None,
        }
    }
}

impl Registry {
    /// For one request.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.get().into())
    }

    /// Where credentials are, and their text; none if no place is named. Never to be shown.
    ///
    /// # Errors
    /// The place that is named and cannot be read.
    pub(crate) fn auth(&self) -> Result<Option<(String, String)>, String> {
        let (key, file) = match &self.auth_file {
            Some(file) => ("registry.auth_file", file.clone()),
            None => {
                if let Some(text) = environment::variable("DOCKER_AUTH_CONFIG") {
                    return Ok(Some(("the variable DOCKER_AUTH_CONFIG".to_owned(), text)));
                }
                let Some(folder) = environment::variable("DOCKER_CONFIG") else { return Ok(None) };
                ("DOCKER_CONFIG", PathBuf::from(folder).join("config.json"))
            }
        };
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{key}: cannot read {}: {error}", file.display()))?;
        Ok(Some((file.display().to_string(), text)))
    }
}

impl Config {
    /// The policies that come from registries, each with the key that names it.
    #[must_use]
    pub fn pinned(&self) -> Vec<(String, Pinned)> {
        let of_routes = self.routes.iter().filter_map(|(name, route)| match &route.policy {
            PolicySource::Oci(pinned) => Some((format!("routes.{name:?}.policy"), pinned.clone())),
            _ => None,
        });
        let arms = self.experiments.iter().flat_map(|(name, definition)| {
            pinned_arms(definition).map(move |(key, pinned)| (format!("experiments.{name:?}.{key}"), pinned))
        });
        of_routes.chain(arms).collect()
    }
}

/// The policies of an experiment's arms that come from registries, each with the key that names it.
pub fn pinned_arms(definition: &experiment::Definition) -> impl Iterator<Item = (String, Pinned)> {
    definition.arms.iter().chain(&definition.shadows).filter_map(|arm| {
        match PolicySource::parse(arm.policy.as_ref()?, std::path::Path::new("")) {
            Ok(PolicySource::Oci(pinned)) => Some((format!("arms.{}.policy", arm.name), pinned)),
            _ => None,
        }
    })
}
