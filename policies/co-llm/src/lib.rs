//! Defers to a second model where the first has learned to: Co-LLM.
//!
//! Algorithm: after each token of the base model the head `co-llm`, one row beside its output matrix, gives the
//! probability d that the reference model should decide the position. Above `threshold` the base model's token does not
//! stand:
//!
//! - *defer* (`compose` = 0): it is dropped and the reference model decides that one position.
//! - *compose* (`compose` = 1): it is replaced by a token drawn from (1 - d) p_base + d p_reference, the distribution
//!   that training maximised. With `threshold` = 0 this is done at every position, as in the paper; with more, only
//!   where d is large enough to matter.
//!
//! Source: Co-LLM (arXiv 2403.03870), which takes the most probable token; here the request's own rules choose it.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | probability | 0.5 | largest d at which the base model's token stands |
//! | `compose` | 0 or 1 | 0 | whether both distributions are mixed instead of one being taken |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Mixture, Parameter, Policy, Session, Signal, Space, Start, Step, Trigger,
    export_policy,
};

/// The policy; for a journey it holds the mode and remembers nothing between steps.
pub struct CoLlm {
    compose: bool,
}

impl Policy for CoLlm {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("co-llm", "Defers tokens to a second model, or mixes both, as a trained row says.")
            .need("base", "Makes the answer and says where it should not.", &["co-llm"])
            .need("reference", "Decides where the base model defers.", &[])
            .parameter(Parameter::number(
                "threshold",
                0.5,
                0.0..=1.0,
                "Largest probability of deferring at which the base model's token stands.",
            ))
            .parameter(Parameter::count(
                "compose",
                0,
                0..=1,
                "1: mix both distributions; 0: take the reference's.",
            ))
            .guard(BASE, Trigger::above(Signal::Score0, "threshold"))
            .distributions()
    }

    fn start(start: Start) -> Self {
        Self { compose: start.count("compose") == 1 }
    }
}

impl Session for CoLlm {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the base model's tokens where the guard fires, and nowhere else.
        if step.role != BASE {
            return Decision::Stay;
        }
        match step.scores.first() {
            Some(&defer) if self.compose => {
                let parts = [(BASE, 1.0 - defer), (REFERENCE, defer)];
                Decision::Mix(Mixture::new(Space::Probs, &parts))
            }
            _ => Decision::hand_off(REFERENCE, 1),
        }
    }
}

export_policy!(CoLlm);

const BASE: u32 = 0;
const REFERENCE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    fn with_score(role: u32, score: f32) -> Step {
        Step { role, scores: vec![score], ..step(3) }
    }

    #[test]
    fn deferring_drops_the_token_and_takes_one_of_the_reference_model() {
        let mut journey = Journey::<CoLlm>::begin(&[]);
        let steps = [with_score(BASE, 0.5), with_score(BASE, 0.6)];
        assert_eq!(journey.decisions(&steps), [Decision::Stay, Decision::hand_off(REFERENCE, 1)]);
    }

    #[test]
    fn composing_weighs_both_models_by_the_probability_of_deferring() {
        let mut journey = Journey::<CoLlm>::begin(&[("compose", 1.0), ("threshold", 0.0)]);
        let Decision::Mix(mixture) = journey.route(&with_score(BASE, 0.25)) else {
            panic!("every position is composed");
        };
        assert_eq!(mixture, Mixture::new(Space::Probs, &[(BASE, 0.75), (REFERENCE, 0.25)]));
    }

    #[test]
    fn a_threshold_bounds_composing_too() {
        let mut journey = Journey::<CoLlm>::begin(&[("compose", 1.0)]);
        assert_eq!(journey.route(&with_score(BASE, 0.25)), Decision::Stay);
    }

    #[test]
    fn the_reference_model_decides_what_it_was_asked_for() {
        let mut journey = Journey::<CoLlm>::begin(&[]);
        assert_eq!(journey.route(&with_score(REFERENCE, 0.9)), Decision::Stay);
    }
}
