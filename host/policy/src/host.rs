//! The runtime that all policies of a server share.

use std::sync::{Arc, Mutex, PoisonError};

use crate::digest::Digest;
use crate::error::PolicyError;
use crate::limits::Limits;
use crate::rehearsal::rehearse;
use crate::revision::Revision;
use crate::slots::Slots;
use crate::wasm::{IDLE_MOST, Owner, Runtime};

/// Compiles components and bounds what they may use. One per process is enough; it is shared by `Arc`.
pub struct PolicyHost {
    runtime: Arc<Runtime>,
    /// Places of sessions.
    slots: Arc<Slots>,
    /// Places of instances that wait for sessions.
    idle: Arc<Slots>,
    /// One component is loaded at a time: compiling uses every core, and rehearsals have a single place in the pool.
    loading: Mutex<()>,
}

impl PolicyHost {
    /// Sets up the runtime and its clock.
    ///
    /// # Errors
    /// [`PolicyError::Runtime`] when the limits cannot be had on this machine.
    pub fn new(limits: Limits) -> Result<Self, PolicyError> {
        let slots = Arc::new(Slots::new(limits.sessions));
        let idle = Arc::new(Slots::new(IDLE_MOST));
        Ok(Self { runtime: Arc::new(Runtime::new(limits)?), slots, idle, loading: Mutex::new(()) })
    }

    /// Turns the bytes of a component into a revision that sessions can be started from: compiles it, checks its
    /// world and its descriptor, and rehearses a few steps under the limits. May take seconds for large components.
    ///
    /// # Errors
    /// Any [`PolicyError`] that says why this component cannot serve.
    pub fn load(&self, component: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        let most = self.runtime.limits.component_bytes;
        if component.len() > most {
            return Err(PolicyError::TooLarge { bytes: component.len(), most });
        }
        // Nothing is guarded but the turn itself, so a panic of an earlier load does not matter.
        let _turn = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = Digest::of(component);
        let template = self.runtime.compile(component)?;
        let owner = Owner { revision: digest, journey: None, seed: 0 };
        let descriptor = self.runtime.try_out(&template, owner)?.describe()?;
        let revision = Revision::new(digest, descriptor, template, &self.runtime, (&self.slots, &self.idle));
        let revision = Arc::new(revision);
        rehearse(&revision)?;
        Ok(revision)
    }

    /// The limits that policies run under.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.runtime.limits
    }
}
