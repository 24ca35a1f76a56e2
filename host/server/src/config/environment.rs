//! What the configuration takes from the environment: keys of tenants, by the names of variables.
//!
//! A variable's value is turned into what would stand in `keys`; neither it nor a part of it is kept, shown or put into an
//! error. The configuration as it is written, which is compared, logged and audited, has the names alone.

use serde::Deserialize;
use tenant::key::Secret;
use tenant::{EnvKey, TableKey, TableScope};

use super::ConfigError;

/// A variable of this process; none where it is not set, or is no text.
#[expect(clippy::disallowed_methods, reason = "this is where the configuration reads it")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The keys of `keys_env` of a tenant.
///
/// # Errors
/// A variable that is not set, is empty, or holds something else, by its name.
pub(super) fn keys(
    tenant: &str,
    keys_env: &[EnvKey],
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<TableKey>, ConfigError> {
    let key = |of: &EnvKey| {
        let name = &of.name;
        let refused = |problem: &str| {
            ConfigError::value(
                format!("tenants.{tenant}.keys_env"),
                format!("the variable {name:?} {problem}"),
            )
        };
        // No variable has such a name, and asking for one panics on some systems.
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(refused("cannot be one; give a name as ACME_KEY"));
        }
        let value =
            variable(name).ok_or_else(|| refused("is not set in the server's environment, or is no text"))?;
        let value = value.trim();
        if value.is_empty() {
            return Err(refused("is empty; set it to a key, or leave it out here"));
        }
        let held = held(value).ok_or_else(|| {
            refused(
                "holds neither a key (tr-ID-SECRET) nor what stands for one in `keys` ({ id = \"...\", digest = \"...\" }); \
                 `tokenrouter key new` prints both",
            )
        })?;
        if held.scope == TableScope::Admin && of.scope != TableScope::Admin {
            return Err(refused("holds a key for admins; write scope = \"admin\" beside its name, too"));
        }
        let ends = [held.expires_unix_s, of.expires_unix_s].into_iter().flatten().min();
        Ok(TableKey { scope: of.scope, expires_unix_s: ends, ..held })
    };
    keys_env.iter().map(key).collect()
}

/// A key, or what stands for one in `keys`.
fn held(value: &str) -> Option<TableKey> {
    if let Ok(secret) = value.parse::<Secret>() {
        let (id, digest) = (secret.id(), secret.digest());
        return Some(TableKey {
            id,
            digest,
            scope: TableScope::Tenant,
            created_unix_s: 0,
            expires_unix_s: None,
            revoked_unix_s: None,
        });
    }
    // As `key new` prints it, with the comma that follows it in a list.
    let line = value.strip_suffix(',').unwrap_or(value);
    TableKey::deserialize(toml::de::ValueDeserializer::parse(line).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tenant::Scope;

    use super::super::Config;
    use super::*;

    fn of(name: &str, scope: TableScope, expires_unix_s: Option<u64>) -> EnvKey {
        EnvKey { name: name.to_owned(), scope, expires_unix_s }
    }

    /// A key, and how `keys` has it.
    fn made() -> (Secret, String) {
        let made = Secret::of([7; 40]);
        let hash = format!("id = \"{}\", digest = \"{}\"", made.id(), String::from(made.digest()));
        (made, hash)
    }

    #[test]
    fn a_variable_holds_a_key_or_its_hash() {
        let (made, hash) = made();
        let taken =
            |value: &str, of: EnvKey| keys("acme", &[of], &|name| (name == "KEY").then(|| value.to_owned()));
        let plain = TableScope::Tenant;
        for value in [format!("{}\n", made.reveal()), format!("{{ {hash} }}"), format!(" {{ {hash} }},")] {
            let keys = taken(&value, of("KEY", plain, None)).expect("a key");
            assert_eq!(keys[0].record("acme"), made.record(Scope::Tenant("acme".to_owned()), 0));
        }
        let admin = format!("{{ {hash}, scope = \"admin\", expires_unix_s = 9 }}");
        let keys = taken(&admin, of("KEY", TableScope::Admin, Some(5))).expect("a key");
        assert_eq!((keys[0].scope, keys[0].expires_unix_s), (TableScope::Admin, Some(5)));
        let keys = taken(&admin, of("KEY", TableScope::Admin, None)).expect("a key");
        assert_eq!(keys[0].expires_unix_s, Some(9), "what is in the variable bounds it, too");
        let told = taken(&admin, of("KEY", plain, None)).expect_err("the file knows of no admin").to_string();
        assert!(
            told.starts_with("tenants.acme.keys_env: the variable \"KEY\" holds a key for admins"),
            "{told}"
        );
    }

    #[test]
    fn what_is_not_there_is_named_and_nothing_of_a_value_is_told() {
        let (made, hash) = made();
        let whole = made.reveal();
        for (name, value, problem) in [
            ("OTHER", None, "\"OTHER\" is not set"),
            ("KEY", Some(""), "\"KEY\" is empty"),
            ("KEY", Some(" \n"), "\"KEY\" is empty"),
            ("A=B", Some(whole.as_str()), "\"A=B\" cannot be one"),
            ("", Some(whole.as_str()), "\"\" cannot be one"),
            ("KEY", Some(&whole[..whole.len() - 1]), "holds neither"),
            ("KEY", Some(&format!("{{ {hash}, secret = \"{whole}\" }}")), "holds neither"),
            ("KEY", Some("hunter2"), "holds neither"),
        ] {
            let told = keys("acme", &[of(name, TableScope::Tenant, None)], &|_| value.map(str::to_owned));
            let told = told.expect_err("must be refused").to_string();
            assert!(told.starts_with("tenants.acme.keys_env: ") && told.contains(problem), "{told}");
            assert!(!told.contains("hunter2") && !told.contains(&whole[..30]), "{told}");
        }
    }

    #[test]
    fn a_file_names_a_variable_that_must_be_there() {
        let file =
            "[models.a]\nfiles = \"x\"\n[tenants.acme]\nkeys_env = [{ name = \"TOKENROUTER_NO_SUCH\" }]";
        let told = Config::parse(file, Path::new("")).expect_err("it is not set").to_string();
        assert!(
            told.contains("tenants.acme.keys_env: the variable \"TOKENROUTER_NO_SUCH\" is not set"),
            "{told}"
        );
        let told = Config::parse(&file.replace("name", "variable"), Path::new("")).expect_err("unknown key");
        assert!(told.to_string().contains("unknown field `variable`"), "{told}");
    }
}
