//! One JSON object, taken apart field by field.
//!
//! Each taker removes its field, so that what is left at the end is what nobody understands.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::http::error::{ApiError, Fault, shortened};

/// An object and where it stands in the body.
#[derive(Debug)]
pub(in crate::http) struct Fields {
    path: String,
    map: Map<String, Value>,
}

impl Fields {
    /// The object at `path`; the body itself is at "".
    pub(in crate::http) fn of(value: Value, path: &str) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { path: path.to_owned(), map }),
            other if path.is_empty() => {
                let message = format!("the body must be a JSON object, not {}", shown(&other));
                Err(ApiError::general(Fault::Json, message))
            }
            other => Err(wrong_type(path, "an object", &other)),
        }
    }

    /// A field's value; `null` counts as absent.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key).filter(|value| !value.is_null())
    }

    pub(in crate::http) fn string(&mut self, key: &str) -> Result<Option<String>, ApiError> {
        self.take(key).map(|value| text(value, &self.path(key))).transpose()
    }

    pub(super) fn boolean(&mut self, key: &str) -> Result<Option<bool>, ApiError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(&self.path(key), "true or false", &other)),
        }
    }

    pub(in crate::http) fn integer(
        &mut self,
        key: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let path = self.path(key);
        let wanted = format!("a whole number {}", bounds(&range));
        if !value.is_i64() && !value.is_u64() {
            return Err(wrong_type(&path, &wanted, &value));
        }
        match value.as_i64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong_value(&path, &wanted, &value)),
        }
    }

    pub(in crate::http) fn number(
        &mut self,
        key: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let path = self.path(key);
        let wanted = format!("a number {}", bounds(&range));
        let Some(number) = value.as_f64() else { return Err(wrong_type(&path, &wanted, &value)) };
        if !range.contains(&number) {
            return Err(wrong_value(&path, &wanted, &value));
        }
        Ok(Some(number))
    }

    /// Whether a field is there and not `null`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(|value| !value.is_null())
    }

    /// Every field that is left, by name.
    pub(super) fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }

    /// Refuses what was not taken.
    pub(in crate::http) fn finish(self) -> Result<(), ApiError> {
        let Some(key) = self.map.keys().next() else { return Ok(()) };
        let key = shortened(key);
        let path = self.path(&key);
        let message = format!("there is no field {path:?}; remove it, or check its spelling");
        Err(ApiError::field(Fault::Unknown, path, message))
    }

    /// Where a field of this object stands.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(in crate::http) fn missing(&self, key: &str, wanted: &str) -> ApiError {
        let path = self.path(key);
        let message = format!("{path:?} is missing; it must be {wanted}");
        ApiError::field(Fault::Missing, path, message)
    }
}

/// A string, wherever it stands.
pub(super) fn text(value: Value, path: &str) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong_type(path, "a string", &other)),
    }
}

/// Token ids, which are not looked up in a vocabulary here.
pub(super) fn token_ids(list: &[Value], path: &str) -> Result<Vec<u64>, ApiError> {
    let id = |(ix, value): (usize, &Value)| {
        value.as_u64().ok_or_else(|| wrong_type(&format!("{path}[{ix}]"), "a token id", value))
    };
    list.iter().enumerate().map(id).collect()
}

pub(super) fn wrong_type(path: &str, wanted: &str, found: &Value) -> ApiError {
    let message = format!("{path:?} must be {wanted}, not {}", shown(found));
    ApiError::field(Fault::Type, path, message)
}

pub(super) fn wrong_value(path: &str, wanted: &str, found: &Value) -> ApiError {
    let message = format!("{path:?} must be {wanted}, not {}", shown(found));
    ApiError::field(Fault::Value, path, message)
}

/// A value in words, short enough for a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "an empty object".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(list) if list.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => shortened(&other.to_string()),
    }
}

fn bounds<T: Display + PartialOrd + Extremes>(range: &RangeInclusive<T>) -> String {
    let (least, most) = (range.start(), range.end());
    if *most >= T::LARGEST { format!("of at least {least}") } else { format!("from {least} to {most}") }
}

/// Beyond which a bound is not worth a word.
trait Extremes {
    const LARGEST: Self;
}

impl Extremes for i64 {
    const LARGEST: Self = i64::MAX;
}

impl Extremes for f64 {
    const LARGEST: Self = f64::MAX;
}
