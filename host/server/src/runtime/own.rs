//! What tenants uploaded, among what is served.
//!
//! A tenant's own policy serves like the route that it names: that route's models, fallback and promises, the tenant's
//! policy and settings. When the route changes, it follows; where it does not fit any more, it is broken, and comes back
//! when it fits. The same holds for routes of the configuration that follow what a tenant uploaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use policy::Revision;
use store::Digest;

use super::binding::Policies;
use super::catalog::{Catalog, Model, ModelIx, Route};
use super::library::Library;
use super::live::Draft;
use super::share::{self, Calibration};
use crate::config::{self, OWN, PolicySource};

/// A tenant's own policy.
#[derive(Clone)]
pub struct Own {
    /// What was uploaded and is active.
    pub uploaded: Uploaded,
    /// The route `own/NAME`, or why it is not served.
    pub served: Result<Arc<Route>, String>,
}

/// The active revision of a policy.
#[derive(Clone)]
pub struct Uploaded {
    /// The route that it serves like.
    pub like: String,
    /// Settings that are not at their defaults.
    pub settings: BTreeMap<String, f64>,
    /// Which revision; none if none is active.
    pub digest: Option<Digest>,
    /// The revision, or why it does not load.
    pub revision: Result<Arc<Revision>, String>,
}

/// A route of the configuration that cannot be served for now.
#[derive(Clone)]
pub struct Broken {
    /// What the configuration says of it.
    pub(super) written: config::Route,
    /// Why it is not served.
    pub why: String,
}

impl Draft<'_> {
    /// Takes this for a tenant's policy of a name, or takes it away.
    pub fn set_own(&mut self, tenant: &str, name: &str, uploaded: Option<Uploaded>) {
        let of_tenant = self.catalog.own.entry(tenant.to_owned()).or_default();
        match uploaded {
            Some(uploaded) => {
                let served = of_tenant.remove(name).map_or_else(|| Err(NOT_YET.to_owned()), |own| own.served);
                of_tenant.insert(name.to_owned(), Own { uploaded, served });
            }
            None => {
                of_tenant.remove(name);
            }
        }
        self.catalog.own.retain(|_, of_tenant| !of_tenant.is_empty());
        self.follow();
    }

    /// A tenant's policy, as it stands.
    #[must_use]
    pub fn own(&self, tenant: &str, name: &str) -> Option<&Own> {
        self.catalog.own(tenant, name)
    }

    /// Loads what tenants uploaded again, to run under other limits.
    pub(super) fn reload_own(&mut self, library: &Arc<Library>) {
        match self.workshop.policies.host() {
            Ok(host) => library.set_host(host),
            Err(error) => return tracing::error!(%error, "uploaded policies keep their limits"),
        }
        self.workshop.policies.set_library(Arc::clone(library));
        for own in self.catalog.own.values_mut().flat_map(BTreeMap::values_mut) {
            if let Some(digest) = own.uploaded.digest {
                own.uploaded.revision = library.revision(digest).map_err(|error| error.to_string());
            }
        }
    }

    /// Binds anew what depends on something else that has changed.
    pub(super) fn follow(&mut self) {
        for (name, written) in following(&self.catalog) {
            self.follow_upload(&name, &written);
        }
        let mut own = std::mem::take(&mut self.catalog.own);
        for (tenant, of_tenant) in &mut own {
            for (name, own) in of_tenant {
                own.served =
                    bound(&self.workshop.policies, &self.catalog, (tenant.as_str(), name.as_str()), own);
            }
        }
        self.catalog.own = own;
        if self.catalog.host.is_none() && !self.catalog.own.is_empty() {
            self.catalog.host = self.workshop.policies.host().ok();
        }
    }

    /// Binds a route of the configuration to what a tenant uploaded.
    pub(super) fn follow_upload(&mut self, name: &str, written: &config::Route) {
        let revision = self.catalog.uploaded(&written.policy);
        let there = self.catalog.routes.get(name).filter(|there| there.written.as_ref() == Some(written));
        if let (Some(there), Ok(revision)) = (there, &revision)
            && is_of(there, revision)
            && self.catalog.has_models_of(there)
        {
            return;
        }
        let bound = revision.and_then(|revision| {
            let bound = self.workshop.policies.bind_to(name, written, (revision, &self.catalog));
            bound.map_err(|error| error.to_string())
        });
        match bound {
            Ok(route) => {
                self.catalog.broken.remove(name);
                self.catalog.routes.insert(name.to_owned(), Arc::new(route));
            }
            Err(why) => {
                tracing::warn!(route = name, why, "a route cannot be served for now");
                self.catalog.routes.remove(name);
                self.catalog.broken.insert(name.to_owned(), Broken { written: written.clone(), why });
            }
        }
    }
}

impl Catalog {
    /// A tenant's own policy, by its name without `own/`.
    #[must_use]
    pub fn own(&self, tenant: &str, name: &str) -> Option<&Own> {
        self.own.get(tenant)?.get(name)
    }

    /// The revision that a route of the configuration follows.
    pub(super) fn uploaded(&self, policy: &PolicySource) -> Result<Arc<Revision>, String> {
        let PolicySource::Uploaded { tenant, name } = policy else {
            return Err("its policy is not an uploaded one".to_owned());
        };
        let own = self.own(tenant, name);
        let own = own.ok_or_else(|| format!("the tenant {tenant:?} has no policy {name:?}"))?;
        own.uploaded.revision.clone()
    }

    /// Whether a route's models are still those that are there.
    pub(super) fn has_models_of(&self, route: &Route) -> bool {
        let is_there = |(ix, model): (&ModelIx, &Arc<Model>)| {
            self.models.get(ix).is_some_and(|there| Arc::ptr_eq(there, model))
        };
        route.models.iter().zip(&route.by_role).all(is_there)
    }

    /// What the configuration says of a route that is served, or would be.
    fn written(&self, route: &str) -> Option<&config::Route> {
        let served = self.routes.get(route).and_then(|route| route.written.as_ref());
        served.or_else(|| self.broken.get(route).map(|broken| &broken.written))
    }
}

/// The routes of the configuration that follow what tenants uploaded.
fn following(catalog: &Catalog) -> Vec<(String, config::Route)> {
    let served = catalog.routes.iter().filter_map(|(name, route)| Some((name, route.written.as_ref()?)));
    let broken = catalog.broken.iter().map(|(name, broken)| (name, &broken.written));
    let follows =
        |(_, written): &(&String, &config::Route)| matches!(written.policy, PolicySource::Uploaded { .. });
    served.chain(broken).filter(follows).map(|(name, written)| (name.clone(), written.clone())).collect()
}

/// The route of a tenant's own policy; the one that is there if it would be the same.
fn bound(
    policies: &Policies,
    catalog: &Catalog,
    (tenant, name): (&str, &str),
    own: &Own,
) -> Result<Arc<Route>, String> {
    let Uploaded { like, settings, revision, .. } = &own.uploaded;
    let revision = revision.clone()?;
    let base = catalog.written(like).ok_or_else(|| format!("there is no route {like:?} any more"))?;
    let policy = PolicySource::Uploaded { tenant: tenant.to_owned(), name: name.to_owned() };
    let written = config::Route { policy, settings: settings.clone(), ..base.clone() };
    if let Ok(there) = &own.served
        && there.written.as_ref() == Some(&written)
        && is_of(there, &revision)
        && catalog.has_models_of(there)
    {
        return Ok(Arc::clone(there));
    }
    let bound = policies.bind_to(&format!("{OWN}{name}"), &written, (revision, catalog));
    bound.map(Arc::new).map_err(|error| error.to_string())
}

/// Settings as the policy itself has them: with a threshold in the place of a share.
///
/// # Errors
/// What is wrong with one of them.
pub fn plain(settings: &BTreeMap<String, f64>, revision: &Revision) -> Result<BTreeMap<String, f64>, String> {
    let mut plain = settings.clone();
    share::resolve(&mut plain, &BTreeMap::new(), revision.descriptor(), &Calibration::default())?;
    Ok(plain)
}

fn is_of(route: &Route, revision: &Arc<Revision>) -> bool {
    route.policy_revision().is_some_and(|serving| Arc::ptr_eq(&serving, revision))
}

const NOT_YET: &str = "it was just uploaded";
