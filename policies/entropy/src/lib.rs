//! Hands off where the model is unsure: the entropy rule.
//!
//! Algorithm: when the entropy of the small model's next-token distribution is above `threshold`, its token is dropped
//! and the large model decides that position. With `tokens` = n > 0 the large model decodes n tokens and the journey
//! comes back; n = 1 replaces only the uncertain token. With `tokens` = 0 the large model keeps the journey until it is
//! sure itself: its first token whose entropy is at or below `threshold` is committed and the journey comes back. (That
//! token must be kept. Were it dropped, a position where only the small model is unsure would go to and fro for ever.)
//!
//! Source: `tokens` = 0 is the entropy rule of R-Stitch (arXiv 2507.17307); `tokens` = 1 is the entropy baseline of
//! token-level routing (R2R, arXiv 2505.21600).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | nats | 0.4 | most entropy at which a model keeps the journey |
//! | `tokens` | tokens | 1 | length of a visit; 0 = until the large model is sure |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Handoff, Parameter, Parcel, Policy, Session, Signal, Start, Step, Trigger,
    export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Entropy {
    threshold: f64,
    tokens: u32,
}

impl Policy for Entropy {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("entropy", "Hands off tokens whose distribution has more entropy than a threshold.")
            .parameter(Parameter::number(
                "threshold",
                0.4,
                0.0..=20.0,
                "Most entropy, in nats, at which a model keeps the journey.",
            ))
            .parameter(Parameter::count(
                "tokens",
                1,
                0..=4096,
                "Length of a visit to the large model, in tokens; 0 = until it is sure itself.",
            ))
            .guard(SMALL, Trigger::above(Signal::Entropy, "threshold"))
            .sends()
    }

    fn start(start: Start) -> Self {
        Self { threshold: start.number("threshold"), tokens: start.count("tokens") }
    }
}

impl Session for Entropy {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the small model's tokens where the guard fires, and nowhere else.
        let sure = f64::from(step.entropy) <= self.threshold;
        match step.role {
            SMALL => Decision::hand_off(LARGE, self.tokens),
            LARGE if sure => Decision::hand_off(SMALL, 0),
            _ => Decision::Stay,
        }
    }

    fn send(&mut self, handoff: Handoff) -> Parcel {
        if handoff.to == SMALL { Parcel::KEEP_HELD } else { Parcel::DROP_HELD }
    }
}

export_policy!(Entropy);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    fn with_entropy(role: u32, entropy: f32) -> Step {
        Step { role, entropy, ..step(3) }
    }

    #[test]
    fn an_uncertain_token_is_dropped_and_replaced_by_one_of_the_large_model() {
        let mut journey = Journey::<Entropy>::begin(&[]);
        assert_eq!(journey.route(&with_entropy(SMALL, 0.39)), Decision::Stay);
        let Decision::HandOff(handoff) = journey.route(&with_entropy(SMALL, 0.41)) else {
            panic!("an entropy above the threshold hands off");
        };
        assert_eq!(handoff, Handoff::new(LARGE, 1));
        assert_eq!(journey.send(handoff), Parcel::DROP_HELD);
    }

    #[test]
    fn the_threshold_itself_is_still_sure() {
        let mut journey = Journey::<Entropy>::begin(&[("threshold", 0.5)]);
        assert_eq!(journey.route(&with_entropy(SMALL, 0.5)), Decision::Stay);
    }

    #[test]
    fn the_large_model_keeps_the_journey_until_it_is_sure_and_its_token_stays() {
        let mut journey = Journey::<Entropy>::begin(&[("tokens", 0.0)]);
        assert_eq!(journey.route(&with_entropy(SMALL, 2.0)), Decision::hand_off(LARGE, 0));
        assert_eq!(journey.route(&with_entropy(LARGE, 1.0)), Decision::Stay);
        let Decision::HandOff(back) = journey.route(&with_entropy(LARGE, 0.1)) else {
            panic!("a sure large model hands back");
        };
        assert_eq!(back, Handoff::new(SMALL, 0));
        assert_eq!(journey.send(back), Parcel::KEEP_HELD);
    }
}
