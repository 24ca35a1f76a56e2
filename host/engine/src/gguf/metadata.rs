//! What a GGUF file says about its model: named values, looked up by the type that is wanted.
//!
//! Writers differ in how wide they store a number, so a lookup takes any width that holds the value. Lists of numbers
//! stay bytes until they are asked for.

use std::collections::BTreeMap;

use super::reader::Reader;
use crate::EngineError;

/// The values of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    file: String,
    values: BTreeMap<String, Value>,
}

#[derive(Clone, Debug)]
enum Value {
    Number(Numbers),
    Numbers(Numbers),
    Text(String),
    Texts(Vec<String>),
}

/// Numbers as the file stores them.
#[derive(Clone, Debug)]
struct Numbers {
    kind: Kind,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned { width: usize },
    Signed { width: usize },
    F32,
    F64,
    Flag,
}

impl Metadata {
    /// Reads the values of a header.
    pub(super) fn read(reader: &mut Reader<'_>, entries: u64) -> Result<Self, EngineError> {
        let mut values = BTreeMap::new();
        for _ in 0..entries {
            let key = reader.text()?;
            let kind = reader.u32()?;
            let value = match kind {
                TEXT => Value::Text(reader.text()?),
                LIST => list(reader, &key)?,
                _ => Value::Number(numbers(reader, &key, kind, 1)?),
            };
            if values.insert(key.clone(), value).is_some() {
                return Err(reader.damaged(format!("{key} is there twice")));
            }
        }
        Ok(Self { file: reader.file().to_owned(), values })
    }

    /// The file's name.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Whether the file says something under a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// A whole number from 0.
    pub(crate) fn u64(&self, key: &str) -> Result<Option<u64>, EngineError> {
        let number = |value: &Value| match value {
            Value::Number(number) => u64::try_from(number.whole(0)?).ok(),
            _ => None,
        };
        self.get(key, number, "a whole number from 0")
    }

    /// A number with a fraction.
    pub(crate) fn f32(&self, key: &str) -> Result<Option<f32>, EngineError> {
        let number = |value: &Value| match value {
            Value::Number(number) => number.float(0),
            _ => None,
        };
        self.get(key, number, "a number with a fraction")
    }

    /// True or false.
    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, EngineError> {
        let flag = |value: &Value| match value {
            Value::Number(number) => number.flag(0),
            _ => None,
        };
        self.get(key, flag, "true or false")
    }

    /// A text.
    pub(crate) fn str(&self, key: &str) -> Result<Option<&str>, EngineError> {
        self.get(key, Value::text, "a text")
    }

    /// A list of texts.
    pub(crate) fn strings(&self, key: &str) -> Result<Option<&[String]>, EngineError> {
        self.get(key, Value::texts, "a list of texts")
    }

    /// A list of numbers with fractions.
    pub(crate) fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, EngineError> {
        self.get(key, |value| value.list(Numbers::float), "a list of numbers with fractions")
    }

    /// A list of whole numbers.
    pub(crate) fn i32s(&self, key: &str) -> Result<Option<Vec<i32>>, EngineError> {
        let whole = |numbers: &Numbers, index| i32::try_from(numbers.whole(index)?).ok();
        self.get(key, |value| value.list(whole), "a list of whole numbers of 32 bits")
    }

    /// The error that says what is wrong with a key.
    pub(crate) fn wrong(&self, key: &str, problem: impl Into<String>) -> EngineError {
        EngineError::Config { file: self.file.clone(), key: key.to_owned(), problem: problem.into() }
    }

    fn get<'a, T>(
        &'a self,
        key: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        wanted: &str,
    ) -> Result<Option<T>, EngineError> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let problem = || format!("is {}; it must be {wanted}", value.shown());
        read(value).map(Some).ok_or_else(|| self.wrong(key, problem()))
    }
}

impl Value {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn texts(&self) -> Option<&[String]> {
        match self {
            Self::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    fn list<T>(&self, read: impl Fn(&Numbers, usize) -> Option<T>) -> Option<Vec<T>> {
        match self {
            Self::Numbers(numbers) => (0..numbers.len()).map(|index| read(numbers, index)).collect(),
            _ => None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Number(number) => match (number.whole(0), number.float(0)) {
                (Some(whole), _) => whole.to_string(),
                (None, Some(float)) => float.to_string(),
                (None, None) => match number.flag(0) {
                    Some(flag) => flag.to_string(),
                    None => format!("byte {} where a flag is 0 or 1", number.bytes[0]),
                },
            },
            Self::Numbers(numbers) => format!("a list of {} numbers", numbers.len()),
            Self::Text(text) => format!("{text:?}"),
            Self::Texts(texts) => format!("a list of {} texts", texts.len()),
        }
    }
}

impl Numbers {
    fn len(&self) -> usize {
        self.bytes.len() / self.kind.width()
    }

    /// A whole number; those beyond what is ever meant count as the largest.
    fn whole(&self, index: usize) -> Option<i64> {
        match self.kind {
            Kind::Unsigned { .. } => {
                Some(i64::try_from(u64::from_le_bytes(self.widened(index, 0))).unwrap_or(i64::MAX))
            }
            Kind::Signed { width } => {
                let negative = self.at(index)[width - 1] & 0x80 != 0;
                Some(i64::from_le_bytes(self.widened(index, if negative { 0xFF } else { 0 })))
            }
            Kind::F32 | Kind::F64 | Kind::Flag => None,
        }
    }

    fn float(&self, index: usize) -> Option<f32> {
        let bytes = self.widened(index, 0);
        match self.kind {
            Kind::F32 => Some(f32::from_bits(u64::from_le_bytes(bytes) as u32)),
            Kind::F64 => Some(f64::from_le_bytes(bytes) as f32),
            Kind::Unsigned { .. } | Kind::Signed { .. } | Kind::Flag => None,
        }
    }

    fn flag(&self, index: usize) -> Option<bool> {
        match (self.kind, self.at(index)) {
            (Kind::Flag, [0]) => Some(false),
            (Kind::Flag, [1]) => Some(true),
            _ => None,
        }
    }

    fn at(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.kind.width()..][..self.kind.width()]
    }

    fn widened(&self, index: usize, above: u8) -> [u8; 8] {
        let mut wide = [above; 8];
        let bytes = self.at(index);
        wide[..bytes.len()].copy_from_slice(bytes);
        wide
    }
}

impl Kind {
    fn width(self) -> usize {
        match self {
            Self::Unsigned { width } | Self::Signed { width } => width,
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Flag => 1,
        }
    }
}

fn list(reader: &mut Reader<'_>, key: &str) -> Result<Value, EngineError> {
    let (kind, count) = (reader.u32()?, reader.u64()?);
    match kind {
        TEXT => {
            // Not allocated for at once: the count is the file's word.
            let mut texts = Vec::new();
            for _ in 0..count {
                texts.push(reader.text()?);
            }
            Ok(Value::Texts(texts))
        }
        LIST => Err(reader.damaged(format!("{key} is a list of lists, which no model needs"))),
        _ => Ok(Value::Numbers(numbers(reader, key, kind, count)?)),
    }
}

fn numbers(reader: &mut Reader<'_>, key: &str, kind: u32, count: u64) -> Result<Numbers, EngineError> {
    let kind = match kind {
        0 => Kind::Unsigned { width: 1 },
        1 => Kind::Signed { width: 1 },
        2 => Kind::Unsigned { width: 2 },
        3 => Kind::Signed { width: 2 },
        4 => Kind::Unsigned { width: 4 },
        5 => Kind::Signed { width: 4 },
        6 => Kind::F32,
        7 => Kind::Flag,
        10 => Kind::Unsigned { width: 8 },
        11 => Kind::Signed { width: 8 },
        12 => Kind::F64,
        _ => return Err(reader.damaged(format!("{key} has the type {kind}, which there is not"))),
    };
    let len = count.saturating_mul(kind.width() as u64);
    Ok(Numbers { kind, bytes: reader.take(len)?.to_vec() })
}

/// A text's type.
const TEXT: u32 = 8;
/// A list's type.
const LIST: u32 = 9;
