//! Values as Python writes them: templates are made for a Python library, and models were trained on what it printed.

use std::fmt::Write;
use std::io;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, Output, State};
use serde::Serialize;
use serde_json::ser::Formatter;

/// How `{{ value }}` is printed: as `str` of Python.
pub(super) fn print(out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let printed = match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::String => out.write_str(value.as_str().unwrap_or_default()),
        _ => out.write_str(&repr(value)),
    };
    printed.map_err(|_| Error::new(ErrorKind::WriteFailure, "cannot print a value"))
}

/// As `repr` of Python.
fn repr(value: &Value) -> String {
    let all = |values: Vec<String>| values.join(", ");
    match value.kind() {
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
        }
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            format!("[{}]", all(value.try_iter().into_iter().flatten().map(|item| repr(&item)).collect()))
        }
        ValueKind::Map => {
            let field =
                |key: Value| format!("{}: {}", repr(&key), repr(&value.get_item(&key).unwrap_or_default()));
            format!("{{{}}}", all(value.try_iter().into_iter().flatten().map(field).collect()))
        }
        _ => value.to_string(),
    }
}

/// Python prefers single quotes, unless there are only such in the text.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            c if c == quote => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

/// As `repr` of a Python float.
fn float(value: f64) -> String {
    let (digits, exponent) = {
        let shortest = format!("{value:e}");
        let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
        (digits.to_owned(), exponent.parse::<i32>().unwrap_or(0))
    };
    if value == 0.0 || (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The filter `tojson` of the reference: `json.dumps` with these arguments. The template library's own also escapes for
/// HTML, which no model was trained on.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a filter")]
pub(super) fn tojson(value: &Value, positional: Option<Value>, options: Kwargs) -> Result<String, Error> {
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let indent: Option<Value> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    // The reference's first argument after the value.
    let ascii = ascii.or_else(|| positional.map(|value| value.is_true())).unwrap_or(false);
    let indent = indent.filter(|indent| !indent.is_none()).map(|indent| match indent.as_usize() {
        Some(count) => " ".repeat(count),
        None => indent.as_str().unwrap_or_default().to_owned(),
    });
    let mut json = serde_json::to_value(value).map_err(|error| {
        Error::new(ErrorKind::BadSerialization, "cannot write a value as JSON").with_source(error)
    })?;
    if sort == Some(true) {
        json.sort_all_objects();
    }
    let item = if indent.is_some() { "," } else { ", " };
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        _ => (item.to_owned(), ": ".to_owned()),
    };
    Ok(written(&json, Layout { ascii, indent, item, key, depth: 0, is_empty: false }))
}

/// `json.dumps(value, ensure_ascii=False)`.
pub(in crate::tokenizer) fn dumps(value: &serde_json::Value) -> String {
    let (item, key) = (", ".to_owned(), ": ".to_owned());
    written(value, Layout { ascii: false, indent: None, item, key, depth: 0, is_empty: false })
}

fn written(value: &serde_json::Value, layout: Layout) -> String {
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, layout);
    // Writing to memory fails for no value that JSON can hold.
    value.serialize(&mut serializer).unwrap_or_default();
    String::from_utf8(json).unwrap_or_default()
}

/// How JSON is laid out.
struct Layout {
    ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    depth: usize,
    /// Nothing is in the list or object that was opened last.
    is_empty: bool,
}

impl Layout {
    fn open<W: ?Sized + io::Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        to.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !self.is_empty {
            self.new_line(to)?;
        }
        self.is_empty = false;
        to.write_all(bracket)
    }

    fn next<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        if !first {
            to.write_all(self.item.as_bytes())?;
        }
        self.is_empty = false;
        self.new_line(to)
    }

    fn new_line<W: ?Sized + io::Write>(&self, to: &mut W) -> io::Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        write!(to, "\n{}", indent.repeat(self.depth))
    }
}

impl Formatter for Layout {
    fn write_f64<W: ?Sized + io::Write>(&mut self, to: &mut W, value: f64) -> io::Result<()> {
        to.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, to: &mut W, text: &str) -> io::Result<()> {
        if !self.ascii {
            return to.write_all(text.as_bytes());
        }
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if c.is_ascii() {
                escaped.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                write!(escaped, "\\u{unit:04x}").unwrap_or_default();
            }
        }
        to.write_all(escaped.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"}")
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(self.key.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_that_of_python() {
        let value = json!({"b": [1, 2.0, 1e16, 1.5e-7, 0.0001, -0.0, 1e300], "a": {}, "c": [], "d": "\u{e9}\"<\n\u{1f600}", "e": [true, null]});
        let python = "{\"b\": [1, 2.0, 1e+16, 1.5e-07, 0.0001, -0.0, 1e+300], \"a\": {}, \"c\": [], \"d\": \"\u{e9}\\\"<\\n\u{1f600}\", \"e\": [true, null]}";
        assert_eq!(dumps(&value), python);
        let filter = |options: &[(&str, Value)]| {
            let kwargs = options.iter().map(|(key, value)| (*key, value.clone())).collect();
            tojson(
                &Value::from(minijinja::value::Serde(json!({"b": [1, {}], "a": "\u{e9}\u{1f600}"}))),
                None,
                kwargs,
            )
            .unwrap()
        };
        assert_eq!(
            filter(&[("indent", Value::from(2))]),
            "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": \"\u{e9}\u{1f600}\"\n}"
        );
        assert_eq!(
            filter(&[("ensure_ascii", Value::from(true)), ("sort_keys", Value::from(true))]),
            "{\"a\": \"\\u00e9\\ud83d\\ude00\", \"b\": [1, {}]}"
        );
        assert_eq!(
            filter(&[("separators", Value::from(vec![",", ":"]))]),
            "{\"b\":[1,{}],\"a\":\"\u{e9}\u{1f600}\"}"
        );
    }

    #[test]
    fn values_print_as_in_python() {
        let value =
            Value::from(minijinja::value::Serde(json!([true, null, 1, 1.0, "it's", "a\"'", {"k": [false]}])));
        assert_eq!(repr(&value), "[True, None, 1, 1.0, \"it's\", 'a\"\\'', {'k': [False]}]");
    }
}
