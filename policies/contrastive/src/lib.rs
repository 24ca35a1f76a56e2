//! Prefers what an expert finds likelier than an amateur does: contrastive decoding.
//!
//! Algorithm: among the tokens whose probability is at least `alpha` times that of the expert's most probable one, the
//! token is drawn from softmax((1 + `beta`) log p_expert - `beta` log p_amateur). What both models like for shallow
//! reasons loses weight; the mask keeps tokens out that only look good because the amateur finds them absurd.
//!
//! Every position costs a step of both models. The request's own rules (temperature, top-p, penalties) apply to the
//! mixture.
//!
//! Source: contrastive decoding for reasoning (arXiv 2309.09117), after Li et al. (arXiv 2210.15097). The paper adds up
//! logits; log-probabilities differ from them by a constant per model, which a softmax does not see.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `alpha` | share of the largest probability | 0.1 | least share at which a token is plausible |
//! | `beta` | factor | 0.5 | weight of the amateur's opinion |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Mixture, Parameter, Policy, Role, Session, Space, Start, Step, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Contrastive {
    alpha: f32,
    beta: f32,
}

impl Policy for Contrastive {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("contrastive", "Draws tokens that an expert finds likelier than an amateur does.")
            .need("expert", "The model that answers.", &[])
            .need("amateur", "A much smaller model, whose opinion is taken off.", &[])
            .parameter(Parameter::number(
                "alpha",
                0.1,
                0.0..=1.0,
                "Least share of the expert's largest probability at which a token is plausible.",
            ))
            .parameter(Parameter::number("beta", 0.5, 0.0..=10.0, "Weight of the amateur's opinion."))
            .distributions()
    }

    fn start(start: Start) -> Self {
        Self { alpha: start.number("alpha") as f32, beta: start.number("beta") as f32 }
    }
}

impl Session for Contrastive {
    fn route(&mut self, _: &Step) -> Decision {
        // The journey never leaves the expert.
        let parts = [(EXPERT, 1.0 + self.beta), (AMATEUR, -self.beta)];
        Decision::Mix(Mixture::new(Space::Logprobs, &parts).plausible(EXPERT, self.alpha))
    }
}

export_policy!(Contrastive);

const EXPERT: Role = 0;
const AMATEUR: Role = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, step};

    use super::*;

    fn mixed(settings: &[(&str, f64)]) -> Mixture {
        let decision = Journey::<Contrastive>::begin(settings).route(&step(0));
        let Decision::Mix(mixture) = decision else { panic!("every position is mixed") };
        mixture
    }

    #[test]
    fn the_amateur_is_taken_off_among_what_the_expert_finds_plausible() {
        let expected =
            Mixture::new(Space::Logprobs, &[(EXPERT, 1.5), (AMATEUR, -0.5)]).plausible(EXPERT, 0.1);
        assert_eq!(mixed(&[]), expected);
    }

    #[test]
    fn without_the_amateur_the_expert_is_itself() {
        let weights: Vec<f32> = mixed(&[("beta", 0.0)]).parts.iter().map(|part| part.weight).collect();
        assert_eq!(weights, [1.0, 0.0]);
    }
}
