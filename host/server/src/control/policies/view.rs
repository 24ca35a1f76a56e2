//! A policy as those who may see it are told.

use std::collections::BTreeMap;

use serde::Serialize;
use store::Digest;
use store::policy_history::{PolicyHistory, Uploaded};

use super::{Name, broken};
use crate::config::OWN;
use crate::runtime::Catalog;

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What its tenant asks for.
    pub model: String,
    /// The tenant.
    pub owner: String,
    /// The route that the active revision serves like.
    pub route: Option<String>,
    /// The settings of the active revision that are not at their defaults.
    pub settings: BTreeMap<String, f64>,
    /// The revision that serves.
    pub active: Option<Digest>,
    /// Why it does not serve, where it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// The newest first.
    pub revisions: Vec<RevisionView>,
}

/// A revision of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RevisionView {
    /// SHA-256 of the component.
    pub revision: Digest,
    /// When, milliseconds since 1970.
    pub uploaded_at: u64,
    /// The key's id.
    pub uploaded_by: String,
    /// Size of the component.
    pub bytes: u64,
    /// What it calls itself.
    pub policy: String,
    /// What it says of itself.
    pub doc: String,
    /// The route that it serves like when it is active.
    pub route: String,
    /// Its settings then.
    pub settings: BTreeMap<String, f64>,
    /// Whether it serves.
    pub active: bool,
}

impl Policy {
    pub(super) fn new(name: &Name, history: &PolicyHistory, catalog: &Catalog) -> Self {
        let active = history.serving();
        let serving = active.and_then(|digest| history.revision(digest)).map(|revision| &revision.manifest);
        Self {
            name: name.name.clone(),
            model: format!("{OWN}{}", name.name),
            owner: name.tenant.clone(),
            route: serving.map(|manifest| manifest.route.clone()),
            settings: serving.map(|manifest| manifest.settings.clone()).unwrap_or_default(),
            active,
            broken: broken(catalog, name),
            revisions: history.revisions.iter().rev().map(|uploaded| revision(uploaded, active)).collect(),
        }
    }
}

fn revision(uploaded: &Uploaded, active: Option<Digest>) -> RevisionView {
    let Uploaded { digest, at_unix_ms, by, bytes, policy, doc, manifest } = uploaded.clone();
    RevisionView {
        revision: digest,
        uploaded_at: at_unix_ms,
        uploaded_by: by,
        bytes,
        policy,
        doc,
        route: manifest.route,
        settings: manifest.settings,
        active: active == Some(digest),
    }
}
