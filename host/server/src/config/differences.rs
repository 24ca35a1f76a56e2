//! What differs between two configurations, key by key, and which of it can change while the server runs.

use std::fmt;

use serde_json::Value;

use super::Config;

/// One key that two configurations give different values.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The key, from the top of the file.
    pub path: Vec<String>,
    /// Its value before; none where it was not there.
    pub before: Option<Value>,
    /// Its value after; none where it is not there any more.
    pub after: Option<Value>,
}

impl Config {
    /// What is different in another configuration, in the order of the keys. A key that is left out has its default, and
    /// tables that come or go as a whole are one difference.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        collect(&mut Vec::new(), &self.written, &other.written, &mut found);
        found
    }
}

impl Difference {
    /// Whether a running server takes it over.
    ///
    /// What cannot change is what memory, threads and sockets were set up for, and whether keys are checked at all: a file that is
    /// half written must not open the server to everybody.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["server", key] => ["body_bytes_max", "memory_check"].contains(key),
            ["sandbox", key] => *key != "lane_threads",
            ["uploads", key] => !key.starts_with("compile_"),
            ["tenants"] | ["telemetry", ..] => false,
            _ => true,
        }
    }

    /// The key as it is written in a file.
    #[must_use]
    pub fn key(&self) -> String {
        self.path.iter().map(|key| toml_key(key)).collect::<Vec<_>>().join(".")
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        match (&self.before, &self.after) {
            (None, Some(after)) => write!(f, "{key}: added, {after}"),
            (Some(before), None) => write!(f, "{key}: removed, was {before}"),
            (Some(before), Some(after)) => write!(f, "{key}: {before} -> {after}"),
            (None, None) => write!(f, "{key}"),
        }
    }
}

/// A name as TOML wants it in the head of a table.
pub(crate) fn toml_key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { format!("{name:?}") }
}

fn collect(path: &mut Vec<String>, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (before, after) {
        // Both are sorted, so that a merge of their keys is too.
        let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            path.push(key.clone());
            let (before, after) = (before.get(key), after.get(key));
            collect(path, before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null), found);
            path.pop();
        }
        return;
    }
    let there = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
    found.push(Difference { path: path.clone(), before: there(before), after: there(after) });
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const BASE: &str = "[models.a]\nfiles = \"x\"\n[routes.\"r/x\"]\nmodels = [\"a\"]\npolicy = \"p\"\n";

    fn differences(before: &str, after: &str) -> Vec<(String, bool)> {
        let config = |text: &str| Config::parse(&format!("{BASE}{text}"), Path::new("")).expect("valid");
        let found = config(before).differences(&config(after));
        found.into_iter().map(|found| (found.to_string(), found.is_live())).collect()
    }

    #[test]
    fn a_default_that_is_written_is_no_difference() {
        assert_eq!(differences("", "[server]\ndrain_seconds = 30\n[sandbox]\nmemory_mib = 64"), []);
    }

    #[test]
    fn each_key_is_named_with_what_it_was_and_is() {
        let more = "[routes.q]\nmodels = [\"a\"]\npolicy = \"builtin:margin\"\n[server]\nqueue_max = 7\nbody_bytes_max = 9";
        let found = differences("settings.t = 0.5", &format!("settings.t = 0.6\n{more}"));
        let keys: Vec<(&str, bool)> = found.iter().map(|(key, live)| (key.as_str(), *live)).collect();
        assert!(keys[0].0.starts_with("routes.q: added, {") && keys[0].1);
        assert_eq!(keys[1], ("routes.\"r/x\".settings.t: 0.5 -> 0.6", true));
        assert_eq!(
            keys[2..],
            [("server.body_bytes_max: 4194304 -> 9", true), ("server.queue_max: 1024 -> 7", false)]
        );
    }

    #[test]
    fn whether_keys_are_checked_cannot_change() {
        let found = differences("", "[tenants.acme]");
        assert!(found[0].0.starts_with("tenants: added") && !found[0].1);
        let found = differences("[tenants.acme]", "[tenants.acme]\n[tenants.guest]");
        assert!(found[0].0.starts_with("tenants.guest: added") && found[0].1);
    }
}
