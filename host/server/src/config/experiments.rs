//! `[experiments]`: the tables are the `experiment` crate's definitions; here is what they must agree on with the rest of the
//! file.

use std::collections::BTreeMap;
use std::path::Path;

use experiment::Definition;

use super::{ConfigError, PolicySource, Route};

/// Checks the tables of all experiments, and gives each its name.
///
/// # Errors
/// What cannot be followed, by its key.
pub(super) fn check(
    tables: BTreeMap<String, Definition>,
    folder: &Path,
    routes: &BTreeMap<String, Route>,
) -> Result<BTreeMap<String, Definition>, ConfigError> {
    let mut checked: BTreeMap<String, Definition> = BTreeMap::new();
    for (name, mut definition) in tables {
        let key = |field: &str| format!("experiments.{name:?}.{field}");
        if !definition.name.is_empty() && definition.name != name {
            return Err(ConfigError::value(key("name"), "is not the table's; leave it out"));
        }
        definition.name.clone_from(&name);
        let refused = |error: experiment::DefinitionError| {
            ConfigError::value(format!("experiments.{name:?}"), error.to_string())
        };
        definition.check().map_err(refused)?;
        if !routes.contains_key(&definition.route) {
            let known: Vec<&str> = routes.keys().map(String::as_str).collect();
            let problem =
                format!("there is no route {:?}; choose from: {}", definition.route, known.join(", "));
            return Err(ConfigError::value(key("route"), problem));
        }
        if let Some(other) = checked.values().find(|other| other.route == definition.route) {
            let problem =
                format!("the experiment {:?} is on it already; give it a route of its own", other.name);
            return Err(ConfigError::value(key("route"), problem));
        }
        for arm in definition.arms.iter_mut().chain(&mut definition.shadows) {
            let Some(text) = arm.policy.take() else { continue };
            let policy = in_folder(text, folder);
            arm.policy = Some(policy.map_err(|problem| {
                ConfigError::value(format!("experiments.{name:?}.arms.{}.policy", arm.name), problem)
            })?);
        }
        checked.insert(name, definition);
    }
    Ok(checked)
}

/// A policy's file is relative to the configuration's folder, wherever the experiment is kept.
fn in_folder(text: String, folder: &Path) -> Result<String, String> {
    match PolicySource::parse(&text, folder)? {
        PolicySource::File(path) => Ok(path.display().to_string()),
        PolicySource::Builtin(_) | PolicySource::Uploaded { .. } | PolicySource::Oci(_) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    const PAIR: &str = "[models.a]\nfiles = \"x\"\n[routes.r]\nmodels = [\"a\"]\npolicy = \"p\"\n";
    const ARMS: &str = "seed = \"0123456789abcdef\"\narms = [{ name = \"a\", weight_bp = 5000 }, { name = \"b\", weight_bp = 5000, \
                        policy = \"q.wasm\" }]\n";

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(&format!("{PAIR}{text}"), Path::new("conf"))
    }

    #[test]
    fn a_table_takes_its_name_from_its_head_and_its_files_from_the_folder() {
        let config = parse(&format!("[experiments.one]\nroute = \"r\"\n{ARMS}")).unwrap();
        let one = &config.experiments["one"];
        assert_eq!((one.name.as_str(), one.arms[1].policy.as_deref()), ("one", Some("conf/q.wasm")));
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_key() {
        for (text, problem) in [
            (
                format!("[experiments.one]\nroute = \"q\"\n{ARMS}"),
                "experiments.\"one\".route: there is no route \"q\"",
            ),
            (format!("[experiments.One]\nroute = \"r\"\n{ARMS}"), "experiments.\"One\": name is not 1 to 64"),
            (
                format!("[experiments.one]\nname = \"two\"\nroute = \"r\"\n{ARMS}"),
                "experiments.\"one\".name: is not",
            ),
            (
                format!("[experiments.a]\nroute = \"r\"\n{ARMS}[experiments.b]\nroute = \"r\"\n{ARMS}"),
                "experiments.\"b\".route: the experiment \"a\" is on it",
            ),
            (
                "[models.b]\nfiles = \"y\"\nprice_per_token = -1.0".to_owned(),
                "models.b.price_per_token: is not",
            ),
        ] {
            let told = parse(&text).unwrap_err().to_string();
            assert!(told.contains(problem), "{told}");
        }
    }
}
