//! An instance that sessions share, and a session's place in it.
//!
//! Journeys move between threads and so do their sessions, so an instance is behind a lock that is held for the time of
//! a call and no longer. Which session shares with which is not decided here: see [`instances`](crate::instances).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::Store;

use super::bindings::Router;
use super::instance::Instance;
use super::state::{Asker, State};
use super::view::Shown;
use crate::error::{Call, PolicyError};

/// An instance until a call into it fails: wasmtime never enters it again then, so it is dropped on the spot.
pub(crate) struct Shared {
    /// `None` once it is lost.
    instance: Mutex<Option<Instance>>,
    /// Written under the lock, read without.
    lost: AtomicBool,
    memory_bytes: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(instance: Instance) -> Self {
        let memory_bytes = AtomicUsize::new(instance.memory_bytes());
        Self { instance: Mutex::new(Some(instance)), lost: AtomicBool::new(false), memory_bytes }
    }

    /// Whether a call into it has failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Bytes of its linear memories after the last call.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    fn within<T>(
        &self,
        call: Call,
        body: impl FnOnce(&mut Instance) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        // A panic of the host is caught in the instance, which is lost by it: the lock itself tells nothing.
        let mut held = self.instance.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(instance) = held.as_mut() else { return Err(PolicyError::InstanceLost { call }) };
        let answer = body(instance);
        if answer.is_ok() {
            self.memory_bytes.store(instance.memory_bytes(), Ordering::Relaxed);
            return answer;
        }
        self.lost.store(true, Ordering::Relaxed);
        let dead = held.take();
        drop(held);
        // Takes microseconds, in which others can learn that it is lost.
        drop(dead);
        answer
    }
}

/// A session's place in an instance.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    asker: Asker,
}

impl Seat {
    pub(crate) fn new(shared: Arc<Shared>, asker: Asker) -> Self {
        Self { shared, asker }
    }

    /// What the next call will show.
    pub(super) fn shown(&mut self) -> &mut Shown {
        &mut self.asker.shown
    }

    /// From now on until [`Seat::replayed`], calls are ones that were made before.
    pub(crate) fn replaying(&mut self) {
        self.asker.replayed_fuel = Some(0);
    }

    /// The fuel that calls took since [`Seat::replaying`].
    pub(crate) fn replayed_fuel(&self) -> u64 {
        self.asker.replayed_fuel.unwrap_or(0)
    }

    /// The fuel that the last call took.
    pub(crate) fn fuel(&self) -> u64 {
        self.asker.fuel
    }

    /// Calls are new ones again.
    pub(crate) fn replayed(&mut self) {
        self.asker.replayed_fuel = None;
    }

    /// Calls into the guest with a fresh budget; waits for other sessions' calls. `position` is the one being decided.
    pub(super) fn enter<T>(
        &mut self,
        call: Call,
        position: u64,
        body: impl FnOnce(&Router, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, PolicyError> {
        let Self { shared, asker } = self;
        shared.within(call, |instance| {
            instance.exchange(asker);
            let answer = instance.enter(call, position, body);
            instance.exchange(asker);
            answer
        })
    }
}
