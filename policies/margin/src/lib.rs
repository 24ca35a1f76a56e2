//! Hands off where two tokens compete: the margin rule.
//!
//! Algorithm: when the probability of the small model's most probable token, less that of the second, is below
//! `threshold`, its token is dropped and the large model decodes the next `tokens` tokens; then the journey comes back.
//!
//! Source: the smallest-margin criterion of active learning (Scheffer, Decomain, Wrobel: "Active hidden Markov models
//! for information extraction", IDA 2001), used per token as in confidence cascades such as BiLD (arXiv 2302.07863).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | probability | 0.8 | least margin at which the small model keeps the journey |
//! | `tokens` | tokens | 1 | length of a visit |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Parameter, Policy, Session, Signal, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Margin {
    tokens: u32,
}

impl Policy for Margin {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("margin", "Hands off tokens that are not far more probable than the runner-up.")
            .parameter(Parameter::number(
                "threshold",
                0.8,
                0.0..=1.0,
                "Least difference of the two highest probabilities at which the small model keeps the journey.",
            ))
            .parameter(Parameter::count("tokens", 1, 1..=4096, "Length of a visit to the large model, in tokens."))
            .guard(SMALL, Trigger::below(Signal::Margin, "threshold"))
    }

    fn start(start: Start) -> Self {
        Self { tokens: start.count("tokens") }
    }
}

impl Session for Margin {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the small model's tokens where the guard fires, and nowhere else.
        if step.role == SMALL { Decision::hand_off(LARGE, self.tokens) } else { Decision::Stay }
    }
}

export_policy!(Margin);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};
    use policy_sdk::{Handoff, Parcel};

    use super::*;

    fn with_margin(role: u32, margin: f32) -> Step {
        Step { role, margin, ..step(3) }
    }

    #[test]
    fn a_contested_token_is_dropped_and_replaced() {
        let mut journey = Journey::<Margin>::begin(&[]);
        assert_eq!(journey.route(&with_margin(SMALL, 0.81)), Decision::Stay);
        assert_eq!(journey.route(&with_margin(SMALL, 0.79)), Decision::hand_off(LARGE, 1));
        assert_eq!(journey.send(Handoff::new(LARGE, 1)), Parcel::DROP_HELD);
    }

    #[test]
    fn the_large_model_is_never_left_by_a_margin() {
        let mut journey = Journey::<Margin>::begin(&[]);
        assert_eq!(journey.route(&with_margin(LARGE, 0.0)), Decision::Stay);
    }

    #[test]
    fn both_parameters_count() {
        let mut journey = Journey::<Margin>::begin(&[("threshold", 0.3), ("tokens", 5.0)]);
        assert_eq!(journey.route(&with_margin(SMALL, 0.5)), Decision::Stay);
        assert_eq!(journey.route(&with_margin(SMALL, 0.2)), Decision::hand_off(LARGE, 5));
    }
}
