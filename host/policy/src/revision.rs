//! One loaded version of a policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::descriptor::{Descriptor, Settings};
use crate::digest::Digest;
use crate::error::PolicyError;
use crate::session::{Session, Start};

/// A component that was compiled, checked and rehearsed, named by its digest.
///
/// Sessions hold it, so that a journey keeps the revision it began with however often the policy is replaced.
pub struct Revision {
    digest: Digest,
    descriptor: Descriptor,
}

impl Revision {
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
    pub fn session(self: &Arc<Self>, _start: Start) -> Result<Session, PolicyError> {
        unimplemented!("the next commit")
    }
}
