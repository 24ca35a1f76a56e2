//! The large model writes the opening of an answer, the small one the rest.
//!
//! An example to copy: a whole policy with one parameter.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{Decision, Descriptor, Parameter, Policy, Session, Start, Step, export_policy};

/// For each journey it knows one number: how long the opening is.
pub struct Opening {
    tokens: u32,
}

impl Policy for Opening {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("opening", "The large model writes the first tokens of an answer.")
            .parameter(Parameter::count("tokens", 8, 1..=4096, "Length of the opening, in tokens."))
    }

    fn start(start: Start) -> Self {
        Self { tokens: start.count("tokens") }
    }
}

impl Session for Opening {
    fn route(&mut self, step: &Step) -> Decision {
        // The small model's first token is dropped; the large one decides that position and the ones after it.
        if step.index == 0 { Decision::hand_off(1, self.tokens) } else { Decision::Stay }
    }
}

export_policy!(Opening);

#[cfg(test)]
mod tests {
    use super::*;
    use policy_sdk::testing::{Journey, step};

    #[test]
    fn only_the_first_token_hands_off() {
        let mut journey = Journey::<Opening>::begin(&[("tokens", 3.0)]);
        assert_eq!(journey.route(&step(0)), Decision::hand_off(1, 3));
        assert_eq!(journey.route(&step(3)), Decision::Stay);
    }
}
