//! The house's rules that a compiler does not check: sizes, words, and what must not be in the tree.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 400;
const KINDS: [&str; 8] = ["rs", "wit", "py", "sh", "js", "mjs", "css", "html"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace").to_owned()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if !["target", ".git", "node_modules"].contains(&name.to_string_lossy().as_ref()) {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|e| KINDS.iter().any(|kind| e == *kind)) {
            found.push(path);
        }
    }
}

fn check(rule: impl Fn(&Path, &str) -> Vec<String>) {
    let mut found = Vec::new();
    sources(&root(), &mut found);
    assert!(found.len() > 50, "the walk found the tree");
    let broken: Vec<String> = found
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).expect("text");
            let shown = path.strip_prefix(root()).expect("below the root").to_owned();
            rule(&shown, &text).into_iter().map(move |problem| format!("{}: {problem}", shown.display()))
        })
        .collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn files_are_short_enough_to_read() {
    check(|_, text| {
        let lines = text.lines().count();
        if lines > LINES_MAX { vec![format!("{lines} lines; split it by idea")] } else { Vec::new() }
    });
}

#[test]
fn modules_say_what_they_are_for() {
    check(|path, text| {
        let is_rust = path.extension().is_some_and(|e| e == "rs");
        if is_rust && !text.starts_with("//!") && !text.starts_with("#![") {
            return vec!["does not begin with //!".to_owned()];
        }
        Vec::new()
    });
}

#[test]
fn pure_crates_have_no_clock_threads_or_io() {
    let banned = ["std::time::Instant", "std::thread", "std::fs", "std::net", "SystemTime", "tokio"];
    check(|path, text| {
        let rooms = ["host/experiment/src", "host/journey/src", "host/scheduler/src", "host/tenant/src"];
        let pure = rooms.iter().any(|room| path.starts_with(room));
        let uses = banned.iter().filter(|word| pure && text.contains(**word));
        uses.map(|word| format!("uses {word}")).collect()
    });
}

#[test]
fn unfinished_work_is_not_committed() {
    // Spelled so that this file does not find itself.
    let words = [
        concat!("FIX", "ME"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[ign", "ore"),
    ];
    check(|_, text| {
        let found = words.iter().filter(|word| text.contains(**word));
        found.map(|word| format!("contains {word}")).collect()
    });
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = [
        "README.md",
        "examples/deploy/README.md",
        "examples/policies/README.md",
        "host/ARCHITECTURE.md",
        "host/tinypair/README.md",
        "policies/README.md",
        "tests/bench/README.md",
        "tests/conformance/README.md",
        "tests/gpu/README.md",
        "wit/README.md",
    ];
    for document in documents {
        let path = root().join(document);
        let text = fs::read_to_string(&path).expect("a document");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            let outside = link.starts_with("http") || link.is_empty();
            let target = path.parent().expect("in a folder").join(link);
            assert!(outside || target.exists(), "{document} links to {link}, which does not exist");
        }
    }
}
