//! Counts live sessions, and instances that wait for sessions, against their numbers.
//!
//! The pool of the runtime has the same bounds; counting here gives a clear error before they are reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::PolicyError;

/// The places of a host.
#[derive(Debug)]
pub(crate) struct Slots {
    most: u32,
    taken: AtomicU32,
}

/// One place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Slots>);

impl Slots {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, taken: AtomicU32::new(0) }
    }

    pub(crate) fn are_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
    }

    pub(crate) fn take(self: &Arc<Self>) -> Result<Slot, PolicyError> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        // Relaxed: the count guards no other memory.
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Slot(Arc::clone(self))),
            Err(_) => Err(PolicyError::SessionsExhausted { sessions: self.most }),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_session_is_gone() {
        let slots = Arc::new(Slots::new(1));
        let first = slots.take().expect("one place");
        assert!(slots.are_taken());
        assert!(matches!(slots.take(), Err(PolicyError::SessionsExhausted { sessions: 1 })));
        drop(first);
        assert!(slots.take().is_ok());
    }
}
