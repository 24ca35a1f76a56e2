//! Lookups in a JSON object that give checked values, or errors that name the file and the key.
//!
//! Separate from what the keys mean, so that every reader refuses nonsense in the same words.

use serde_json::{Map, Value};

use super::SIZE_MAX;
use crate::EngineError;

/// A JSON object. A key that is null counts as absent, except to [`Keys::is_null`].
pub(super) struct Keys {
    file: &'static str,
    /// Keys of the objects around it, each with a dot.
    path: String,
    map: Map<String, Value>,
}

impl Keys {
    /// Parses a whole file.
    pub(super) fn parse(file: &'static str, content: &[u8]) -> Result<Self, EngineError> {
        let map = serde_json::from_slice(content)
            .map_err(|source| EngineError::Json { file: file.to_owned(), source })?;
        Ok(Self { file, path: String::new(), map })
    }

    /// The object at a key.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>, EngineError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Object(map)) => {
                let path = format!("{}{key}.", self.path);
                Ok(Some(Self { file: self.file, path, map: map.clone() }))
            }
            Some(other) => Err(self.wrong(key, format!("is {other}; it must be an object"))),
        }
    }

    /// The file that the object is in.
    pub(super) fn file(&self) -> &'static str {
        self.file
    }

    /// The names of all keys.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.map.keys().map(String::as_str)
    }

    /// The value at a key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Whether the key is there and null.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(Value::is_null)
    }

    /// The error that says what is wrong with a key.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) -> EngineError {
        EngineError::Config {
            file: self.file.to_owned(),
            key: format!("{}{key}", self.path),
            problem: problem.into(),
        }
    }

    /// A whole number of at least 1 and of a size that can be multiplied with others without care.
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, EngineError> {
        self.whole(key, 1)
    }

    /// The same, or zero.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>, EngineError> {
        self.whole(key, 0)
    }

    /// A size that must be there.
    pub(super) fn required_size(&self, key: &str) -> Result<usize, EngineError> {
        self.size(key)?.ok_or_else(|| self.wrong(key, "is missing; it must be a whole number"))
    }

    /// A number above zero.
    pub(super) fn positive(&self, key: &str) -> Result<Option<f64>, EngineError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(key, format!("is {value}; it must be a positive number"))),
        }
    }

    /// A number above zero that must be there.
    pub(super) fn required_positive(&self, key: &str) -> Result<f64, EngineError> {
        self.positive(key)?.ok_or_else(|| self.wrong(key, "is missing; it must be a positive number"))
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, EngineError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(key, format!("is {other}; it must be true or false"))),
        }
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, EngineError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let texts = value.as_array().and_then(|values| {
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.map(Some).ok_or_else(|| self.wrong(key, format!("is {value}; it must be a list of texts")))
    }

    /// One token id or a list of them.
    pub(super) fn tokens(&self, key: &str, vocabulary: usize) -> Result<Vec<u32>, EngineError> {
        let values = match self.get(key) {
            None => &[][..],
            Some(Value::Array(values)) => values,
            Some(one) => std::slice::from_ref(one),
        };
        let token = |value: &Value| {
            let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
            token.filter(|&token| (token as usize) < vocabulary).ok_or_else(|| {
                self.wrong(key, format!("names {value}, which is no token id below {vocabulary}"))
            })
        };
        values.iter().map(token).collect()
    }

    fn whole(&self, key: &str, least: u64) -> Result<Option<usize>, EngineError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64().filter(|size| (least..=SIZE_MAX).contains(size)) {
            Some(size) => Ok(Some(size as usize)),
            None => {
                let problem = format!("is {value}; it must be a whole number from {least} to {SIZE_MAX}");
                Err(self.wrong(key, problem))
            }
        }
    }
}
