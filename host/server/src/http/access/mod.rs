//! Who asks: from a key to the tenant behind it, what it may see, and what it may use.
//!
//! The [`guard`] stands before every route and leaves a [`Caller`] with the request; handlers ask the caller, and never look at
//! keys. The rules are the `tenant` crate's. A server without `[tenants]` serves everybody, and everything is open.

mod bearer;
mod guard;
mod member;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::HeaderMap;
use scheduler::Tenant;
use sha2::{Digest as _, Sha256};
use tenant::{Denied, KeyId, Keyring, Scope, Table};

pub(super) use guard::guard;

use super::clock::Clock;
use super::error::ApiError;
use super::random::secret;
use crate::runtime::{Ask, Bill, Catalog, Route};
use member::Member;

/// Who may ask. Without keys to check everybody may: the configuration names no tenants.
pub(super) struct Access(Option<Keys>);

/// The keys of all tenants.
struct Keys {
    ring: Keyring,
    /// On whose behalf each key is used. An admin's key has a tenant too: whoever runs the server asks under bounds.
    owners: BTreeMap<KeyId, Arc<Member>>,
    clock: Clock,
}

/// Whoever sent a request, once it is known who that is.
#[derive(Clone)]
pub(super) struct Caller {
    /// As the scheduler and the prefix cache know its tenant.
    identity: Tenant,
    /// None where keys are not checked.
    member: Option<Arc<Member>>,
    rights: Rights,
}

/// What a caller may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// What is its tenant's.
    Own,
    /// That, and how the server does.
    Operator,
}

/// A request without a key that opens anything.
#[derive(Debug, thiserror::Error)]
enum NoCaller {
    #[error("no key was sent")]
    Missing,
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl Access {
    /// The access that these tables give; without any, everybody has it.
    pub(super) fn new(tables: &BTreeMap<String, Table>, clock: &Clock) -> Self {
        if tables.is_empty() {
            return Self(None);
        }
        let identities = identities(tables);
        let (mut records, mut owners) = (Vec::new(), BTreeMap::new());
        for ((name, table), identity) in tables.iter().zip(identities) {
            let member = Arc::new(Member::new(name, table, identity, clock.clone()));
            records.extend(table.keys.iter().map(|key| key.record(name)));
            owners.extend(table.keys.iter().map(|key| (key.id, Arc::clone(&member))));
        }
        Self(Some(Keys { ring: Keyring::of(records), owners, clock: clock.clone() }))
    }

    /// Who sent a request with these headers.
    fn caller(&self, headers: &HeaderMap) -> Result<Caller, NoCaller> {
        let Some(keys) = &self.0 else { return Ok(Caller::anybody(bearer::unchecked(headers))) };
        let key = bearer::bearer(headers).ok_or(NoCaller::Missing)?;
        let key = std::str::from_utf8(key).map_err(|_| Denied::Malformed)?;
        let tenant::Caller { key, scope } = keys.ring.authenticate(key, keys.clock.unix_s())?;
        let member = Arc::clone(keys.owners.get(&key).ok_or(Denied::Unknown(key))?);
        let rights = if scope == Scope::Admin { Rights::Operator } else { Rights::Own };
        Ok(Caller { identity: member.identity(), member: Some(member), rights })
    }
}

impl Caller {
    fn anybody(identity: Tenant) -> Self {
        Self { identity, member: None, rights: Rights::Operator }
    }

    /// Its tenant's name; none where keys are not checked.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.member.as_deref().map(Member::name)
    }

    /// Whether it may look at and change what is everybody's.
    pub(super) fn is_operator(&self) -> bool {
        self.rights == Rights::Operator
    }

    /// As the scheduler and the prefix cache know its tenant.
    pub(super) fn identity(&self) -> Tenant {
        self.identity
    }

    /// The model or route of this name. Hidden and absent are one answer.
    pub(super) fn find<'a>(&self, catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Route>> {
        match &self.member {
            None => catalog.routes.get(name),
            Some(member) => member.find(catalog, name),
        }
    }

    /// All that it may see, by name.
    pub(super) fn all<'a>(&self, catalog: &'a Catalog) -> impl Iterator<Item = &'a Arc<Route>> {
        catalog.routes.keys().filter_map(|name| self.find(catalog, name))
    }

    /// Holds the most that a request can use, until its bill is told what it did use.
    ///
    /// # Errors
    /// The quota that is in the way.
    pub(super) fn reserve(&self, ask: &Ask, route: &Route) -> Result<Bill, ApiError> {
        match &self.member {
            None => Ok(Bill::default()),
            Some(member) => member.reserve(ask.tokens_max(route.context)),
        }
    }

    /// Tells in the headers of an answer what is left of the quotas.
    pub(super) fn tell_quotas(&self, headers: &mut HeaderMap) {
        if let Some(member) = &self.member {
            member.tell_quotas(headers);
        }
    }
}

/// A number for each tenant: the beginning of the digest of its name with a secret of this process, so that nobody can know
/// another's, or choose a name that meets one.
fn identities(tables: &BTreeMap<String, Table>) -> Vec<Tenant> {
    loop {
        let salt: [u8; 32] = secret();
        let of =
            |name: &String| bearer::identity(&Sha256::new().chain_update(salt).chain_update(name).finalize());
        let identities: Vec<Tenant> = tables.keys().map(of).collect();
        // Of 64 bits two hardly ever meet; where they do, another secret parts them.
        if identities.iter().map(|identity| identity.0).collect::<BTreeSet<u64>>().len() == identities.len() {
            return identities;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::AUTHORIZATION;
    use tenant::TableKey;
    use tenant::key::Secret;

    use super::*;

    fn key(of: u8) -> TableKey {
        let secret = Secret::of([of; 40]);
        let (id, digest) = (secret.id(), String::from(secret.digest()));
        serde_json::from_value(serde_json::json!({"id": id, "digest": digest})).unwrap()
    }

    fn access() -> Access {
        let table =
            |keys: &[u8]| Table { keys: keys.iter().map(|of| key(*of)).collect(), ..Table::default() };
        let tables = [("acme", table(&[1, 2])), ("guest", table(&[3]))];
        Access::new(&tables.map(|(name, table)| (name.to_owned(), table)).into(), &Clock::default())
    }

    fn identity(access: &Access, of: u8) -> Tenant {
        let mut headers = HeaderMap::new();
        let value = format!("Bearer {}", Secret::of([of; 40]).reveal());
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        access.caller(&headers).map_err(|denied| denied.to_string()).unwrap().identity()
    }

    #[test]
    fn two_keys_of_a_tenant_share_and_two_tenants_or_processes_never_do() {
        let access_now = access();
        let [one, two, other] = [1, 2, 3].map(|of| identity(&access_now, of));
        assert_eq!(one, two);
        assert_ne!(one, other);
        assert_ne!(one, Tenant::default());
        assert_ne!(one, identity(&access(), 1), "another process has another secret");
    }
}
