//! Replaces the tokens for which a trained head finds the small model not good enough: CITER.
//!
//! Algorithm: after each token of the small model the head `citer` says how much the small model is to be preferred
//! there. Below `tau` the token is dropped and the large model decides the next `tokens` positions; then the journey
//! comes back.
//!
//! Source: CITER (arXiv 2502.01976). Its head is a network on the last hidden state, trained by preferences, rewards of
//! whole answers included. The sense is the opposite of `r2r`: a *low* score hands off.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `tau` | score of the head, from 0 to 1 | 0.5 | least score at which the small model keeps its token |
//! | `tokens` | tokens | 1 | length of a visit to the large model |
//!
//! The paper varies `tau` over its range to trade cost for quality; the default is only the middle.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Parameter, Policy, Session, Signal, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the length of a visit and remembers nothing between steps.
pub struct Citer {
    tokens: u32,
}

impl Policy for Citer {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("citer", "Replaces tokens for which a trained head does not prefer the small model.")
            .need("small", "Makes the tokens that are easy enough.", &["citer"])
            .need("large", "Makes the others.", &[])
            .parameter(Parameter::number(
                "tau",
                0.5,
                0.0..=1.0,
                "Least score of the head at which the small model keeps its token.",
            ))
            .parameter(Parameter::count(
                "tokens",
                1,
                1..=4096,
                "Length of a visit to the large model, in tokens.",
            ))
            .guard(SMALL, Trigger::below(Signal::Score0, "tau"))
    }

    fn start(start: Start) -> Self {
        Self { tokens: start.count("tokens") }
    }
}

impl Session for Citer {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the small model's tokens where the guard fires, and nowhere else.
        if step.role == SMALL { Decision::hand_off(LARGE, self.tokens) } else { Decision::Stay }
    }
}

export_policy!(Citer);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    fn with_score(role: u32, score: f32) -> Step {
        Step { role, scores: vec![score], ..step(3) }
    }

    #[test]
    fn a_low_score_hands_off_and_a_high_one_stays() {
        let mut journey = Journey::<Citer>::begin(&[]);
        let steps = [with_score(SMALL, 0.51), with_score(SMALL, 0.5), with_score(SMALL, 0.49)];
        let expected = [Decision::Stay, Decision::Stay, Decision::hand_off(LARGE, 1)];
        assert_eq!(journey.decisions(&steps), expected);
    }

    #[test]
    fn both_parameters_count() {
        let mut journey = Journey::<Citer>::begin(&[("tau", 0.1), ("tokens", 3.0)]);
        assert_eq!(journey.route(&with_score(SMALL, 0.2)), Decision::Stay);
        assert_eq!(journey.route(&with_score(SMALL, 0.05)), Decision::hand_off(LARGE, 3));
    }

    #[test]
    fn the_large_model_is_never_left_by_a_score() {
        let mut journey = Journey::<Citer>::begin(&[]);
        assert_eq!(journey.route(&with_score(LARGE, 0.0)), Decision::Stay);
    }
}
