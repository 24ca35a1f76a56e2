//! Policies from registries, as revisions: pulled once, held against their digests, kept.
//!
//! What comes goes the way of an upload before it may serve: whether it is known ([`gate`]), compiled and tried in processes of
//! its own. It is kept by its digest under the data directory, so that a start needs no network. Whoever pulls waits for it, so
//! it is to be done before a change, whose binding then has the revision at once as long as somebody holds it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use policy::{PolicyError, PolicyHost, Revision};
use store::{Blobs, Digest, StoreError};

use super::gate::{self, GateError};
use crate::config::Config;
use crate::registry::{Client, Layer, Pinned, RegistryError};
use crate::trial::with_causes;

/// The policies of registries that are in use.
pub struct Pulled {
    host: Arc<PolicyHost>,
    /// By the digests of their manifests. Never held while somebody waits for a registry.
    loaded: Mutex<BTreeMap<Digest, Weak<Revision>>>,
}

/// A policy of a registry that cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PulledError {
    /// It does not come.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// It is not known here.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// It does not load.
    #[error("{}", with_causes(.0))]
    Policy(#[from] PolicyError),
    /// It does not stand what every policy must.
    #[error("the policy was tried and failed: {0}")]
    Trial(String),
    /// It cannot be kept.
    #[error("it cannot be kept: {0}")]
    Store(#[from] StoreError),
}

/// A component with what its manifest says of it.
struct Found {
    layer: Layer,
    component: Vec<u8>,
    /// None if it was kept here already.
    manifest: Option<Vec<u8>>,
}

impl Pulled {
    /// None yet; they run on this host.
    pub(super) fn new(host: Arc<PolicyHost>) -> Self {
        Self { host, loaded: Mutex::default() }
    }

    /// The revision that a reference means, under the settings of a configuration. It may have to be pulled, compiled and tried.
    ///
    /// # Errors
    /// [`PulledError`].
    pub fn revision(&self, pinned: &Pinned, config: &Config) -> Result<Arc<Revision>, PulledError> {
        if let Some(there) = self.loaded().get(&pinned.digest).and_then(Weak::upgrade) {
            return Ok(there);
        }
        let folder = config.server.data_dir.as_deref().map(|folder| folder.join(FOLDER));
        let kept = folder.as_deref().map(Blobs::in_folder).transpose()?;
        let found = match kept.as_ref().and_then(|kept| there(kept, pinned)) {
            Some(there) => there,
            None => pull(pinned, config)?,
        };
        let Found { layer, component, manifest } = found;
        gate::check(&config.uploads, layer.digest, &component, layer.signature.as_deref())?;
        let revision = self.load(&component, config)?;
        if let Some(manifest) = manifest {
            self.try_out(&component, &revision, config)?;
            if let Some(kept) = &kept {
                // The manifest last: with it there is all that it names.
                kept.put(&component)?;
                kept.put(&manifest)?;
            }
            tracing::info!(policy = %pinned, revision = %revision.digest(), "pulled");
        }
        let mut loaded = self.loaded();
        loaded.retain(|_, revision| revision.strong_count() > 0);
        // Whoever was first is kept, so that all who use it share health and instances.
        if let Some(first) = loaded.get(&pinned.digest).and_then(Weak::upgrade) {
            return Ok(first);
        }
        loaded.insert(pinned.digest, Arc::downgrade(&revision));
        Ok(revision)
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<Digest, Weak<Revision>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(unix)]
    fn load(&self, component: &[u8], config: &Config) -> Result<Arc<Revision>, PolicyError> {
        self.host.load_in_child(component, &config.uploads.child_limits())
    }

    /// Where there is no such process, the server compiles.
    #[cfg(not(unix))]
    fn load(&self, component: &[u8], _: &Config) -> Result<Arc<Revision>, PolicyError> {
        self.host.load(component)
    }

    /// As it is by itself: whether it fits a route is another question.
    #[cfg(unix)]
    fn try_out(&self, component: &[u8], revision: &Revision, config: &Config) -> Result<(), PulledError> {
        use crate::trial::child::{Task, tried};

        let task = Task::on(&self.host, *revision.descriptor().models.start(), BTreeMap::new());
        let tried = tried(component, &task, &config.uploads.child_limits());
        tried.map_err(|error| PulledError::Trial(with_causes(&error)))
    }

    #[cfg(not(unix))]
    fn try_out(&self, _: &[u8], _: &Revision, _: &Config) -> Result<(), PulledError> {
        Ok(())
    }
}

/// Brings it, and lets in nothing that is not what its digest says.
fn pull(pinned: &Pinned, config: &Config) -> Result<Found, PulledError> {
    let mut client = Client::new(&pinned.reference, &config.registry)?;
    let (manifest, _) = client.manifest()?;
    let layer = Layer::of(&manifest)
        .map_err(|problem| RegistryError::NoComponent { reference: pinned.to_string(), problem })?;
    let component = client.component(&layer, config.uploads.bytes_max.get() as u64)?;
    Ok(Found { layer, component, manifest: Some(manifest) })
}

/// What is kept of it, if that is whole.
fn there(kept: &Blobs, pinned: &Pinned) -> Option<Found> {
    let layer = Layer::of(&kept.get(pinned.digest).ok()?).ok()?;
    let component = kept.get(layer.digest).ok()?;
    Some(Found { layer, component, manifest: None })
}

/// In the data directory. What is in it is named by its digest and never changes; it may be emptied while no server runs.
const FOLDER: &str = "pulled";
