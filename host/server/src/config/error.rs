//! What can be wrong with a configuration file.

use std::path::PathBuf;

/// A configuration that cannot be used. The message names the file or the key and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong type; the parser's message shows the line.
    #[error("the configuration is not valid:\n{0}")]
    Syntax(#[from] toml::de::Error),
    /// A key has a value that cannot be used.
    #[error("{key}: {problem}")]
    Value {
        /// Path of the key, as `routes."pair/entropy".fallback`.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl ConfigError {
    pub(super) fn value(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Value { key: key.into(), problem: problem.into() }
    }
}
