//! What was promised to journeys: bounds on their speed and on the gaps between their tokens.
//!
//! Journeys of several routes share the steps of a model, so one rule holds for all of them: the strictest of those that
//! were promised anything and are there. When they have gone, so has their bound.

use std::collections::BTreeMap;

use journey::JourneyId;

/// Bounds of a journey, or of a group. The default promises nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// On the 99th percentile over answers of the seconds per output token.
    pub tpot_s: Option<f64>,
    /// On the 99th percentile of the gap between two tokens of a journey, seconds.
    pub itl_s: Option<f64>,
}

impl Bounds {
    /// The stricter of both, each for itself.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let stricter = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
        Self { tpot_s: stricter(self.tpot_s, other.tpot_s), itl_s: stricter(self.itl_s, other.itl_s) }
    }
}

/// The bounds of the journeys that are there. O(log n) a change.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises {
    journeys: BTreeMap<JourneyId, Bounds>,
    tpot: Counted,
    itl: Counted,
}

impl Promises {
    /// A journey is promised something; what it was promised before is replaced.
    pub(super) fn keep(&mut self, journey: JourneyId, bounds: Bounds) {
        self.release(journey);
        if bounds == Bounds::default() {
            return;
        }
        self.tpot.add(bounds.tpot_s);
        self.itl.add(bounds.itl_s);
        self.journeys.insert(journey, bounds);
    }

    /// A journey has gone; unknown ones are ignored.
    pub(super) fn release(&mut self, journey: JourneyId) {
        if let Some(bounds) = self.journeys.remove(&journey) {
            self.tpot.remove(bounds.tpot_s);
            self.itl.remove(bounds.itl_s);
        }
    }

    /// The strictest of all.
    pub(super) fn strictest(&self) -> Bounds {
        Bounds { tpot_s: self.tpot.least(), itl_s: self.itl.least() }
    }
}

/// How many have each bound. The bits of numbers that are not negative are in the order of the numbers.
#[derive(Clone, Debug, Default)]
struct Counted(BTreeMap<u64, usize>);

impl Counted {
    fn add(&mut self, bound: Option<f64>) {
        if let Some(bound) = bound {
            *self.0.entry(bound.max(0.0).to_bits()).or_default() += 1;
        }
    }

    fn remove(&mut self, bound: Option<f64>) {
        let Some(bits) = bound.map(|bound| bound.max(0.0).to_bits()) else { return };
        if let Some(count) = self.0.get_mut(&bits) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&bits);
            }
        }
    }

    fn least(&self) -> Option<f64> {
        self.0.first_key_value().map(|(bits, _)| f64::from_bits(*bits))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Member;
    use crate::conductor::{Conductor, GroupPlan, MemberSettings, Settings, Source};
    use crate::law::StepLaw;

    /// A shared device on which waiting pays, with eight journeys.
    fn conductor(itl_s: Option<f64>) -> Conductor {
        let member = |fixed_s: f64| MemberSettings {
            device: 0,
            rows_max: 32,
            law: StepLaw::affine(fixed_s, fixed_s / 200.0),
        };
        let mut conductor = Conductor::new(Settings {
            bounds: Bounds { tpot_s: None, itl_s },
            beliefs: Source::Told(vec![vec![0.0, 0.1], vec![1.0, 0.0]]),
            overlap: Some(1.0),
            ..Settings::learning(vec![member(0.001), member(0.010)])
        });
        (0..8).for_each(|id| conductor.arrived(JourneyId(id), Member(0), 0.0, None));
        conductor
    }

    fn plan(conductor: &mut Conductor) -> GroupPlan {
        conductor.recompute();
        conductor.plan().expect("everything is known").clone()
    }

    #[test]
    fn a_promise_plans_like_a_bound_of_the_group_until_its_journey_has_gone() {
        let bound_s = 0.020;
        let (free, own) = (plan(&mut conductor(None)), plan(&mut conductor(Some(bound_s))));
        assert_ne!(free.bounds, own.bounds);
        let mut promised = conductor(None);
        assert_eq!(plan(&mut promised), free);
        promised.promise(JourneyId(3), Bounds { itl_s: Some(bound_s), tpot_s: None });
        assert!(promised.is_stale(), "another bound is another plan");
        assert_eq!(plan(&mut promised), own);
        assert_eq!(promised.gaps().bound_s(), Some(bound_s));
        promised.gone(JourneyId(3));
        assert_eq!((promised.bounds(), promised.gaps().bound_s()), (Bounds::default(), None));
        assert_eq!(plan(&mut promised).bounds, free.bounds);
    }

    fn bounds() -> impl Strategy<Value = Bounds> {
        let bound = || proptest::option::of(0.001f64..10.0);
        (bound(), bound()).prop_map(|(tpot_s, itl_s)| Bounds { tpot_s, itl_s })
    }

    proptest! {
        #[test]
        fn the_strictest_is_that_of_a_walk_over_all(
            acts in proptest::collection::vec((0u64..8, proptest::option::of(bounds())), 0..60),
        ) {
            let mut promises = Promises::default();
            let mut twin: BTreeMap<u64, Bounds> = BTreeMap::new();
            for (journey, act) in acts {
                match act {
                    Some(bounds) => {
                        promises.keep(JourneyId(journey), bounds);
                        twin.insert(journey, bounds);
                    }
                    None => {
                        promises.release(JourneyId(journey));
                        twin.remove(&journey);
                    }
                }
                let walked = twin.values().fold(Bounds::default(), |all, bounds| all.and(*bounds));
                prop_assert_eq!(promises.strictest(), walked);
            }
        }
    }
}
