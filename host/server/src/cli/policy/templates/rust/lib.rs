//! Hands off where the model doubts its token.
//!
//! Algorithm: when the probability of the small model's most probable token is below `least`, its token is dropped and
//! the large model decides `tokens` positions; then the journey comes back.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `least` | probability | 0.5 | least at which the small model keeps its token |
//! | `tokens` | tokens | 1 | length of a visit |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Parameter, Policy, Session, Signal, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Doubt {
    tokens: u32,
}

impl Policy for Doubt {
    type Session = Self;

    fn describe() -> Descriptor {
        let least = "Least probability at which the small model keeps its token.";
        Descriptor::new("doubt", "Hands off tokens of low probability.")
            .parameter(Parameter::number("least", 0.5, 0.0..=1.0, least))
            .parameter(Parameter::count("tokens", 1, 1..=4096, "Length of a visit, in tokens."))
            .guard(SMALL, Trigger::below(Signal::Top1, "least"))
    }

    fn start(start: Start) -> Self {
        Self { tokens: start.count("tokens") }
    }
}

impl Session for Doubt {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the small model's tokens where the guard fires, and nowhere else.
        if step.role == SMALL { Decision::hand_off(LARGE, self.tokens) } else { Decision::Stay }
    }
}

export_policy!(Doubt);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    #[test]
    fn a_doubtful_token_is_handed_off() {
        let mut journey = Journey::<Doubt>::begin(&[("least", 0.6)]);
        assert_eq!(journey.route(&Step { top1: 0.61, ..step(0) }), Decision::Stay);
        assert_eq!(journey.route(&Step { top1: 0.59, ..step(1) }), Decision::hand_off(LARGE, 1));
    }
}
