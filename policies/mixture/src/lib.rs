//! Every token from a model drawn at random: the mixture ensemble.
//!
//! Algorithm: for each position a model is drawn with probability proportional to its weight, and samples the token
//! alone. The answer is distributed as if every token were sampled from the weighted average of all models'
//! distributions, at the cost of one model per token instead of all of them.
//!
//! The model of the *next* position is drawn when a token is held, so that the token stands and nothing is made in
//! vain; that of the first position is drawn before anything is decoded, and the journey begins there.
//!
//! Source: mixture ensembles (ME, arXiv 2605.00419).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `weight0` ... `weight3` | relative to the others | 1 | how often the model of that role is drawn |
//!
//! Weights of roles that the route does not have are ignored. If all are 0 the entry model answers alone.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::alloc::vec::Vec;
use policy_sdk::{
    Decision, Descriptor, Handoff, Parameter, Parcel, Policy, Role, Session, Start, Step, export_policy, host,
};

/// The policy; for a journey it holds the weights.
pub struct Mixture {
    /// By role.
    weights: Vec<f64>,
}

impl Policy for Mixture {
    type Session = Self;

    fn describe() -> Descriptor {
        let described = Descriptor::new("mixture", "Every token is made by a model that is drawn at random.")
            .models(2..=WEIGHTS.len() as u32)
            .enters()
            .sends();
        let doc = "How often the model of that role is drawn, relative to the other weights.";
        let declare = |declared: Descriptor, key: &&str| {
            declared.parameter(Parameter::number(key, 1.0, 0.0..=1e6, doc))
        };
        WEIGHTS.iter().fold(described, declare)
    }

    fn start(start: Start) -> Self {
        Self { weights: WEIGHTS.iter().take(start.models as usize).map(|key| start.number(key)).collect() }
    }
}

impl Session for Mixture {
    fn enter(&mut self) -> Role {
        self.draw()
    }

    fn route(&mut self, step: &Step) -> Decision {
        let next = self.draw();
        if next == step.role || step.at_eos { Decision::Stay } else { Decision::hand_off(next, 0) }
    }

    fn send(&mut self, _: Handoff) -> Parcel {
        Parcel::KEEP_HELD
    }
}

impl Mixture {
    fn draw(&self) -> Role {
        let mut left = host::uniform() * self.weights.iter().sum::<f64>();
        let reached = self.weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        reached.unwrap_or(0) as Role
    }
}

export_policy!(Mixture);

const WEIGHTS: [&str; 4] = ["weight0", "weight1", "weight2", "weight3"];

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, set_uniform, step};

    use super::*;

    fn draws(numbers: &'static [f64]) {
        let mut numbers = numbers.iter().copied();
        set_uniform(move || numbers.next().expect("no more draws than positions"));
    }

    fn at(role: Role, index: u32) -> Step {
        Step { role, ..step(index) }
    }

    #[test]
    fn the_model_of_the_next_position_is_drawn_and_the_held_token_stands() {
        // For position 0, then for 1, 2 and 3.
        draws(&[0.1, 0.4, 0.5, 0.9]);
        let mut journey = Journey::<Mixture>::begin(&[]);
        assert_eq!(journey.enter(), 0);
        assert_eq!(journey.route(&at(0, 0)), Decision::Stay);
        assert_eq!(journey.route(&at(0, 1)), Decision::hand_off(1, 0));
        assert_eq!(journey.send(Handoff::new(1, 0)), Parcel::KEEP_HELD);
        assert_eq!(journey.route(&at(1, 2)), Decision::Stay);
    }

    #[test]
    fn the_first_position_belongs_to_the_model_that_was_drawn_for_it() {
        draws(&[0.9, 0.1]);
        let mut journey = Journey::<Mixture>::begin(&[]);
        assert_eq!(journey.enter(), 1);
        assert_eq!(journey.route(&at(1, 0)), Decision::hand_off(0, 0));
        assert_eq!(journey.send(Handoff::new(0, 0)), Parcel::KEEP_HELD);
    }

    #[test]
    fn weights_are_relative_and_a_model_without_one_never_answers() {
        draws(&[0.74, 0.76]);
        let mut journey = Journey::<Mixture>::begin(&[("weight0", 3.0)]);
        assert_eq!((journey.enter(), journey.enter()), (0, 1));
        draws(&[0.0, 0.999]);
        let mut alone = Journey::<Mixture>::begin(&[("weight1", 0.0)]);
        assert_eq!(alone.enter(), 0);
        assert_eq!(alone.route(&at(0, 0)), Decision::Stay);
        draws(&[0.5]);
        let mut nobody = Journey::<Mixture>::begin(&[("weight0", 0.0), ("weight1", 0.0)]);
        assert_eq!(nobody.route(&at(0, 0)), Decision::Stay);
    }

    #[test]
    fn an_end_token_ends_the_answer_where_it_is() {
        draws(&[0.9]);
        let mut journey = Journey::<Mixture>::begin(&[]);
        assert_eq!(journey.route(&Step { at_eos: true, ..at(0, 0) }), Decision::Stay);
    }
}
