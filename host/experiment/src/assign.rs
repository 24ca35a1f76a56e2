//! From a key to an arm.
//!
//! The key is hashed with HMAC-SHA256 (RFC 2104) under the experiment's seed, together with the experiment's name. Eight
//! bytes of the result are the key's *point* in [0, 10,000) basis points, and others say where it is counted, so that
//! these are independent of each other and between experiments.
//!
//! # The layout
//!
//! Every treatment has a lane as wide as its ceiling, one after the other in the order of the definition, and serves the
//! beginning of it; whatever is left is the control's:
//!
//! ```text
//! 0              ceiling 1                        ceiling 1 + 2                 10,000
//! | t1 ▸ (control) | t2 ▸▸▸▸▸▸▸ (control)          | control                       |
//! ```
//!
//! So an arm is a function of the definition alone. Growing a weight from 10 to 30 moves keys from the control to that
//! treatment, shrinking it again moves exactly those back, and no key ever goes from one treatment to another.
//!
//! Why ceilings: with three or more treatments no layout can do without. If growing one treatment never touches the
//! others, the region of each depends on its own weight alone. At weights x and 1 - x any two treatments must fill the
//! whole without overlap, so `R2(1 - x)` and `R3(1 - x)` are both the complement of `R1(x)`, hence `R2 = R3`, and these
//! two overlap when both have a weight.

use hmac::{Hmac, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::definition::{Sticky, WHOLE_BP};
use crate::lifecycle::{Experiment, State};

/// Gives keys their arms. Made once for each state of an experiment.
#[derive(Clone)]
pub struct Assigner {
    /// The hash with seed, experiment and kind of key already fed.
    keyed: Hmac<Sha256>,
    /// End of each treatment's part and the start of its lane, in basis points.
    lanes: Vec<(u16, u16)>,
    /// Part of the requests that each shadow sees, in basis points.
    shadows: Vec<u16>,
    serving: Serving,
    phase: u32,
}

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    ByPoint,
    Everybody(usize),
}

/// Who serves a request, and where it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Index of the arm that answers; 0 is the control.
    pub arm: usize,
    /// Where the answer is counted. None: it is not, as the request has no key or nobody is assigned now.
    pub unit: Option<Unit>,
    /// Indices of the shadow arms that see a copy.
    pub shadows: Vec<usize>,
}

/// Where the answers to a key are counted: a function of the key that tells nothing of its arm. It travels with the request,
/// and is kept with its id until feedback comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The phase in which the arm was assigned; see [`Experiment::phase`].
    pub phase: u32,
    /// The cluster of keys whose answers may depend on each other, below [`CLUSTERS`].
    pub cluster: u16,
    /// The cell in which the key is counted once for the sample ratio, below [`CELLS`].
    pub cell: u16,
}

impl Assigner {
    /// The assignment that this state of the experiment asks for.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let definition = &experiment.definition;
        let mut keyed = Hmac::<Sha256>::new_from_slice(definition.seed.as_bytes())
            .expect("HMAC takes keys of any length (RFC 2104, section 2)");
        keyed.update(DOMAIN);
        feed(&mut keyed, definition.name.as_bytes());
        feed(&mut keyed, kind(&definition.sticky).as_bytes());
        let ceilings = definition.ceilings_bp();
        let starts = ceilings.iter().skip(1).scan(0u16, |end, ceiling| {
            let start = *end;
            *end += ceiling;
            Some(start)
        });
        let treatments = definition.arms.iter().skip(1);
        let lanes = starts.zip(treatments).map(|(start, arm)| (start, start + arm.weight_bp)).collect();
        let shadows = definition.shadows.iter().map(|arm| arm.weight_bp).collect();
        let serving = match &experiment.state {
            State::Running => Serving::ByPoint,
            State::Promoted { arm, .. } => {
                Serving::Everybody(experiment.arm_index(arm).expect("only an arm can be promoted"))
            }
            State::Paused { .. } | State::RolledBack { .. } => Serving::Everybody(0),
        };
        Self { keyed, lanes, shadows, serving, phase: experiment.phase }
    }

    /// Who serves a request with this key, which is a list of parts, e.g. tenant and user. A request without a key is
    /// served by the control and not counted: nobody drew its arm.
    #[must_use]
    pub fn assign(&self, key: Option<&[&[u8]]>) -> Assignment {
        let everybody = match self.serving {
            Serving::Everybody(arm) => Some(arm),
            Serving::ByPoint => None,
        };
        let (Some(key), None) = (key, everybody) else {
            return Assignment { arm: everybody.unwrap_or(0), unit: None, shadows: Vec::new() };
        };
        let mut keyed = self.keyed.clone();
        key.iter().for_each(|part| feed(&mut keyed, part));
        let hash: [u8; 32] = keyed.finalize().into_bytes().into();
        let point = basis_points(word(&hash, 0));
        let copied = basis_points(word(&hash, 8));
        let within = |&(start, end): &(u16, u16)| (start..end).contains(&point);
        let unit = Unit {
            phase: self.phase,
            cluster: (word(&hash, 16) % u64::from(CLUSTERS)) as u16,
            cell: (word(&hash, 24) % u64::from(CELLS)) as u16,
        };
        let shadows = self.shadows.iter().enumerate().filter(|(_, part)| copied < **part);
        Assignment {
            arm: self.lanes.iter().position(within).map_or(0, |treatment| treatment + 1),
            unit: Some(unit),
            shadows: shadows.map(|(index, _)| index).collect(),
        }
    }
}

impl std::fmt::Debug for Assigner {
    /// Without the seed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lanes, shadows, serving, .. } = self;
        f.debug_struct("Assigner")
            .field("lanes", lanes)
            .field("shadows", shadows)
            .field("serving", serving)
            .finish_non_exhaustive()
    }
}

/// Length first, so that no two lists of parts are hashed alike.
fn feed(keyed: &mut Hmac<Sha256>, part: &[u8]) {
    keyed.update(&(part.len() as u64).to_be_bytes());
    keyed.update(part);
}

fn kind(sticky: &Sticky) -> String {
    match sticky {
        Sticky::Request => "request".to_owned(),
        Sticky::Tenant => "tenant".to_owned(),
        Sticky::User => "user".to_owned(),
        Sticky::Header(name) => format!("header {}", name.to_ascii_lowercase()),
        Sticky::Conversation => "conversation".to_owned(),
    }
}

fn word(hash: &[u8; 32], at: usize) -> u64 {
    u64::from_be_bytes(hash[at..at + 8].try_into().expect("8 bytes"))
}

/// A uniform word as a uniform number below 10,000; off by 10,000 / 2^64 at most.
fn basis_points(word: u64) -> u16 {
    ((u128::from(word) * u128::from(WHOLE_BP)) >> 64) as u16
}

const DOMAIN: &[u8] = b"tokenrouter experiment 1";
/// Clusters of keys.
pub const CLUSTERS: u16 = 128;
/// Cells in which keys are counted once.
pub const CELLS: u16 = 16_384;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::definition::tests::with_weights;
    use crate::definition::{Arm, Definition};
    use crate::lifecycle::Action;

    fn arms(definition: Definition, keys: u32) -> Vec<usize> {
        let assigner = Assigner::new(&Experiment::create(definition).unwrap().0);
        (0..keys).map(|key| assigner.assign(Some(&[&key.to_le_bytes()])).arm).collect()
    }

    /// Computed with Python's `hmac` and `hashlib` from the description above.
    #[test]
    fn assignments_are_those_of_an_independent_program() {
        let mut definition = with_weights(&[3000, 2000]);
        definition.shadows = vec![Arm::plain("shadow", 5000)];
        let assigner = Assigner::new(&Experiment::create(definition).unwrap().0);
        let got: Vec<_> = ["alice", "bob", "carol", "dave"]
            .map(|key| {
                let assignment = assigner.assign(Some(&[key.as_bytes()]));
                let unit = assignment.unit.unwrap();
                (assignment.arm, unit.cluster, unit.cell, assignment.shadows.len())
            })
            .into();
        assert_eq!(got, PYTHON);
    }

    proptest! {
        #[test]
        fn growing_one_treatment_moves_keys_from_the_control_only(
            low in proptest::collection::vec(0u16..=2500, 4), grows in 0usize..4, high in 0u16..=2500,
        ) {
            let mut after = low.clone();
            after[grows] = high.max(low[grows]);
            let (before, after) = (arms(with_weights(&low), 2000), arms(with_weights(&after), 2000));
            for (was, is) in before.iter().zip(&after) {
                prop_assert!(was == is || (*was == 0 && *is == grows + 1), "{was} -> {is}");
            }
        }

        #[test]
        fn growing_and_shrinking_again_gives_every_key_its_arm_back(low in 0u16..5000, high in 5000u16..=10_000) {
            let (experiment, _) = Experiment::create(with_weights(&[low])).unwrap();
            let set = |to| Action::SetWeights { weights_bp: BTreeMap::from([("t1".to_owned(), to)]) };
            let grown = experiment.apply(&set(high)).unwrap().0;
            let back = grown.apply(&set(low)).unwrap().0;
            prop_assert_eq!(arms(experiment.definition, 500), arms(back.definition, 500));
        }
    }

    #[test]
    fn every_arm_gets_its_weight() {
        let counts =
            arms(with_weights(&[1000, 3000]), 100_000).into_iter().fold([0u32; 3], |mut counts, arm| {
                counts[arm] += 1;
                counts
            });
        // Five standard deviations of a binomial of 100,000 are at most 790.
        for (count, expected) in counts.into_iter().zip([60_000u32, 10_000, 30_000]) {
            assert!(count.abs_diff(expected) < 790, "{counts:?}");
        }
    }

    #[test]
    fn experiments_with_one_seed_are_independent() {
        let named = |name: &str| arms(Definition { name: name.to_owned(), ..with_weights(&[5000]) }, 100_000);
        let (one, two) = (named("one"), named("two"));
        let both = one.iter().zip(&two).filter(|(a, b)| **a == 1 && **b == 1).count();
        assert!(both.abs_diff(25_000) < 700, "{both}");
    }

    #[test]
    fn parts_of_a_key_are_told_apart() {
        let (experiment, _) = Experiment::create(with_weights(&[5000])).unwrap();
        let unit = |parts: &[&[u8]]| Assigner::new(&experiment).assign(Some(parts)).unit;
        assert_ne!(unit(&[b"ab", b"c"]), unit(&[b"a", b"bc"]));
    }

    #[test]
    fn whoever_is_not_assigned_is_not_counted() {
        let (experiment, _) = Experiment::create(with_weights(&[10_000])).unwrap();
        let at = |experiment: &Experiment, key: Option<&[&[u8]]>| Assigner::new(experiment).assign(key);
        assert_eq!(at(&experiment, None), Assignment { arm: 0, unit: None, shadows: Vec::new() });
        assert_eq!(at(&experiment, Some(&[b"k"])).arm, 1);
        let (paused, _) = experiment.apply(&Action::Pause { reason: String::new() }).unwrap();
        assert_eq!(at(&paused, Some(&[b"k"])), Assignment { arm: 0, unit: None, shadows: Vec::new() });
        let promote = Action::Promote { arm: "t1".to_owned(), reason: String::new() };
        let (promoted, _) = paused.apply(&promote).unwrap();
        assert_eq!(at(&promoted, None), Assignment { arm: 1, unit: None, shadows: Vec::new() });
    }

    const PYTHON: [(usize, u16, u16, usize); 4] =
        [(1, 34, 9063, 1), (0, 76, 1808, 1), (0, 94, 1784, 0), (0, 34, 11_796, 0)];
}
