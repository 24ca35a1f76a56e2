//! The list of situations names tests that exist, and its report has a row for each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml::{Table, Value};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn cases() -> Vec<Value> {
    let text = fs::read_to_string(root().join("tests/conformance/cases.toml")).expect("the list");
    let mut table: Table = text.parse().expect("TOML");
    let Some(Value::Array(cases)) = table.remove("case") else { panic!("[[case]]") };
    cases
}

/// The names in a list of a case; none if it has no such list.
fn names<'a>(case: &'a Value, key: &str) -> Vec<&'a str> {
    let list = case.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().map(|name| name.as_str().expect("a name")).collect()
}

/// Asserts that a file has a test of this name; `*` stands for all that it has.
#[track_caller]
fn exists(path: &str, test: &str) {
    let text = fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let wanted = if test == "*" { "#[test]".to_owned() } else { format!("fn {test}(") };
    assert!(text.contains(&wanted), "{path} has no {wanted}");
}

#[test]
fn every_test_that_a_case_names_exists() {
    let (mut numbers, mut last) = (BTreeSet::new(), 0);
    for case in cases() {
        let number = case["number"].as_integer().expect("a number");
        assert!(number > last && numbers.insert(number), "cases are in order: {number}");
        last = number;
        let (tests, missing) = (names(&case, "tests"), case.get("missing"));
        assert_eq!(tests.is_empty(), missing.is_some(), "case {number} has tests, or says what is missing");
        for test in tests {
            let (file, test) = test.split_once("::").expect("FILE::FUNCTION");
            exists(&format!("tests/all/{file}.rs"), test);
        }
        for test in names(&case, "beside") {
            let (path, test) = test.split_once("::").expect("PATH::FUNCTION");
            exists(path, test);
        }
        let known = ["number", "situation", "tests", "beside", "missing"];
        let table = case.as_table().expect("a table");
        assert!(table.keys().all(|key| known.contains(&key.as_str())), "case {number}: {table:?}");
    }
}

#[test]
fn the_report_has_a_row_for_every_case() {
    let report = fs::read_to_string(root().join("tests/conformance/README.md")).expect("the report");
    for case in cases() {
        let row = format!("| {} | {} |", case["number"], case["situation"].as_str().expect("words"));
        assert!(report.contains(&row), "run tests/conformance/report.py: it has no row {row}");
    }
}
