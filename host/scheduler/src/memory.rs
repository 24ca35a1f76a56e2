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

    /// Who is to be tried again, if anybody: the oldest.
    ///
    /// `freed` says that somebody has ended since the last time; `active` how many have their turn here and are not set
    /// aside; `away` the oldest of those whose turn it is elsewhere and who will be back. Without an end, only the oldest
    /// of all goes on: others would take the memory of those who are about to return, and give it back for nothing.
    pub fn bring_back(&mut self, freed: bool, active: usize, away: Option<JourneyId>) -> Option<JourneyId> {
        let oldest = *self.journeys.first()?;
        let is_oldest_of_all = active == 0 && away.is_none_or(|away| oldest < away);
        (freed || is_oldest_of_all).then(|| self.journeys.pop_first()).flatten()
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
        assert_eq!(aside.bring_back(false, 1, None), None);
        assert_eq!(aside.bring_back(false, 0, Some(JourneyId(1))), None, "1 will be back");
        assert_eq!(aside.bring_back(false, 0, Some(JourneyId(9))), Some(JourneyId(2)));
        assert_eq!(aside.bring_back(true, 1, Some(JourneyId(1))), Some(JourneyId(3)));
        assert_eq!(aside.bring_back(true, 0, None), None);
    }

    /// One of two models between which journeys go to and fro, each with its own memory.
    #[derive(Default)]
    struct Model {
        aside: Aside,
        held: BTreeMap<JourneyId, usize>,
        freed: bool,
    }

    /// A journey: how many tokens it has, where its turn is.
    struct Traveller {
        length: usize,
        at: usize,
    }

    /// A step of a model for all who are active there; those who were refused.
    fn step(
        model: &mut Model,
        (here, room): (usize, usize),
        travellers: &mut BTreeMap<JourneyId, Traveller>,
    ) -> Option<JourneyId> {
        let present: Vec<JourneyId> =
            travellers.iter().filter(|(_, t)| t.at == here).map(|(id, _)| *id).collect();
        let is_aside = |aside: &Aside, id: &JourneyId| aside.contains(*id);
        let active = present.iter().filter(|id| !is_aside(&model.aside, id)).count();
        let away = model.held.keys().find(|id| travellers[id].at != here).copied();
        model.aside.bring_back(std::mem::take(&mut model.freed), active, away);
        let active: Vec<JourneyId> =
            present.iter().filter(|id| !is_aside(&model.aside, id)).copied().collect();
        let mut used: usize = 0;
        for &id in &active {
            used += travellers[&id].length + 1;
            if used > room {
                return match model.aside.make_room(id, present.iter().copied()) {
                    Relief::SetAside(journey) => {
                        model.held.remove(&journey);
                        None
                    }
                    Relief::Refuse => Some(id),
                };
            }
        }
        // What those who are away hold is taken as far as it is needed, from the last that left.
        let mut spare = room - used;
        model.held.retain(|id, tokens| {
            let stays = travellers[id].at != here && *tokens <= spare;
            spare -= if stays { *tokens } else { 0 };
            stays
        });
        for id in active {
            let traveller = travellers.get_mut(&id).expect("active");
            traveller.length += 1;
            model.held.insert(id, traveller.length);
            traveller.at = (id.0 as usize + traveller.length / 2) % 2;
        }
        None
    }

    proptest! {
        #[test]
        fn journeys_between_two_small_memories_all_end(
            rooms in [4usize..20, 4usize..20],
            needs in proptest::collection::vec(1usize..24, 1..10),
        ) {
            let mut models = [Model::default(), Model::default()];
            let travellers = (0..needs.len()).map(|id| (JourneyId(id as u64), Traveller { length: 0, at: id % 2 }));
            let mut travellers: BTreeMap<JourneyId, Traveller> = travellers.collect();
            for turn in 0..20_000 {
                if travellers.is_empty() {
                    break;
                }
                let here = turn % 2;
                let refused = step(&mut models[here], (here, rooms[here]), &mut travellers);
                if let Some(id) = refused {
                    prop_assert!(travellers[&id].length + 1 > rooms[here], "{id} would have fitted alone");
                }
                let over = |(id, t): (&JourneyId, &Traveller)| t.length >= needs[id.0 as usize] || Some(*id) == refused;
                let ended: Vec<JourneyId> = travellers.iter().filter(|(id, t)| over((*id, *t))).map(|(id, _)| *id).collect();
                for id in ended {
                    travellers.remove(&id);
                    for model in &mut models {
                        model.freed |= model.held.remove(&id).is_some();
                        model.aside.remove(id);
                    }
                }
            }
            let left: Vec<_> = travellers.iter().map(|(id, t)| (id.0, t.length, t.at)).collect();
            prop_assert!(left.is_empty(), "still there: {left:?}");
        }
    }
}
