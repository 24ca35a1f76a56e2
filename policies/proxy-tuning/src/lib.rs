//! Steers a large model by what tuning did to a small one: proxy tuning.
//!
//! Algorithm: every token is drawn from softmax(base + `strength` (tuned - untuned)) of the logits of three models: a
//! large model as it was pretrained, a small model that was tuned, and the same small model before. The answer is close
//! to that of the large model tuned in the same way, which need not exist.
//!
//! Every position costs a step of all three models. The request's own rules (temperature, top-p, penalties) apply to
//! the mixture.
//!
//! Source: proxy tuning (arXiv 2401.08565), where `strength` is 1.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `strength` | factor | 1.0 | how much of the small models' difference is added |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Mixture, Parameter, Policy, Role, Session, Space, Start, Step, export_policy,
};

/// The policy; for a journey it holds the parameter and remembers nothing between steps.
pub struct ProxyTuning {
    strength: f32,
}

impl Policy for ProxyTuning {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new(
            "proxy-tuning",
            "Adds the difference that tuning made to a small model to a large one.",
        )
        .models(3..=3)
        .need("base", "The large model that is steered.", &[])
        .need("tuned", "The small model after tuning.", &[])
        .need("untuned", "The small model before tuning.", &[])
        .parameter(Parameter::number(
            "strength",
            1.0,
            0.0..=10.0,
            "Factor of the difference of the small models' logits.",
        ))
        .distributions()
    }

    fn start(start: Start) -> Self {
        Self { strength: start.number("strength") as f32 }
    }
}

impl Session for ProxyTuning {
    fn route(&mut self, _: &Step) -> Decision {
        // The journey never leaves the base model.
        let parts = [(BASE, 1.0), (TUNED, self.strength), (UNTUNED, -self.strength)];
        Decision::Mix(Mixture::new(Space::Logits, &parts))
    }
}

export_policy!(ProxyTuning);

const BASE: Role = 0;
const TUNED: Role = 1;
const UNTUNED: Role = 2;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    #[test]
    fn the_difference_of_the_small_models_is_added_at_every_position() {
        let mut journey = Journey::<ProxyTuning>::begin(&[]);
        let steered = Mixture::new(Space::Logits, &[(BASE, 1.0), (TUNED, 1.0), (UNTUNED, -1.0)]);
        let end = Step { at_eos: true, ..step(1) };
        let expected = [Decision::Mix(steered.clone()), Decision::Mix(steered)];
        assert_eq!(journey.decisions(&[step(0), end]), expected);
    }

    #[test]
    fn strength_scales_the_difference_alone() {
        let mut journey = Journey::<ProxyTuning>::begin(&[("strength", 0.5)]);
        let steered = Mixture::new(Space::Logits, &[(BASE, 1.0), (TUNED, 0.5), (UNTUNED, -0.5)]);
        assert_eq!(journey.route(&step(0)), Decision::Mix(steered));
    }
}
