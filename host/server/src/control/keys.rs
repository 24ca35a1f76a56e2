//! Keys that are made, replaced and revoked while the server runs.

use store::{Change, Kind, StoreError, Why};
use tenant::key::Secret;
use tenant::{Denied, KeyId, KeyRecord, Keyring, Scope};

use super::{Control, ControlError};
use crate::access::MadeKey;
use crate::http::secret;
use crate::unix;

/// A key that cannot be made or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No tenant has this name, or no key of its own has this id.
    #[error("there is no {0}")]
    Absent(String),
    /// It opens nothing any more.
    #[error(transparent)]
    Denied(Denied),
    /// It cannot be kept.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl From<StoreError> for KeyError {
    fn from(error: StoreError) -> Self {
        Self::Control(error.into())
    }
}

/// What a new key is to open, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Whether it opens all that is for those who run the server.
    pub admin: bool,
    /// For how many seconds it opens anything; for ever where none are given.
    pub expires_in_s: Option<u64>,
}

impl Control {
    /// Makes a key for a tenant. Its secret is nowhere but in what this returns. To be called by [`Control::alone`].
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn make_key(&self, who: &str, tenant: &str, wanted: Wanted) -> Result<(Secret, KeyRecord), KeyError> {
        self.keys_of(tenant)?;
        let now = self.access.clock().unix_s();
        let key = Secret::of(secret());
        let scope = if wanted.admin { Scope::Admin } else { Scope::Tenant(tenant.to_owned()) };
        let expires_unix_s = wanted.expires_in_s.map(|seconds| now.saturating_add(seconds));
        let record = KeyRecord { expires_unix_s, ..key.record(scope, now) };
        self.keep_keys(who, tenant, "create", std::slice::from_ref(&record))?;
        Ok((key, record))
    }

    /// Makes a successor of a key, which itself opens nothing after `overlap_s` seconds. To be called by [`Control::alone`].
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn rotate_key(
        &self,
        who: &str,
        (tenant, id): (&str, KeyId),
        overlap_s: u64,
    ) -> Result<(Secret, KeyRecord), KeyError> {
        let ring = self.own_key(tenant, id)?;
        let key = Secret::of(secret());
        let rotated = ring.rotate(id, &key, self.access.clock().unix_s(), overlap_s);
        let [old, new] = rotated.map_err(KeyError::Denied)?;
        self.keep_keys(who, tenant, "rotate", &[old, new.clone()])?;
        Ok((key, new))
    }

    /// Ends a key at once and for good; one that is written in the configuration too. To be called by [`Control::alone`].
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn revoke_key(&self, who: &str, tenant: &str, id: KeyId) -> Result<KeyRecord, KeyError> {
        let ring = self.own_key(tenant, id)?;
        let revoked = ring.revoke(id, self.access.clock().unix_s()).map_err(KeyError::Denied)?;
        self.keep_keys(who, tenant, "revoke", std::slice::from_ref(&revoked))?;
        Ok(revoked)
    }

    /// All keys of a tenant.
    ///
    /// # Errors
    /// [`KeyError::Absent`].
    pub fn keys_of(&self, tenant: &str) -> Result<Vec<KeyRecord>, KeyError> {
        self.access.keys_of(tenant).ok_or_else(|| KeyError::Absent(format!("tenant {tenant:?}")))
    }

    /// Keys that were made beside the configuration.
    pub(super) fn made_keys(&self) -> Result<Vec<MadeKey>, ControlError> {
        let Ok(store) = self.store() else { return Ok(Vec::new()) };
        Ok(store.list::<MadeKey>(Kind::Key)?.into_values().map(|record| record.value).collect())
    }

    /// The key of a tenant.
    fn own_key(&self, tenant: &str, id: KeyId) -> Result<Keyring, KeyError> {
        let record = self.keys_of(tenant)?.into_iter().find(|record| record.id == id);
        let record = record.ok_or_else(|| KeyError::Absent(format!("key {id} of tenant {tenant:?}")))?;
        Ok(Keyring::of([record]))
    }

    /// Makes records durable, and only then puts them in force.
    fn keep_keys(&self, who: &str, tenant: &str, action: &str, keys: &[KeyRecord]) -> Result<(), KeyError> {
        let put = |change: &mut Change<'_>, record: &KeyRecord| {
            let detail = format!("of tenant {tenant:?}");
            let key = MadeKey { tenant: tenant.to_owned(), record: record.clone() };
            change.put(Kind::Key, &record.id.to_string(), &key, Why { action, detail: &detail }).map(drop)
        };
        let store = self.store()?;
        store.change(who, unix::now_ms(), |change| keys.iter().try_for_each(|key| put(change, key)))?;
        self.access.set(&self.config().tenants, &self.made_keys()?);
        Ok(())
    }
}
