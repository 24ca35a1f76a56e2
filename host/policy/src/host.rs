//! The runtime that all policies of a server share.

use std::sync::Arc;

use crate::error::PolicyError;
use crate::limits::Limits;
use crate::revision::Revision;

/// Compiles components and bounds what they may use. One per process is enough; it is shared by `Arc`.
pub struct PolicyHost {}

impl PolicyHost {
    /// Sets up the runtime and its clock.
    ///
    /// # Errors
    /// [`PolicyError::Runtime`] when the limits cannot be had on this machine.
    pub fn new(_limits: Limits) -> Result<Self, PolicyError> {
        unimplemented!("the next commit")
    }

    /// Turns the bytes of a component into a revision that sessions can be started from: compiles it, checks its
    /// world and its descriptor, and rehearses a few steps under the limits. May take seconds for large components.
    ///
    /// # Errors
    /// Any [`PolicyError`] that says why this component cannot serve.
    pub fn load(&self, _component: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        unimplemented!("the next commit")
    }
}
