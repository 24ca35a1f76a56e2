//! The runtime that all policies of a server share.

#[cfg(unix)]
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(unix)]
use crate::cache::Cache;
#[cfg(unix)]
use crate::compile_child::{self, ChildLimits};
use crate::digest::Digest;
use crate::error::PolicyError;
use crate::limits::Limits;
use crate::rehearsal::rehearse;
use crate::revision::Revision;
use crate::slots::Slots;
use crate::wasm::{Compiled, IDLE_MOST, Owner, Runtime, check_kind};

/// Compiles components and bounds what they may use. One per process is enough; it is shared by `Arc`.
pub struct PolicyHost {
    runtime: Arc<Runtime>,
    #[cfg(unix)]
    cache: Option<Cache>,
    /// Places of sessions.
    slots: Arc<Slots>,
    /// Places of instances that wait for sessions.
    idle: Arc<Slots>,
    /// One component is loaded at a time: compiling uses every core, and rehearsals have a single place in the pool.
    loading: Mutex<()>,
}

/// How many components were compiled, and how many were found in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compilations {
    /// Compiled, here or in a process of its own.
    pub compiled: u64,
    /// Found compiled.
    pub recalled: u64,
}

impl PolicyHost {
    /// Sets up the runtime and its clock.
    ///
    /// # Errors
    /// [`PolicyError::Runtime`] when the limits cannot be had on this machine.
    pub fn new(limits: Limits) -> Result<Self, PolicyError> {
        Ok(Self {
            slots: Arc::new(Slots::new(limits.sessions)),
            idle: Arc::new(Slots::new(IDLE_MOST)),
            runtime: Arc::new(Runtime::new(limits)?),
            #[cfg(unix)]
            cache: None,
            loading: Mutex::new(()),
        })
    }

    /// The same, with a directory for compiled components. It is made if there is none; it must belong to the user of
    /// this process and be closed to all others.
    ///
    /// # Errors
    /// [`PolicyError::Cache`] when the directory is not safe; otherwise as [`PolicyHost::new`].
    #[cfg(unix)]
    pub fn with_cache(limits: Limits, directory: &Path) -> Result<Self, PolicyError> {
        let host = Self::new(limits)?;
        let cache = Cache::open(directory, host.runtime.identity())?;
        Ok(Self { cache: Some(cache), ..host })
    }

    /// Turns the bytes of a component into a revision that sessions can be started from: compiles it, checks its
    /// world and its descriptor, and rehearses a few steps under the limits. May take seconds for large components.
    ///
    /// # Errors
    /// Any [`PolicyError`] that says why this component cannot serve.
    pub fn load(&self, component: &[u8]) -> Result<Arc<Revision>, PolicyError> {
        self.load_by(component, || {
            let _turn = turn(&self.loading);
            self.runtime.compile(component)
        })
    }

    /// The same for bytes from someone who is not trusted with this process's time and memory: they are compiled in a
    /// child process. How many there are at a time is the caller's affair, so that nobody waits for another's bomb. The executable of this process must call
    /// [`compile_child::main`] when its first argument is [`compile_child::ARGUMENT`].
    ///
    /// # Errors
    /// [`PolicyError::CompileBounds`] when it takes too much; otherwise as [`PolicyHost::load`].
    #[cfg(unix)]
    pub fn load_in_child(
        &self,
        component: &[u8],
        limits: &ChildLimits,
    ) -> Result<Arc<Revision>, PolicyError> {
        self.load_by(component, || self.runtime.adopt(&compile_child::compile(component, limits)?))
    }

    /// The limits that policies run under.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.runtime.limits
    }

    /// Where compiled components are kept, if anywhere.
    #[cfg(unix)]
    #[must_use]
    pub fn cache_directory(&self) -> Option<&Path> {
        self.cache.as_ref().map(Cache::directory)
    }

    /// How components were had so far.
    #[must_use]
    pub fn compilations(&self) -> Compilations {
        self.runtime.compilations()
    }

    fn load_by(
        &self,
        component: &[u8],
        compile: impl FnOnce() -> Result<Compiled, PolicyError>,
    ) -> Result<Arc<Revision>, PolicyError> {
        let most = self.runtime.limits.component_bytes;
        if component.len() > most {
            return Err(PolicyError::TooLarge { bytes: component.len(), most });
        }
        check_kind(component)?;
        let digest = Digest::of(component);
        let (compiled, fresh) = match self.recall(digest) {
            Some(compiled) => (compiled, false),
            None => (compile()?, true),
        };
        let revision = self.admit(digest, &compiled)?;
        if fresh {
            // Only what serves is kept, so refused uploads cannot fill the disk.
            self.keep(digest, &compiled)?;
        }
        Ok(revision)
    }

    #[cfg(unix)]
    fn keep(&self, digest: Digest, compiled: &Compiled) -> Result<(), PolicyError> {
        if let Some(cache) = &self.cache {
            cache.write(digest, &compiled.artifact()?);
        }
        Ok(())
    }

    #[cfg(unix)]
    fn recall(&self, digest: Digest) -> Option<Compiled> {
        let artifact = self.cache.as_ref()?.read(digest)?;
        let recalled = self.runtime.recall(&artifact);
        recalled.inspect_err(|error| tracing::warn!(%digest, %error, "a compiled policy does not fit")).ok()
    }

    /// Elsewhere it cannot be told who may write to a directory.
    #[cfg(not(unix))]
    fn keep(&self, _: Digest, _: &Compiled) -> Result<(), PolicyError> {
        Ok(())
    }

    #[cfg(not(unix))]
    fn recall(&self, _: Digest) -> Option<Compiled> {
        None
    }

    /// Checks and rehearses.
    fn admit(&self, digest: Digest, compiled: &Compiled) -> Result<Arc<Revision>, PolicyError> {
        let _turn = turn(&self.loading);
        let template = self.runtime.link(compiled)?;
        let owner = Owner { revision: digest, journey: None, seed: 0 };
        let descriptor = self.runtime.try_out(&template, owner)?.describe()?;
        let places = (&self.slots, &self.idle);
        let revision = Arc::new(Revision::new(digest, descriptor, template, &self.runtime, places));
        rehearse(&revision)?;
        Ok(revision)
    }
}

/// Nothing is guarded but the turn itself, so a panic of an earlier one does not matter.
fn turn(one: &Mutex<()>) -> impl Drop + '_ {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}
