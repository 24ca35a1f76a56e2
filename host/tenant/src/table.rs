//! The settings of a tenant: `[tenants.NAME]` in a file, or a stored record.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::key::{KeyId, KeyRecord, Scope, SecretDigest};
use crate::quota::Quotas;

/// `[tenants.NAME]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Table {
    /// Models that it may name, each by its name or by a beginning with `*`. Default: all.
    pub models: Vec<String>,
    /// Routes that it may name, as for `models`. Default: all.
    pub routes: Vec<String>,
    /// What it may use.
    pub quotas: Quotas,
    /// Whose requests wait for whose: a tenant of higher priority goes first. Default 0.
    pub priority: u8,
    /// Its part of a busy model, relative to other tenants of its priority. Default 1.
    pub share: NonZeroU32,
    /// Keys that are written beside the settings, as `tokenrouter key new` prints them. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<TableKey>,
    /// Keys that are in variables of the environment. Whoever reads the table puts them beside `keys`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys_env: Vec<EnvKey>,
}

/// One of `keys`: a [`KeyRecord`] whose tenant is the table that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableKey {
    /// Its name.
    pub id: KeyId,
    /// SHA-256 of the secret.
    pub digest: SecretDigest,
    /// What it opens. Default `tenant`.
    #[serde(default)]
    pub scope: TableScope,
    /// When it was made, seconds since 1970. Nothing depends on it.
    #[serde(default)]
    pub created_unix_s: u64,
    /// From when on it opens nothing, seconds since 1970. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_s: Option<u64>,
    /// When it was revoked, seconds since 1970; it opens nothing, whatever the time. Default: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_unix_s: Option<u64>,
}

/// One of `keys_env`: a key, or the hash of one, in a variable of the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvKey {
    /// The variable. It holds a key as its owner sends it, or what would stand in `keys`.
    pub name: String,
    /// What it opens. Default `tenant`.
    #[serde(default)]
    pub scope: TableScope,
    /// From when on it opens nothing, seconds since 1970. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_s: Option<u64>,
}

/// What a key of a table opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableScope {
    /// What this tenant may do.
    #[default]
    Tenant,
    /// That, and everything that is for those who run the server.
    Admin,
}

impl TableKey {
    /// The record of a key that stands in this tenant's table.
    #[must_use]
    pub fn record(&self, tenant: &str) -> KeyRecord {
        let scope = match self.scope {
            TableScope::Tenant => Scope::Tenant(tenant.to_owned()),
            TableScope::Admin => Scope::Admin,
        };
        let Self { id, digest, created_unix_s, expires_unix_s, revoked_unix_s, .. } = *self;
        KeyRecord { id, digest, scope, created_unix_s, expires_unix_s, revoked_unix_s }
    }
}

impl Default for Table {
    fn default() -> Self {
        let all = || vec!["*".to_owned()];
        Self {
            models: all(),
            routes: all(),
            quotas: Quotas::default(),
            priority: 0,
            share: NonZeroU32::MIN,
            keys: Vec::new(),
            keys_env: Vec::new(),
        }
    }
}

impl Table {
    /// What has this name among the models, if the tenant may see it. Hidden and absent are one answer.
    #[must_use]
    pub fn model<'a, T>(&self, all: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
        all.get(name).filter(|_| matches_any(&self.models, name))
    }

    /// What has this name among the routes, if the tenant may see it. Hidden and absent are one answer.
    ///
    /// ```
    /// # use std::collections::BTreeMap;
    /// # use tenant::Table;
    /// let table = Table { routes: vec!["pair/*".to_owned(), "chat".to_owned()], ..Table::default() };
    /// let routes = BTreeMap::from(["pair/entropy", "chat", "chatty"].map(|name| (name.to_owned(), name.len())));
    /// let found = ["pair/entropy", "chat", "chatty", "pair/none"].map(|name| table.route(&routes, name).copied());
    /// assert_eq!(found, [Some(12), Some(4), None, None]);
    /// ```
    #[must_use]
    pub fn route<'a, T>(&self, all: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
        all.get(name).filter(|_| matches_any(&self.routes, name))
    }

    /// The models that it may see, by name.
    pub fn models<'a, T>(
        &'a self,
        all: &'a BTreeMap<String, T>,
    ) -> impl Iterator<Item = (&'a String, &'a T)> {
        all.iter().filter(|(name, _)| matches_any(&self.models, name))
    }

    /// The routes that it may see, by name.
    pub fn routes<'a, T>(
        &'a self,
        all: &'a BTreeMap<String, T>,
    ) -> impl Iterator<Item = (&'a String, &'a T)> {
        all.iter().filter(|(name, _)| matches_any(&self.routes, name))
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Secret;

    #[test]
    fn a_table_of_a_file_is_a_tenant() {
        let text = r#"
            [tenants.acme]
            routes = ["pair/*"]
            models = []
            priority = 2
            share = 3
            quotas = { requests_per_minute = 60, tokens_per_minute = 100_000, journeys = 8 }
            [tenants.guest]
        "#;
        #[derive(Deserialize)]
        struct File {
            tenants: BTreeMap<String, Table>,
        }
        let File { tenants } = toml::from_str(text).unwrap();
        let acme = &tenants["acme"];
        assert_eq!((acme.priority, acme.share.get(), acme.quotas.journeys), (2, 3, NonZeroU32::new(8)));
        assert_eq!(tenants["guest"], Table::default());
        let all = BTreeMap::from(["pair/a", "other"].map(|name| (name.to_owned(), ())));
        assert_eq!(acme.routes(&all).map(|(name, ())| name.as_str()).collect::<Vec<_>>(), ["pair/a"]);
        assert_eq!(acme.models(&all).count(), 0);
        assert_eq!(tenants["guest"].routes(&all).count(), 2);
        assert!(toml::from_str::<Table>("quota = 1").is_err(), "a key that is not known is refused");
    }

    #[test]
    fn a_key_of_a_table_is_the_record_of_its_tenant() {
        let secret = Secret::of([3; 40]);
        let key = |more: &str| {
            let (id, digest) = (secret.id(), String::from(secret.digest()));
            let text =
                format!("keys = [{{ id = \"{id}\", digest = \"{digest}\", created_unix_s = 9 {more} }}]");
            toml::from_str::<Table>(&text).unwrap().keys.remove(0).record("acme")
        };
        let plain = secret.record(Scope::Tenant("acme".to_owned()), 9);
        assert_eq!(key(""), plain);
        assert_eq!(key(", scope = \"admin\"").scope, Scope::Admin);
        assert_eq!(key(", revoked_unix_s = 5"), KeyRecord { revoked_unix_s: Some(5), ..plain });
        assert!(toml::from_str::<Table>("keys = [{ id = \"ab\", digest = \"cd\" }]").is_err());
    }
}
