//! All keys: who a caller is, rotation, revocation.
//!
//! A change is a pair of steps: the functions here say what records become, the caller makes that durable, and then puts
//! them in. So a key never opens anything that a restart would forget, and no change needs a restart.

use std::collections::BTreeMap;

use crate::key::{KeyId, KeyRecord, Scope, Secret, SecretDigest};

/// The records of all keys.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    records: BTreeMap<KeyId, KeyRecord>,
}

/// Whoever sent a key that opens something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The key's name, for logs.
    pub key: KeyId,
    /// What it opens.
    pub scope: Scope,
}

/// Why a key opens nothing. For our logs: a client is told the same of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// It is no key.
    #[error("the text is no key")]
    Malformed,
    /// No key has this id.
    #[error("no key has the id {0}")]
    Unknown(KeyId),
    /// The id is right and the secret is not.
    #[error("the secret of key {0} is wrong")]
    Wrong(KeyId),
    /// It was good until a time that is over.
    #[error("key {0} expired")]
    Expired(KeyId),
    /// Someone took it back.
    #[error("key {0} was revoked")]
    Revoked(KeyId),
}

impl Keyring {
    /// The keys of these records.
    #[must_use]
    pub fn of(records: impl IntoIterator<Item = KeyRecord>) -> Self {
        Self { records: records.into_iter().map(|record| (record.id, record)).collect() }
    }

    /// Takes a record in, in place of an earlier one of the same key.
    pub fn put(&mut self, record: KeyRecord) {
        self.records.insert(record.id, record);
    }

    /// Who sent this text, at this time.
    ///
    /// The secret is hashed and compared whether or not there is such a key, so the time taken tells nothing of it.
    ///
    /// # Errors
    /// [`Denied`], if the key opens nothing.
    pub fn authenticate(&self, text: &str, now_unix_s: u64) -> Result<Caller, Denied> {
        let secret: Secret = text.parse().map_err(|_| Denied::Malformed)?;
        let id = secret.id();
        let record = self.records.get(&id);
        let kept = record.map_or_else(nobodys, |record| record.digest);
        let same = kept == secret.digest();
        let record = record.ok_or(Denied::Unknown(id))?;
        if !same {
            return Err(Denied::Wrong(id));
        }
        if record.revoked_unix_s.is_some() {
            return Err(Denied::Revoked(id));
        }
        if record.expires_unix_s.is_some_and(|expires| now_unix_s >= expires) {
            return Err(Denied::Expired(id));
        }
        Ok(Caller { key: id, scope: record.scope.clone() })
    }

    /// What becomes of a key and its successor: the old one works for `overlap_s` more seconds at most.
    ///
    /// # Errors
    /// [`Denied`], if there is no such key or it opens nothing any more.
    pub fn rotate(
        &self,
        id: KeyId,
        successor: &Secret,
        now_unix_s: u64,
        overlap_s: u64,
    ) -> Result<[KeyRecord; 2], Denied> {
        let old = self.record(id).ok_or(Denied::Unknown(id))?;
        if old.revoked_unix_s.is_some() {
            return Err(Denied::Revoked(id));
        }
        if old.expires_unix_s.is_some_and(|expires| now_unix_s >= expires) {
            return Err(Denied::Expired(id));
        }
        let ends = now_unix_s.saturating_add(overlap_s);
        let expires_unix_s = Some(old.expires_unix_s.map_or(ends, |expires| expires.min(ends)));
        let new = successor.record(old.scope.clone(), now_unix_s);
        Ok([KeyRecord { expires_unix_s, ..old.clone() }, new])
    }

    /// What becomes of a key that opens nothing from now on. The time of an earlier revocation stays.
    ///
    /// # Errors
    /// [`Denied::Unknown`].
    pub fn revoke(&self, id: KeyId, now_unix_s: u64) -> Result<KeyRecord, Denied> {
        let record = self.record(id).ok_or(Denied::Unknown(id))?;
        let revoked_unix_s = Some(record.revoked_unix_s.unwrap_or(now_unix_s));
        Ok(KeyRecord { revoked_unix_s, ..record.clone() })
    }

    /// The record of a key.
    #[must_use]
    pub fn record(&self, id: KeyId) -> Option<&KeyRecord> {
        self.records.get(&id)
    }

    /// All records, by id.
    pub fn records(&self) -> impl Iterator<Item = &KeyRecord> {
        self.records.values()
    }
}

/// What an unknown key is compared with.
fn nobodys() -> SecretDigest {
    Secret::of([0; 40]).digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(of: u8) -> Secret {
        Secret::of([of; 40])
    }

    fn tenant() -> Scope {
        Scope::Tenant("acme".to_owned())
    }

    fn ring() -> Keyring {
        Keyring::of([secret(1).record(tenant(), 100), secret(2).record(Scope::Admin, 100)])
    }

    #[test]
    fn a_key_opens_its_scope_and_nothing_else_opens_anything() {
        let ring = ring();
        let caller = Caller { key: secret(1).id(), scope: tenant() };
        assert_eq!(ring.authenticate(&secret(1).reveal(), 200), Ok(caller));
        let unknown = secret(3);
        assert_eq!(ring.authenticate(&unknown.reveal(), 200), Err(Denied::Unknown(unknown.id())));
        let mut mixed = [1; 40];
        mixed[39] = 2;
        let wrong = Secret::of(mixed);
        assert_eq!(ring.authenticate(&wrong.reveal(), 200), Err(Denied::Wrong(wrong.id())));
        assert_eq!(ring.authenticate("sk-nothing", 200), Err(Denied::Malformed));
    }

    #[test]
    fn both_keys_work_while_a_rotation_overlaps() {
        let mut ring = ring();
        let changed = ring.rotate(secret(1).id(), &secret(4), 1000, 60).unwrap();
        assert!(ring.authenticate(&secret(4).reveal(), 1000).is_err(), "not before it was made durable");
        changed.into_iter().for_each(|record| ring.put(record));
        let works = |of: u8, at: u64| ring.authenticate(&secret(of).reveal(), at).is_ok();
        assert_eq!(
            [works(1, 1059), works(1, 1060), works(4, 1000), works(4, 9999)],
            [true, false, true, true]
        );
        assert_eq!(ring.rotate(secret(1).id(), &secret(5), 2000, 60), Err(Denied::Expired(secret(1).id())));
    }

    #[test]
    fn rotation_never_makes_a_key_last_longer() {
        let mut ring = ring();
        ring.put(KeyRecord { expires_unix_s: Some(1010), ..ring.record(secret(1).id()).unwrap().clone() });
        let [old, _] = ring.rotate(secret(1).id(), &secret(4), 1000, 60).unwrap();
        assert_eq!(old.expires_unix_s, Some(1010));
    }

    #[test]
    fn a_revoked_key_opens_nothing_at_once_and_for_good() {
        let mut ring = ring();
        let id = secret(1).id();
        ring.put(ring.revoke(id, 500).unwrap());
        assert_eq!(ring.authenticate(&secret(1).reveal(), 500), Err(Denied::Revoked(id)));
        assert_eq!(ring.revoke(id, 900).unwrap().revoked_unix_s, Some(500));
        assert_eq!(ring.rotate(id, &secret(4), 600, 60), Err(Denied::Revoked(id)));
    }
}
