//! Who may ask: from a key to the tenant behind it, what it may see, and what it may use.
//!
//! The rules are the `tenant` crate's; here they are put in force, and replaced while requests run. A server without
//! `[tenants]` serves everybody, and everything is open.

mod clock;
mod member;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use scheduler::{Behalf, Tenant};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tenant::quota::Level;
use tenant::{Denied, KeyId, KeyRecord, Keyring, Refused, Scope, Table};

pub use clock::Clock;
pub use member::{Standing, Used};

use crate::config::OWN;
use crate::control::policies::OPEN;
use crate::http::secret;
use crate::runtime::{Ask, Bill, Catalog, Route};
use member::Member;

/// Who may ask now.
pub struct Access {
    /// None where everybody may: the configuration names no tenants. Read for every request, and never waited for.
    keys: ArcSwapOption<Keys>,
    /// What time it is for keys and quotas.
    clock: Clock,
    /// A secret of this process, so that nobody can know a tenant's number, or choose a name that meets one.
    salt: [u8; 32],
}

/// The keys of all tenants.
struct Keys {
    ring: Keyring,
    /// On whose behalf each key is used. An admin's key has a tenant too: whoever runs the server asks under bounds.
    owners: BTreeMap<KeyId, Arc<Member>>,
    members: BTreeMap<String, Arc<Member>>,
}

/// A key that was made while the server ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeKey {
    /// On whose behalf it is used.
    pub tenant: String,
    /// What is kept of it.
    pub record: KeyRecord,
}

/// Whoever sent a request, once it is known who that is.
#[derive(Clone)]
pub struct Caller {
    /// As the scheduler and the prefix cache know its tenant.
    identity: Tenant,
    /// None where keys are not checked.
    member: Option<Arc<Member>>,
    key: Option<KeyId>,
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
#[non_exhaustive]
pub enum NoCaller {
    /// None came.
    #[error("no key was sent")]
    Missing,
    /// One came.
    #[error(transparent)]
    Denied(#[from] Denied),
}

impl Access {
    /// Everybody may ask, for everything.
    #[must_use]
    pub fn open(clock: Clock) -> Self {
        Self { keys: ArcSwapOption::empty(), clock, salt: secret() }
    }

    /// The access that these tables give; without any, everybody has it.
    #[must_use]
    pub fn new(tables: &BTreeMap<String, Table>) -> Self {
        let access = Self::open(Clock::default());
        access.set(tables, &[]);
        access
    }

    /// Takes these tables, and keys that were made beside them, for those before. What a tenant has used still counts, and
    /// requests that run are not disturbed. A key that stands in both is the table's, unless it was revoked.
    pub fn set(&self, tables: &BTreeMap<String, Table>, made: &[MadeKey]) {
        if tables.is_empty() {
            return self.keys.store(None);
        }
        let before = self.keys.load_full();
        let before = before.as_deref().map(|keys| &keys.members);
        let mut taken: BTreeSet<u64> =
            before.into_iter().flat_map(BTreeMap::values).map(|member| member.identity().0).collect();
        let member = |(name, table): (&String, &Table)| {
            let member = match before.and_then(|members| members.get(name)) {
                Some(before) => before.with(table),
                None => Member::new(name, table, self.identity(name, &mut taken), self.clock.clone()),
            };
            (name.clone(), Arc::new(member))
        };
        let members: BTreeMap<String, Arc<Member>> = tables.iter().map(member).collect();
        let (mut ring, mut owners) = (Keyring::default(), BTreeMap::new());
        let written = tables.iter().flat_map(|(name, table)| {
            table.keys.iter().map(move |key| MadeKey { tenant: name.clone(), record: key.record(name) })
        });
        let revoked = |id| made.iter().any(|key| key.record.id == id && key.record.revoked_unix_s.is_some());
        let written = written.filter(|key| !revoked(key.record.id));
        for MadeKey { tenant, record } in made.iter().cloned().chain(written) {
            // Of a tenant that is no longer there.
            let Some(member) = members.get(&tenant) else { continue };
            owners.insert(record.id, Arc::clone(member));
            ring.put(record);
        }
        self.keys.store(Some(Arc::new(Keys { ring, owners, members })));
    }

    /// What time it is for keys and quotas.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether keys are checked.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.keys.load().is_some()
    }

    /// The record and the tenant of a key.
    #[must_use]
    pub fn key(&self, id: KeyId) -> Option<MadeKey> {
        let keys = self.keys.load();
        let keys = keys.as_deref()?;
        let (record, member) = (keys.ring.record(id)?.clone(), keys.owners.get(&id)?);
        Some(MadeKey { tenant: member.name().to_owned(), record })
    }

    /// All keys of a tenant; none if there is no such tenant.
    #[must_use]
    pub fn keys_of(&self, tenant: &str) -> Option<Vec<KeyRecord>> {
        let keys = self.keys.load();
        let keys = keys.as_deref().filter(|keys| keys.members.contains_key(tenant))?;
        let of_tenant = |record: &&KeyRecord| keys.owners.get(&record.id).is_some_and(|m| m.name() == tenant);
        Some(keys.ring.records().filter(of_tenant).cloned().collect())
    }

    /// Who sent this key, or none.
    ///
    /// # Errors
    /// [`NoCaller`], if it opens nothing. Whoever sent it is told the same in every case.
    pub fn caller(&self, key: Option<&[u8]>) -> Result<Caller, NoCaller> {
        let keys = self.keys.load();
        let Some(keys) = keys.as_deref() else { return Ok(Caller::anybody(unchecked(key))) };
        let key = std::str::from_utf8(key.ok_or(NoCaller::Missing)?).map_err(|_| Denied::Malformed)?;
        let tenant::Caller { key, scope } = keys.ring.authenticate(key, self.clock.unix_s())?;
        let member = Arc::clone(keys.owners.get(&key).ok_or(Denied::Unknown(key))?);
        let rights = if scope == Scope::Admin { Rights::Operator } else { Rights::Own };
        Ok(Caller { identity: member.identity(), member: Some(member), key: Some(key), rights })
    }

    /// A number that no other tenant of this process has.
    fn identity(&self, name: &str, taken: &mut BTreeSet<u64>) -> Tenant {
        let of = |try_: u64| {
            let digest = Sha256::new().chain_update(self.salt).chain_update(try_.to_le_bytes());
            identity(&digest.chain_update(name).finalize())
        };
        // Of 64 bits two hardly ever meet; where they do, the next one parts them.
        let free = (0..).map(of).find(|identity| taken.insert(identity.0));
        free.expect("there are more numbers than tenants")
    }
}

impl Caller {
    fn anybody(identity: Tenant) -> Self {
        Self { identity, member: None, key: None, rights: Rights::Operator }
    }

    /// Its tenant's name; none where keys are not checked.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.member.as_deref().map(Member::name)
    }

    /// Who it is for the audit log: its key's id, or `anybody` where keys are not checked.
    #[must_use]
    pub fn who(&self) -> String {
        self.key.map_or_else(|| "anybody".to_owned(), |key| key.to_string())
    }

    /// What it is called over restarts; none where keys are not checked and none was sent.
    #[must_use]
    pub fn lasting_name(&self) -> Option<Vec<u8>> {
        match self.tenant() {
            Some(name) => Some(name.as_bytes().to_vec()),
            None if self.identity == Tenant::default() => None,
            // Of the key alone where there are no tables.
            None => Some(self.identity.0.to_be_bytes().to_vec()),
        }
    }

    /// A number for its tenant that stays over restarts.
    #[must_use]
    pub fn lasting_number(&self) -> u64 {
        identity(&Sha256::digest(self.lasting_name().unwrap_or_default())).0
    }

    /// Whether it may look at and change what is everybody's.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.rights == Rights::Operator
    }

    /// As the scheduler and the prefix cache know its tenant.
    #[must_use]
    pub fn identity(&self) -> Tenant {
        self.identity
    }

    /// As the scheduler serves it.
    #[must_use]
    pub fn behalf(&self) -> Behalf {
        self.member.as_deref().map_or_else(|| self.identity.into(), Member::behalf)
    }

    /// Whose policies `own/NAME` are.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.tenant().unwrap_or(OPEN)
    }

    /// Another tenant as whoever runs the server acts for it; none if there is no such tenant for the caller.
    #[must_use]
    pub fn acting_for(&self, access: &Access, tenant: &str) -> Option<Self> {
        if tenant == self.owner() {
            return Some(self.clone());
        }
        let keys = access.keys.load();
        let members = keys.as_deref().filter(|_| self.is_operator()).map(|keys| &keys.members)?;
        let member = Arc::clone(members.get(tenant)?);
        Some(Self { identity: member.identity(), member: Some(member), ..self.clone() })
    }

    /// The model or route of this name. Hidden and absent are one answer.
    #[must_use]
    pub fn find<'a>(&self, catalog: &'a Catalog, name: &str) -> Option<&'a Arc<Route>> {
        if let Some(own) = name.strip_prefix(OWN) {
            let own = catalog.own(self.owner(), own)?;
            return own.served.as_ref().ok().filter(|_| self.sees(catalog, &own.uploaded.like));
        }
        match &self.member {
            None => catalog.routes.get(name),
            Some(member) => member.find(catalog, name),
        }
    }

    /// All that it may see, by name, its own policies last.
    pub fn all<'a>(&self, catalog: &'a Catalog) -> impl Iterator<Item = &'a Arc<Route>> {
        let own = catalog.own.get(self.owner()).into_iter().flat_map(BTreeMap::keys);
        let own = own.filter_map(|name| self.find(catalog, &format!("{OWN}{name}")));
        catalog.routes.keys().filter_map(|name| self.find(catalog, name)).chain(own)
    }

    /// Why what has this name cannot be served for now; none if nothing has it that the caller may see.
    #[must_use]
    pub fn broken(&self, catalog: &Catalog, name: &str) -> Option<String> {
        if let Some(own) = name.strip_prefix(OWN) {
            let own = catalog.own(self.owner(), own)?;
            let gone = || format!("there is no route {:?}", own.uploaded.like);
            return Some(own.served.as_ref().err().cloned().unwrap_or_else(gone));
        }
        let broken = catalog.broken.get(name).filter(|_| self.sees(catalog, name))?;
        Some(broken.why.clone())
    }

    /// Whether it may see a route, served or not.
    #[must_use]
    pub fn sees(&self, catalog: &Catalog, route: &str) -> bool {
        match &self.member {
            None => catalog.routes.contains_key(route) || catalog.broken.contains_key(route),
            Some(member) => member.sees(catalog, route),
        }
    }

    /// Holds the most that the answers of a request can use, which are given by prompt, until their bills are told what they
    /// did use: one for each, in the same order. A prompt is used once, however many answers continue it.
    ///
    /// # Errors
    /// The quota that is in the way.
    pub fn reserve(&self, prompts: &[Vec<Ask>], route: &Route) -> Result<Vec<Bill>, Refused> {
        let answers = prompts.iter().map(Vec::len).sum();
        let Some(member) = &self.member else { return Ok((0..answers).map(|_| Bill::default()).collect()) };
        let used = |(index, ask): (usize, &Ask)| {
            ask.tokens_max(route.context) - if index > 0 { ask.prompt.len() } else { 0 }
        };
        let tokens = prompts.iter().flat_map(|asks| asks.iter().enumerate().map(used)).sum();
        member.reserve(answers, tokens)
    }

    /// What its tenant has used and may use; none where nothing is counted, as keys are not checked.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        self.member.as_deref().map(Member::standing)
    }

    /// Where its quotas of requests and tokens a minute stand; nothing where there is no bound.
    #[must_use]
    pub fn levels(&self) -> [Option<Level>; 2] {
        self.member.as_deref().map_or([None, None], Member::levels)
    }
}

/// The tenant of a request on a server without `[tenants]`: any key, or none, is served, whoever sends one key is one tenant,
/// and all without a key are one.
fn unchecked(key: Option<&[u8]>) -> Tenant {
    // Of a digest, so that nobody can choose a key that meets another's.
    key.map_or_else(Tenant::default, |key| identity(&Sha256::digest(key)))
}

/// The beginning of a digest as the scheduler and the prefix cache name a tenant.
fn identity(digest: &[u8]) -> Tenant {
    Tenant(u64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes")))
}

#[cfg(test)]
mod tests;
