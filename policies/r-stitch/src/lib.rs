//! Changes models by their own doubt, in both directions: R-Stitch.
//!
//! Algorithm: where the entropy of the small model's distribution, divided by the logarithm of the vocabulary's size,
//! is above `threshold`, its token is dropped and the large model goes on. It goes on until its own normalised entropy
//! is below `threshold`; that token stands, and the small model goes on.
//!
//! The way back is a condition of the visit, so the policy is entered once per visit and never about a token of the
//! large model. The token at which the condition holds is part of the visit: every visit commits at least one token.
//!
//! Source: R-Stitch (arXiv 2507.17307), without its variant that a network trained by reinforcement decides. The same
//! rule with entropy in nats, or with visits of a fixed length, is `entropy`.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | entropy / ln(vocabulary) | 0.03 | most doubt at which the small model goes on |
//!
//! For a vocabulary of 151,936 tokens 0.03 is 0.36 nats.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Condition, Decision, Descriptor, Handoff, Parameter, Policy, Session, Signal, Start, Step, Trigger,
    export_policy,
};

/// The policy; for a journey it holds the threshold and remembers nothing between steps.
pub struct RStitch {
    threshold: f32,
}

impl Policy for RStitch {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("r-stitch", "The large model goes on from where the small one is unsure until it is sure.")
            .parameter(Parameter::number(
                "threshold",
                0.03,
                0.0..=1.0,
                "Most normalised entropy at which the small model keeps the journey and the large one gives it back.",
            ))
            .guard(SMALL, Trigger::above(Signal::EntropyNorm, "threshold"))
    }

    fn start(start: Start) -> Self {
        Self { threshold: start.number("threshold") as f32 }
    }
}

impl Session for RStitch {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the small model's tokens where the guard fires, and nowhere else.
        if step.role != SMALL {
            return Decision::Stay;
        }
        let sure = Condition::below(Signal::EntropyNorm, self.threshold);
        Decision::HandOff(Handoff::new(LARGE, 0).until(sure))
    }
}

export_policy!(RStitch);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::Parcel;
    use policy_sdk::testing::{Journey, step};

    use super::*;

    /// The vocabulary of tests has 1,000 tokens, whose logarithm is 6.908.
    fn with_entropy(entropy: f32) -> Step {
        Step { entropy, ..step(3) }
    }

    #[test]
    fn doubt_is_relative_to_the_vocabulary() {
        let mut journey = Journey::<RStitch>::begin(&[("threshold", 0.1)]);
        assert_eq!(journey.route(&with_entropy(0.69)), Decision::Stay);
        assert!(matches!(journey.route(&with_entropy(0.70)), Decision::HandOff(_)));
    }

    #[test]
    fn the_visit_ends_with_the_first_token_that_the_large_model_is_sure_of() {
        let mut journey = Journey::<RStitch>::begin(&[("threshold", 0.25)]);
        let Decision::HandOff(handoff) = journey.route(&with_entropy(4.0)) else {
            panic!("an unsure token hands off");
        };
        assert_eq!((handoff.to, handoff.tokens), (LARGE, 0));
        assert_eq!(handoff.until, [Condition::below(Signal::EntropyNorm, 0.25)]);
        assert_eq!(journey.send(handoff), Parcel::DROP_HELD);
    }
}
