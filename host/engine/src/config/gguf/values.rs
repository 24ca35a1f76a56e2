//! Lookups below the name of the architecture that give checked values.
//!
//! As `keys` is to JSON: every reader refuses nonsense in the same words.

use crate::EngineError;
use crate::config::SIZE_MAX;
use crate::gguf::Metadata;

/// The metadata of one model.
pub(super) struct Values<'a> {
    metadata: &'a Metadata,
    /// The name of the architecture, before the keys of the model.
    architecture: &'a str,
}

impl<'a> Values<'a> {
    /// Those below the architecture that the file names.
    pub(super) fn of(metadata: &'a Metadata) -> Result<Self, EngineError> {
        let architecture = metadata.str(ARCHITECTURE)?;
        let architecture = architecture.ok_or_else(|| metadata.wrong(ARCHITECTURE, "is missing"))?;
        Ok(Self { metadata, architecture })
    }

    /// The name of the architecture.
    pub(super) fn architecture(&self) -> &'a str {
        self.architecture
    }

    /// The values that are not below the architecture.
    pub(super) fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// The error that says what is wrong with a key.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) -> EngineError {
        self.metadata.wrong(&self.path(key), problem)
    }

    /// A whole number of at least 1 and of a size that can be multiplied with others without care.
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, EngineError> {
        match self.metadata.u64(&self.path(key))? {
            None => Ok(None),
            Some(size @ 1..=SIZE_MAX) => Ok(Some(size as usize)),
            Some(other) => {
                let problem = format!("is {other}; it must be a whole number from 1 to {SIZE_MAX}");
                Err(self.wrong(key, problem))
            }
        }
    }

    /// A size that must be there.
    pub(super) fn required_size(&self, key: &str) -> Result<usize, EngineError> {
        self.size(key)?.ok_or_else(|| self.wrong(key, "is missing; it must be a whole number"))
    }

    /// A size that may be zero, which counts as absent.
    pub(super) fn nonzero_size(&self, key: &str) -> Result<Option<usize>, EngineError> {
        if self.metadata.u64(&self.path(key))? == Some(0) { Ok(None) } else { self.size(key) }
    }

    /// A number above zero.
    pub(super) fn positive(&self, key: &str) -> Result<Option<f64>, EngineError> {
        match self.metadata.f32(&self.path(key))? {
            None => Ok(None),
            Some(number) if number.is_finite() && number > 0.0 => Ok(Some(f64::from(number))),
            Some(other) => Err(self.wrong(key, format!("is {other}; it must be a positive number"))),
        }
    }

    /// A number above zero that must be there.
    pub(super) fn required_positive(&self, key: &str) -> Result<f64, EngineError> {
        self.positive(key)?.ok_or_else(|| self.wrong(key, "is missing; it must be a positive number"))
    }

    /// A number above zero, or zero, which counts as absent.
    pub(super) fn nonzero_positive(&self, key: &str) -> Result<Option<f64>, EngineError> {
        if self.metadata.f32(&self.path(key))? == Some(0.0) { Ok(None) } else { self.positive(key) }
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, EngineError> {
        self.metadata.str(&self.path(key))
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, EngineError> {
        self.metadata.bool(&self.path(key))
    }

    /// Refuses a key whose value is not the only one that is implemented.
    pub(super) fn only(&self, key: &str, size: usize, why: &str) -> Result<(), EngineError> {
        match self.size(key)? {
            Some(other) if other != size => {
                Err(self.wrong(key, format!("is {other}; it must be {size}, {why}")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a key that changes the numbers.
    pub(super) fn refuse(&self, key: &str) -> Result<(), EngineError> {
        if self.metadata.has(&self.path(key)) {
            return Err(self.wrong(key, "is there, which is not implemented for this architecture"));
        }
        Ok(())
    }

    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }
}

/// The key that names the architecture.
const ARCHITECTURE: &str = "general.architecture";
