//! One loaded version of a policy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::descriptor::{Descriptor, Settings};
use crate::digest::Digest;
use crate::error::PolicyError;
use crate::session::{Session, Start};
use crate::slots::{Slot, Slots};
use crate::wasm::{Guest, Owner, Runtime, Template};

/// A component that was compiled, checked and rehearsed, named by its digest.
///
/// Sessions hold it, so that a journey keeps the revision it began with however often the policy is replaced.
pub struct Revision {
    digest: Digest,
    descriptor: Descriptor,
    template: Template,
    runtime: Arc<Runtime>,
    slots: Arc<Slots>,
}

impl Revision {
    pub(crate) fn new(
        digest: Digest,
        descriptor: Descriptor,
        template: Template,
        runtime: &Arc<Runtime>,
        slots: &Arc<Slots>,
    ) -> Self {
        Self { digest, descriptor, template, runtime: Arc::clone(runtime), slots: Arc::clone(slots) }
    }

    /// The name of this version.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What the policy is and needs.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Checks parameter values and fills in the defaults.
    ///
    /// # Errors
    /// [`PolicyError::UnknownSetting`] or [`PolicyError::Setting`], naming the key and what is allowed.
    pub fn settings(&self, given: &BTreeMap<String, f64>) -> Result<Settings, PolicyError> {
        self.descriptor.settings(self.digest, given)
    }

    /// Begins a journey's session in an instance of its own.
    ///
    /// # Errors
    /// [`PolicyError::SessionsExhausted`] when there is no room, a caller's error when `start` does not fit the
    /// descriptor, otherwise what the guest's constructor did wrong.
    pub fn session(self: &Arc<Self>, start: Start) -> Result<Session, PolicyError> {
        self.begin(start, Some(self.slots.take()?))
    }

    /// Begins a session; a rehearsal takes no place among the journeys.
    pub(crate) fn begin(self: &Arc<Self>, start: Start, slot: Option<Slot>) -> Result<Session, PolicyError> {
        self.check(&start)?;
        let owner = Owner { revision: self.digest, journey: Some(start.journey), seed: start.seed };
        let instance = self.runtime.instantiate(&self.template, owner)?;
        let guest = Guest::start(instance, start)?;
        Ok(Session::new(Arc::clone(self), guest, slot))
    }

    fn check(&self, start: &Start) -> Result<(), PolicyError> {
        let settings = start.settings.revision;
        if settings != self.digest {
            return Err(PolicyError::ForeignSettings { revision: self.digest, settings });
        }
        let models = start.models.len();
        if !self.descriptor.models.contains(&models) {
            return Err(PolicyError::Models {
                policy: self.descriptor.name.clone(),
                models,
                least: *self.descriptor.models.start(),
                most: *self.descriptor.models.end(),
            });
        }
        Ok(())
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({} {})", self.descriptor.name, self.digest)
    }
}
