//! Decides by the first token of a step who writes the step: GlimpRouter.
//!
//! Algorithm: the answer is taken as steps that are separated by an empty line. The small model makes the first token
//! of each step. Where the entropy of its distribution is above `threshold` the step is taken for a hard one: the token
//! is dropped and the large model writes the step, up to the next empty line or `tokens` tokens. Otherwise the small
//! model writes it.
//!
//! The host looks for the beginnings of steps, so the policy is entered once per step. A step of the large model that
//! is cut at `tokens` is finished by the small one. An end token proposed at the beginning of a step is judged like any
//! other first token: the large model may see more to say.
//!
//! Source: GlimpRouter (arXiv 2601.05110).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | nats | 1.0 | most entropy of a step's first token at which the small model writes the step |
//! | `tokens` | tokens | 512 | longest part of a step that the large model writes |
//!
//! The default threshold is ours: it depends on the pair, and is to be chosen by the share of steps that it hands off.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Condition, Decision, Descriptor, Handoff, Parameter, Policy, Session, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Glimpse {
    threshold: f64,
    tokens: u32,
}

impl Policy for Glimpse {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("glimpse", "Steps whose first token has much entropy are written by the large model.")
            .parameter(Parameter::number(
                "threshold",
                1.0,
                0.0..=20.0,
                "Most entropy of a step's first token, in nats, at which the small model writes the step.",
            ))
            .parameter(Parameter::count(
                "tokens",
                512,
                1..=4096,
                "Longest part of a step of the large model, in tokens.",
            ))
            .guard(SMALL, Trigger::after_text(STEP_END))
    }

    fn start(start: Start) -> Self {
        Self { threshold: start.number("threshold"), tokens: start.count("tokens") }
    }
}

impl Session for Glimpse {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the first tokens of the small model's steps, and about no others.
        if step.role == SMALL && f64::from(step.entropy) > self.threshold {
            return Decision::HandOff(Handoff::new(LARGE, self.tokens).until(Condition::text(STEP_END)));
        }
        Decision::Stay
    }
}

export_policy!(Glimpse);

const SMALL: u32 = 0;
const LARGE: u32 = 1;
const STEP_END: &str = "\n\n";

#[cfg(test)]
mod tests {
    use policy_sdk::Parcel;
    use policy_sdk::testing::{Journey, step};

    use super::*;

    fn after(tail: &str, entropy: f32) -> Step {
        Step { tail: tail.to_owned(), entropy, ..step(9) }
    }

    fn whole_step() -> Decision {
        Decision::HandOff(Handoff::new(LARGE, 512).until(Condition::text("\n\n")))
    }

    #[test]
    fn an_unsure_beginning_gives_the_step_to_the_large_model() {
        let mut journey = Journey::<Glimpse>::begin(&[]);
        assert_eq!(journey.route(&after("First.\n\n", 0.9)), Decision::Stay);
        assert_eq!(journey.route(&after("First.\n\n", 1.1)), whole_step());
        assert_eq!(journey.send(Handoff::new(LARGE, 512)), Parcel::DROP_HELD);
    }

    #[test]
    fn the_answer_begins_with_a_step() {
        let mut journey = Journey::<Glimpse>::begin(&[]);
        assert_eq!(journey.route(&Step { entropy: 2.0, ..step(0) }), whole_step());
    }

    #[test]
    fn doubt_within_a_step_changes_nothing() {
        let mut journey = Journey::<Glimpse>::begin(&[]);
        assert_eq!(journey.route(&after("First.\n\nThen", 9.0)), Decision::Stay);
        assert_eq!(journey.route(&after("First.\n", 9.0)), Decision::Stay);
    }
}
