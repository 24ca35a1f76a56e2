//! Replaces the tokens that a trained head takes for divergent: R2R.
//!
//! Algorithm: after each token of the small model the head `r2r` says how likely it is that the answer takes another
//! course there than the large model's would. Above `threshold` the token is dropped and the large model decides the
//! next `tokens` positions; then the journey comes back. The small model goes on from the large one's token at once,
//! and the large model is fed only what it has not seen.
//!
//! Source: R2R (arXiv 2505.21600). Its head looks at the last hidden state, the embedding of the sampled token and the
//! 100 largest logits. It routes at the threshold too, this policy only above it.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | probability | 0.406 | most likely divergence at which the small model keeps its token |
//! | `tokens` | tokens | 1 | length of a visit to the large model |
//!
//! The default is the published threshold for AIME, rounded; published with the same heads are 0.42 for GPQA and 0.1387
//! for LiveCodeBench.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Parameter, Policy, Session, Signal, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the length of a visit and remembers nothing between steps.
pub struct R2r {
    tokens: u32,
}

impl Policy for R2r {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("r2r", "Replaces tokens that a trained head takes for divergent.")
            .need("small", "Makes all tokens but the divergent ones.", &["r2r"])
            .need("large", "Replaces divergent tokens.", &[])
            .parameter(Parameter::number(
                "threshold",
                0.406,
                0.0..=1.0,
                "Most likely divergence, a probability, at which the small model keeps its token.",
            ))
            .parameter(Parameter::count(
                "tokens",
                1,
                1..=4096,
                "Length of a visit to the large model, in tokens.",
            ))
            .guard(SMALL, Trigger::above(Signal::Score0, "threshold"))
    }

    fn start(start: Start) -> Self {
        Self { tokens: start.count("tokens") }
    }
}

impl Session for R2r {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the small model's tokens where the guard fires, and nowhere else. An end token is dropped
        // like any other: the visit always commits one, so the journey gets on.
        if step.role == SMALL { Decision::hand_off(LARGE, self.tokens) } else { Decision::Stay }
    }
}

export_policy!(R2r);

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
    fn a_divergent_token_is_replaced_by_one_of_the_large_model() {
        let mut journey = Journey::<R2r>::begin(&[]);
        let steps = [with_score(SMALL, 0.40), with_score(SMALL, 0.41)];
        assert_eq!(journey.decisions(&steps), [Decision::Stay, Decision::hand_off(LARGE, 1)]);
    }

    #[test]
    fn both_parameters_count() {
        let mut journey = Journey::<R2r>::begin(&[("threshold", 0.9), ("tokens", 4.0)]);
        assert_eq!(journey.route(&with_score(SMALL, 0.8)), Decision::Stay);
        assert_eq!(journey.route(&with_score(SMALL, 0.95)), Decision::hand_off(LARGE, 4));
    }

    #[test]
    fn the_large_model_is_never_left_by_a_score() {
        let mut journey = Journey::<R2r>::begin(&[]);
        assert_eq!(journey.route(&with_score(LARGE, 1.0)), Decision::Stay);
    }
}
