//! The whole answer from one model.
//!
//! Algorithm: the journey goes to model `role` before its first token, drops what the entry model proposed, and stays
//! there. With `role` = 0 it never moves. Use: the single-model ends of every comparison, through the same path as any
//! other policy.
//!
//! Source: none needed.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `role` | index among the route's models | 0 | the model that answers |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{Decision, Descriptor, Parameter, Policy, Role, Session, Start, Step, export_policy};

/// The policy; for a journey it holds the parameter and remembers nothing between steps.
pub struct Pinned {
    role: Role,
}

impl Policy for Pinned {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("pinned", "Lets one model make the whole answer.").models(1..=MODELS_MOST).parameter(
            Parameter::count(
                "role",
                0,
                0..=MODELS_MOST - 1,
                "Index, among the models of the route, of the one that answers.",
            ),
        )
    }

    fn start(start: Start) -> Self {
        Self { role: start.count("role") }
    }
}

impl Session for Pinned {
    fn route(&mut self, step: &Step) -> Decision {
        if step.role == self.role { Decision::Stay } else { Decision::hand_off(self.role, 0) }
    }
}

export_policy!(Pinned);

const MODELS_MOST: u32 = 16;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};
    use policy_sdk::{Handoff, Parcel};

    use super::*;

    #[test]
    fn the_entry_model_answers_unless_told_otherwise() {
        let mut journey = Journey::<Pinned>::begin(&[]);
        assert_eq!(journey.decisions(&[step(0), step(1)]), [Decision::Stay, Decision::Stay]);
    }

    #[test]
    fn the_journey_moves_once_and_drops_the_first_proposal() {
        let mut journey = Journey::<Pinned>::begin(&[("role", 1.0)]);
        assert_eq!(journey.route(&step(0)), Decision::hand_off(1, 0));
        assert_eq!(journey.send(Handoff::new(1, 0)), Parcel::DROP_HELD);
        let there = |index| Step { role: 1, entropy: 5.0, ..step(index) };
        assert_eq!(journey.decisions(&[there(0), there(1)]), [Decision::Stay, Decision::Stay]);
    }
}
