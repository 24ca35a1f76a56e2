//! Policies that tenants upload: from bytes to what serves, and back after a restart.
//!
//! ```text
//! turn ─▶ gate ─▶ compile (a process) ─▶ fits its route? ─▶ trial (a process) ─▶ alone: bytes, record + audit entry, catalog
//! ```
//!
//! All that takes long happens before the one step that others wait for. A crash before the record is written leaves the
//! state as it was, and bytes that nobody names, which the next start removes. Everything here waits for the disk.

mod error;
mod history;
mod turn;
mod upload;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use store::policy_history::{Manifest, PolicyHistory};
use store::{Digest, Kind, Store};

pub use error::PoliciesError;
pub use turn::{Turn, Uploading};
pub use upload::Upload;
pub use view::{Policy, RevisionView};

use super::{Control, ControlError};
use crate::config::Uploads;
use crate::runtime::{Catalog, Uploaded};

/// A tenant's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Whose it is.
    pub tenant: String,
    /// What it is called.
    pub name: String,
}

/// The tenant of everybody on a server that checks no keys.
pub const OPEN: &str = "default";

impl Name {
    /// Checks the name: 1 to 64 of `a-z 0-9 - _ .`, the first a letter or a digit.
    ///
    /// # Errors
    /// [`PoliciesError::Name`].
    pub fn new(tenant: &str, name: &str) -> Result<Self, PoliciesError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = (1..=NAME_MOST).contains(&name.len())
            && name.starts_with(plain)
            && name.chars().all(|c| plain(c) || "-_.".contains(c));
        if !good {
            return Err(PoliciesError::Name);
        }
        Ok(Self { tenant: tenant.to_owned(), name: name.to_owned() })
    }

    /// Of a record in the store. A tenant's name may have slashes, a policy's has none.
    fn of_key(key: &str) -> Option<Self> {
        let (tenant, name) = key.rsplit_once('/')?;
        Some(Self { tenant: tenant.to_owned(), name: name.to_owned() })
    }

    fn key(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }
}

impl Control {
    /// A tenant's policies by name, or everybody's.
    ///
    /// # Errors
    /// [`PoliciesError::Control`], if there is no store or it cannot be read.
    pub fn policies(&self, tenant: Option<&str>) -> Result<Vec<Policy>, PoliciesError> {
        let records = self.store()?.list::<PolicyHistory>(Kind::Policy)?;
        let catalog = self.runtime().catalog();
        let named = records.into_iter().filter_map(|(key, record)| Some((Name::of_key(&key)?, record.value)));
        let wanted = named.filter(|(name, _)| tenant.is_none_or(|tenant| tenant == name.tenant));
        Ok(wanted.map(|(name, history)| Policy::new(&name, &history, &catalog)).collect())
    }

    /// One policy.
    ///
    /// # Errors
    /// [`PoliciesError::Absent`], or as [`Self::policies`].
    pub fn policy(&self, name: &Name) -> Result<Policy, PoliciesError> {
        let history = self.history(name)?;
        Ok(Policy::new(name, &history, &self.runtime().catalog()))
    }

    /// Puts in force what was uploaded before this process began, and removes bytes that nobody names.
    pub(super) fn restore_policies(&self) -> Result<(), ControlError> {
        let Ok(store) = self.store() else { return Ok(()) };
        remove_unnamed(store)?;
        for (key, record) in store.list::<PolicyHistory>(Kind::Policy)? {
            let Some(name) = Name::of_key(&key) else {
                tracing::error!(key, "a policy of nobody is left where it is");
                continue;
            };
            self.publish(&name, Some(&record.value));
            let catalog = self.runtime().catalog();
            if let Some(why) = broken(&catalog, &name) {
                tracing::warn!(
                    tenant = name.tenant,
                    policy = name.name,
                    why,
                    "an uploaded policy does not serve"
                );
            }
        }
        Ok(())
    }

    /// What is kept of a policy.
    fn history(&self, name: &Name) -> Result<PolicyHistory, PoliciesError> {
        let record = self.store()?.get::<PolicyHistory>(Kind::Policy, &name.key())?;
        record.map(|record| record.value).ok_or_else(|| PoliciesError::Absent(name.name.clone()))
    }

    /// Puts a policy in force as it is kept, or takes it away. It cannot fail: what does not load or fit is broken, with the
    /// reason.
    fn publish(&self, name: &Name, history: Option<&PolicyHistory>) {
        let active = history.map(|history| {
            let serving = history.serving().and_then(|digest| history.revision(digest));
            let manifest = serving.map(|revision| revision.manifest.clone()).unwrap_or_default();
            let revision = match serving {
                Some(revision) => self.revision(revision.digest).map_err(|error| error.to_string()),
                None => Err("no revision is active".to_owned()),
            };
            uploaded(manifest, (serving.map(|revision| revision.digest), revision))
        });
        let published: Result<(), ControlError> = self.runtime().change(|draft| {
            draft.set_own(&name.tenant, &name.name, active);
            Ok(())
        });
        if let Err(error) = published {
            tracing::error!(%error, policy = name.name, "a policy is not in force");
        }
    }

    /// What tenants may upload.
    #[must_use]
    pub fn uploads(&self) -> Uploads {
        self.config().uploads.clone()
    }
}

fn uploaded(
    manifest: Manifest,
    (digest, revision): (Option<Digest>, Result<Arc<policy::Revision>, String>),
) -> Uploaded {
    Uploaded { like: manifest.route, settings: manifest.settings, digest, revision }
}

/// Why a policy is not served; none if it is.
fn broken(catalog: &Catalog, name: &Name) -> Option<String> {
    match catalog.own(&name.tenant, &name.name) {
        Some(own) => own.served.as_ref().err().cloned(),
        None => Some("it is not in force".to_owned()),
    }
}

/// Removes the bytes that neither a policy nor an experiment names. Only while no change is made.
fn remove_unnamed(store: &Store) -> Result<(), store::StoreError> {
    let mut named = store.revisions()?;
    named.extend(of_experiments(store)?);
    let removed = store.blobs().keep_only(&named)?;
    if removed > 0 {
        tracing::info!(removed, "components that nobody names are gone");
    }
    Ok(())
}

/// The revisions that experiments compare, whose policy may have gone on without them. Whatever an experiment's record looks
/// like: a key `revision` with a digest names one.
fn of_experiments(store: &Store) -> Result<BTreeSet<Digest>, store::StoreError> {
    let mut named = BTreeSet::new();
    for record in store.list::<Value>(Kind::Experiment)?.into_values() {
        collect_revisions(&record.value, &mut named);
    }
    Ok(named)
}

fn collect_revisions(value: &Value, named: &mut BTreeSet<Digest>) {
    match value {
        Value::Object(fields) => {
            let text = fields.get("revision").and_then(Value::as_str);
            named.extend(text.and_then(|text| text.parse::<Digest>().ok()));
            fields.values().for_each(|value| collect_revisions(value, named));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_revisions(value, named)),
        _ => {}
    }
}

const NAME_MOST: usize = 64;
