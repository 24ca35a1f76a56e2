//! Who goes without memory when there is not enough for all: the youngest.
//!
//! Journeys are ordered by age, the same at every model. When a step cannot get memory, the youngest journey whose turn
//! it is there is set aside: its KV may be taken, and it is fed again from its tokens when it is brought back, the oldest
//! first. So the oldest of all always goes on; a journey that is set aside at one model holds nothing that cannot be taken
//! at another (KV of journeys that are away can be), so no two can wait for each other's memory for ever.

use std::collections::BTreeSet;

use journey::JourneyId;

/// The journeys that are set aside at a model. Smaller ids are older.
#[derive(Debug, Default)]
pub struct Aside {
    journeys: BTreeSet<JourneyId>,
}

/// What makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    /// This one is set aside; its KV may be taken.
    SetAside(JourneyId),
    /// Nobody else holds anything: the journey needs more than there is.
    Refuse,
}

impl Aside {
    /// There was no memory for a journey. `present` are all whose turn it is here, those that are set aside or not.
    pub fn make_room(&mut self, short: JourneyId, present: impl Iterator<Item = JourneyId>) -> Relief {
        let others = present.filter(|journey| *journey != short && !self.journeys.contains(journey));
        match others.max() {
            None => Relief::Refuse,
            Some(other) => {
                let youngest = other.max(short);
                self.journeys.insert(youngest);
                Relief::SetAside(youngest)
            }
        }
    }

    /// Somebody has left, or nobody is active: the oldest is to be tried again.
    pub fn bring_back(&mut self) -> Option<JourneyId> {
        self.journeys.pop_first()
    }

    /// A journey is over; unknown ones are ignored.
    pub fn remove(&mut self, journey: JourneyId) {
        self.journeys.remove(&journey);
    }

    /// Whether a journey is set aside.
    #[must_use]
    pub fn contains(&self, journey: JourneyId) -> bool {
        self.journeys.contains(&journey)
    }

    /// How many are set aside.
    #[must_use]
    pub fn len(&self) -> usize {
        self.journeys.len()
    }

    /// Whether nobody is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.journeys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_youngest_goes_and_the_oldest_comes_back() {
        let mut aside = Aside::default();
        let present = || [1, 2, 3].map(JourneyId).into_iter();
        assert_eq!(aside.make_room(JourneyId(1), present()), Relief::SetAside(JourneyId(3)));
        assert_eq!(aside.make_room(JourneyId(2), present()), Relief::SetAside(JourneyId(2)));
        assert_eq!(aside.make_room(JourneyId(1), present()), Relief::Refuse);
        assert_eq!(
            [aside.bring_back(), aside.bring_back(), aside.bring_back()],
            [Some(JourneyId(2)), Some(JourneyId(3)), None]
        );
    }

    proptest! {
        /// A model with `room` places for tokens and journeys that each need a number of them at the end: all end, unless
        /// one alone needs more than there is.
        #[test]
        fn everybody_ends(room in 4usize..30, needs in proptest::collection::vec(1usize..34, 1..12)) {
            let mut aside = Aside::default();
            let mut held: BTreeMap<JourneyId, usize> = (0..needs.len() as u64).map(|id| (JourneyId(id), 0)).collect();
            let mut refused = Vec::new();
            let mut freed = false;
            // Every step feeds each active journey one token, as far as there is room.
            for _ in 0..20_000 {
                if held.is_empty() {
                    break;
                }
                if freed || aside.len() == held.len() {
                    aside.bring_back();
                    freed = false;
                }
                let active: Vec<JourneyId> =
                    held.keys().copied().filter(|id| !aside.journeys.contains(id)).collect();
                let wanted: usize = active.iter().map(|id| held[id] + 1).sum();
                if wanted > room {
                    let mut sum = 0;
                    let short = *active.iter().find(|id| { sum += held[id] + 1; sum > room }).expect("one is");
                    match aside.make_room(short, held.keys().copied()) {
                        // What it held is taken and has to be fed again.
                        Relief::SetAside(journey) => { held.insert(journey, 0); }
                        Relief::Refuse => { held.remove(&short); refused.push(short); freed = true; }
                    }
                    continue;
                }
                for id in active {
                    let tokens = held.get_mut(&id).expect("active");
                    *tokens += 1;
                    if *tokens == needs[id.0 as usize] {
                        held.remove(&id);
                        freed = true;
                    }
                }
            }
            prop_assert!(held.is_empty(), "still there: {held:?}");
            for id in refused {
                prop_assert!(needs[id.0 as usize] > room, "{id} was refused and would have fitted alone");
            }
        }
    }
}
