//! The three ways to name a model.

use std::path::{Path, PathBuf};

use engine::ModelFiles;

use super::hub::{HubError, HubModel};

/// Where a model's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// `embedded:NAME`: inside the binary.
    Embedded(String),
    /// `hf:ORG/NAME`: pulled earlier into the Hugging Face cache.
    Hub(HubModel),
    /// A folder in the Hugging Face layout, or a GGUF file.
    Path(PathBuf),
}

/// A model that cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// `embedded:NAME` names nothing.
    #[error("the binary holds no model {name:?}; it holds {known}")]
    NoSuchEmbedded {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A hub model is badly named, or not in the cache.
    #[error(transparent)]
    Hub(#[from] HubError),
}

impl ModelSource {
    /// Reads what a user wrote. Paths are relative to `folder`.
    ///
    /// # Errors
    /// [`HubError::Name`].
    pub fn parse(text: &str, folder: &Path) -> Result<Self, HubError> {
        if let Some(name) = text.strip_prefix("embedded:") {
            return Ok(Self::Embedded(name.to_owned()));
        }
        match text.strip_prefix("hf:") {
            Some(name) => Ok(Self::Hub(HubModel::parse(name)?)),
            None => Ok(Self::Path(folder.join(text))),
        }
    }

    /// The files. Nothing is downloaded.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn files(&self) -> Result<ModelFiles, SourceError> {
        match self {
            Self::Path(path) => Ok(ModelFiles::Directory(path.clone())),
            Self::Hub(model) => Ok(ModelFiles::Directory(model.cached(&hf_hub::Cache::from_env())?)),
            Self::Embedded(name) => match tinypair::models::by_name(name) {
                Some(found) => Ok(ModelFiles::Embedded { name: found.name, files: found.files }),
                None => {
                    let known: Vec<&str> = tinypair::models::ALL.iter().map(|model| model.name).collect();
                    Err(SourceError::NoSuchEmbedded { name: name.clone(), known: known.join(", ") })
                }
            },
        }
    }
}
