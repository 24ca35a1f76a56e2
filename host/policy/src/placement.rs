//! Which of a tenant's instances takes a new session.
//!
//! Pure: an instance is anything, and whether it can be used is asked of the caller. The least occupied one is taken,
//! but not shared before there are as many as shards, so that journeys of different decode loops seldom meet in one.

use std::sync::Arc;

use crate::limits::Limits;
use crate::slots::Slot;

/// The instances of one tenant and revision.
#[derive(Debug)]
pub(crate) struct Placement<T> {
    places: Vec<Place<T>>,
}

#[derive(Debug)]
struct Place<T> {
    instance: Arc<T>,
    /// In it now.
    sessions: u32,
    /// Begun in it since it was opened.
    served: u32,
    /// Held while it has no session, by an instance that waits for the next one.
    idle: Option<Slot>,
}

impl<T> Default for Placement<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T> Placement<T> {
    /// Puts a session into an instance; `None` if another one must be opened for it.
    pub(crate) fn join(&mut self, limits: &Limits, usable: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let open = |place: &&mut Place<T>| place.is_open(limits) && usable(&place.instance);
        let shards = self.places.iter_mut().filter(open).count();
        let least = self.places.iter_mut().filter(open).min_by_key(|place| place.sessions)?;
        let full = least.sessions >= limits.sessions_per_instance;
        if full || (least.sessions > 0 && shards < limits.shards as usize) {
            return None;
        }
        least.sessions += 1;
        least.served += 1;
        least.idle = None;
        Some(Arc::clone(&least.instance))
    }

    /// Adds an instance that was opened for a session.
    pub(crate) fn add(&mut self, instance: Arc<T>) {
        self.places.push(Place { instance, sessions: 1, served: 1, idle: None });
    }

    /// A session has left. The last one takes the instance with it unless others may come and `idle` has room.
    /// What must be dropped is answered, to be dropped outside of any lock.
    pub(crate) fn leave(
        &mut self,
        instance: &Arc<T>,
        limits: &Limits,
        usable: impl Fn(&T) -> bool,
        idle: impl FnOnce() -> Option<Slot>,
    ) -> Option<Arc<T>> {
        let index = self.places.iter().position(|place| Arc::ptr_eq(&place.instance, instance))?;
        let place = &mut self.places[index];
        place.sessions -= 1;
        if place.sessions > 0 {
            return None;
        }
        if place.is_open(limits) && usable(&place.instance) {
            place.idle = idle();
        }
        let ended = place.idle.is_none().then(|| self.places.swap_remove(index));
        ended.map(|place| place.instance)
    }

    /// Takes out an instance that waits for a session.
    pub(crate) fn evict(&mut self) -> Option<Arc<T>> {
        let index = self.places.iter().position(|place| place.idle.is_some())?;
        Some(self.places.swap_remove(index).instance)
    }

    /// Whether an instance has one session.
    pub(crate) fn is_last(&self, instance: &Arc<T>) -> bool {
        self.places.iter().any(|place| place.sessions == 1 && Arc::ptr_eq(&place.instance, instance))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

impl<T> Place<T> {
    fn is_open(&self, limits: &Limits) -> bool {
        self.served < limits.sessions_served_most
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::slots::Slots;

    const LIMITS: fn() -> Limits =
        || Limits { shards: 2, sessions_per_instance: 3, sessions_served_most: 5, ..Limits::default() };

    fn usable(instance: &AtomicBool) -> bool {
        instance.load(Ordering::Relaxed)
    }

    /// Puts a session somewhere as the host does: into an instance that has room, or into a new one.
    fn begin(placement: &mut Placement<AtomicBool>) -> Arc<AtomicBool> {
        placement.join(&LIMITS(), usable).unwrap_or_else(|| {
            let instance = Arc::new(AtomicBool::new(true));
            placement.add(Arc::clone(&instance));
            instance
        })
    }

    fn end(placement: &mut Placement<AtomicBool>, instance: &Arc<AtomicBool>, idle: &Arc<Slots>) {
        placement.leave(instance, &LIMITS(), usable, || idle.take().ok());
    }

    #[test]
    fn sessions_are_spread_before_they_share() {
        let mut placement = Placement::default();
        let sessions: Vec<_> = (0..4).map(|_| begin(&mut placement)).collect();
        assert_eq!(placement.len(), 2);
        assert!(Arc::ptr_eq(&sessions[0], &sessions[2]) && Arc::ptr_eq(&sessions[1], &sessions[3]));
    }

    #[test]
    fn a_full_instance_is_followed_by_another() {
        let mut placement = Placement::default();
        let sessions: Vec<_> = (0..7).map(|_| begin(&mut placement)).collect();
        assert_eq!(placement.len(), 3);
        assert!(!Arc::ptr_eq(&sessions[6], &sessions[0]) && !Arc::ptr_eq(&sessions[6], &sessions[1]));
    }

    #[test]
    fn an_instance_waits_for_the_next_session_where_there_is_room() {
        let (mut placement, idle) = (Placement::default(), Arc::new(Slots::new(1)));
        let (one, two) = (begin(&mut placement), begin(&mut placement));
        end(&mut placement, &one, &idle);
        end(&mut placement, &two, &idle);
        assert_eq!(placement.len(), 1, "one may wait");
        assert!(Arc::ptr_eq(&begin(&mut placement), &one));
        assert!(idle.take().is_ok(), "it waits no longer");
    }

    #[test]
    fn an_instance_that_served_enough_ends_with_its_last_session() {
        let (mut placement, idle) = (Placement::default(), Arc::new(Slots::new(1)));
        let first = begin(&mut placement);
        for _ in 0..4 {
            let session = begin(&mut placement);
            end(&mut placement, &session, &idle);
        }
        end(&mut placement, &first, &idle);
        let last = begin(&mut placement);
        for _ in 0..3 {
            let session = begin(&mut placement);
            end(&mut placement, &session, &idle);
        }
        end(&mut placement, &last, &idle);
        assert!(placement.len() <= 1);
        let served: u32 = placement.places.iter().map(|place| place.served).sum();
        assert!(served < 5, "no instance goes on after its fifth session");
    }

    #[test]
    fn what_is_lost_or_too_large_takes_nobody_and_ends_with_its_last_session() {
        let (mut placement, idle) = (Placement::default(), Arc::new(Slots::new(1)));
        let lost = begin(&mut placement);
        lost.store(false, Ordering::Relaxed);
        let next = begin(&mut placement);
        assert!(!Arc::ptr_eq(&lost, &next));
        end(&mut placement, &lost, &idle);
        assert_eq!(placement.len(), 1);
    }
}
