//! Averages the distributions of all models where the first is unsure: GaC.
//!
//! Algorithm: where the probability of the first model's most probable token is below `threshold`, its token is
//! replaced by one drawn from the average of all models' distributions, each with the same weight. Where it is not, the
//! first model's token stands and the others are not asked. With `threshold` = 1 every token is averaged.
//!
//! All models of a route share one tokenizer, and this policy averages token by token: ensembles over *different*
//! vocabularies, for which GaC and UniTE were made, are not served yet. Models far worse than the first make the answer
//! worse, not better; the papers advise against pairs more than about 10 % apart.
//!
//! Source: GaC (arXiv 2406.12585), gated by the confidence of one model as it recommends; UniTE (arXiv 2410.03777) for
//! the advice.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | probability | 0.5 | least top probability at which the first model decides alone |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::alloc::vec::Vec;
use policy_sdk::{
    Decision, Descriptor, Mixture, Parameter, Policy, Role, Session, Signal, Space, Start, Step, Trigger,
    export_policy,
};

/// The policy; for a journey it holds the models' shares and remembers nothing between steps.
pub struct Ensemble {
    parts: Vec<(Role, f32)>,
}

impl Policy for Ensemble {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("ensemble", "Averages all models' distributions where the first model is unsure.")
            .models(2..=MODELS_MOST)
            .parameter(Parameter::number(
                "threshold",
                0.5,
                0.0..=1.0,
                "Least probability of its most probable token at which the first model decides alone.",
            ))
            .guard(FIRST, Trigger::below(Signal::Top1, "threshold"))
            .distributions()
    }

    fn start(start: Start) -> Self {
        let models = start.models;
        Self { parts: (0..models).map(|role| (role, 1.0 / models as f32)).collect() }
    }
}

impl Session for Ensemble {
    fn route(&mut self, _: &Step) -> Decision {
        // The journey never leaves the first model, and the host asks where the guard fires and nowhere else.
        Decision::Mix(Mixture::new(Space::Probs, &self.parts))
    }
}

export_policy!(Ensemble);

const FIRST: Role = 0;
const MODELS_MOST: u32 = 8;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, start, step};

    use super::*;

    #[test]
    fn a_sure_model_decides_alone() {
        let mut journey = Journey::<Ensemble>::begin(&[]);
        assert_eq!(journey.route(&Step { top1: 0.5, ..step(3) }), Decision::Stay);
    }

    #[test]
    fn an_unsure_one_is_averaged_with_the_other() {
        let mut journey = Journey::<Ensemble>::begin(&[]);
        let average = Mixture::new(Space::Probs, &[(0, 0.5), (1, 0.5)]);
        assert_eq!(journey.route(&Step { top1: 0.49, ..step(3) }), Decision::Mix(average));
    }

    #[test]
    fn every_model_of_the_route_has_the_same_weight() {
        let mut start = start::<Ensemble>(&[("threshold", 1.0)]);
        start.models = 4;
        let mut journey = Journey::<Ensemble>::of(start);
        let Decision::Mix(mixture) = journey.route(&step(0)) else { panic!("every token is averaged") };
        let weights: Vec<f32> = mixture.parts.iter().map(|part| part.weight).collect();
        assert_eq!(weights, [0.25; 4]);
    }
}
