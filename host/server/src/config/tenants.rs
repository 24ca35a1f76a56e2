//! `[tenants]`: who may ask. The tables are the `tenant` crate's; here is what they must agree on with the rest of the file.

use std::collections::{BTreeMap, BTreeSet};

use scheduler::SHARE_MAX;
use tenant::Table;

use super::tables::check_name;
use super::{ConfigError, Model, Route, environment};

/// Checks the tables of all tenants.
///
/// # Errors
/// A name that names nothing, a key that stands twice, or a setting that this server does not honour.
pub(super) fn check(
    mut tenants: BTreeMap<String, Table>,
    models: &BTreeMap<String, Model>,
    routes: &BTreeMap<String, Route>,
) -> Result<BTreeMap<String, Table>, ConfigError> {
    if tenants.is_empty() {
        // Whoever writes an empty table would lock everybody out, or think that it does.
        return Err(ConfigError::value("tenants", "no tenant is given; add one, or leave the table out"));
    }
    let mut keys = BTreeSet::new();
    for (name, table) in &mut tenants {
        table.keys.extend(environment::keys(name, &table.keys_env, &environment::variable)?);
        check_name("tenants", name)?;
        check_names(&format!("tenants.{name}.models"), &table.models, models)?;
        check_names(&format!("tenants.{name}.routes"), &table.routes, routes)?;
        if table.share.get() > SHARE_MAX {
            let problem = format!("is at most {SHARE_MAX}; parts are relative to each other");
            return Err(ConfigError::value(format!("tenants.{name}.share"), problem));
        }
        if let Some(twice) = table.keys.iter().find(|key| !keys.insert(key.id)) {
            let problem = format!("the key {} stands twice under [tenants]", twice.id);
            return Err(ConfigError::value(format!("tenants.{name}.keys"), problem));
        }
    }
    Ok(tenants)
}

/// A name without `*` must be of something that is there: mistyped it would hide without a word.
fn check_names<T>(key: &str, names: &[String], all: &BTreeMap<String, T>) -> Result<(), ConfigError> {
    let unknown = names.iter().find(|name| !name.ends_with('*') && !all.contains_key(*name));
    let Some(unknown) = unknown else { return Ok(()) };
    let known: Vec<&str> = all.keys().map(String::as_str).collect();
    let problem =
        format!("there is no {unknown:?}; choose from: {}, or a beginning with *", known.join(", "));
    Err(ConfigError::value(key, problem))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Config;
    use super::*;

    const PAIR: &str = "[models.a]\nfiles = \"x\"\n[routes.r]\nmodels = [\"a\"]\npolicy = \"p\"\n";

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(&format!("{PAIR}{text}"), Path::new(""))
    }

    #[test]
    fn tables_name_what_is_there_and_what_is_honoured() {
        let tenants = parse("[tenants.acme]\nroutes = [\"r\", \"x*\"]\nmodels = []").expect("valid").tenants;
        assert_eq!(tenants["acme"].routes, ["r", "x*"]);
        assert!(parse("").expect("valid").tenants.is_empty());
        let key = format!("{{ id = \"{}\", digest = \"{}\" }}", "ab".repeat(8), "cd".repeat(32));
        for (text, problem) in [
            ("[tenants]".to_owned(), "tenants: no tenant is given"),
            (
                "[tenants.a]\nroutes = [\"q\"]".to_owned(),
                "tenants.a.routes: there is no \"q\"; choose from: r",
            ),
            ("[tenants.a]\nmodels = [\"r\"]".to_owned(), "tenants.a.models: there is no \"r\""),
            ("[tenants.a]\nshare = 1001".to_owned(), "tenants.a.share: is at most 1000"),
            ("[tenants.a]\nshare = 0".to_owned(), "share"),
            ("[tenants.\"\"]".to_owned(), "tenants: the name"),
            (format!("[tenants.a]\nkeys = [{key}]\n[tenants.b]\nkeys = [{key}]"), "tenants.b.keys: the key"),
            ("[tenants.a]\nkey = 1".to_owned(), "unknown field `key`"),
        ] {
            let told = parse(&text).expect_err("must be refused").to_string();
            assert!(told.contains(problem), "{told}");
        }
    }
}
