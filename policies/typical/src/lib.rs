//! Keeps drafted tokens that are typical of the large model: Medusa's acceptance.
//!
//! Algorithm: as in `speculative` the journey begins at the *judge*, whose token stands, and the drafter makes `tokens`
//! more. A drafted token is kept if the judge's probability of it is above min(`epsilon`, `delta` e^(-H)), H the
//! entropy of the judge's distribution there: where the judge is sure only its own choice passes, where it is not, much
//! does. The first token that does not pass is replaced by the judge's. More of a draft is kept than by rejection, and
//! the answer is no longer distributed exactly as the judge's.
//!
//! Medusa drafts with heads of the large model itself and judges trees; here a second model drafts one sequence.
//!
//! Source: Medusa (arXiv 2401.10774); the defaults are those of its code.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `tokens` | tokens | 5 | length of a draft |
//! | `epsilon` | probability | 0.3 | what is always enough |
//! | `delta` | factor | 0.09 | scale of what is enough where the judge is unsure |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Accept, Decision, Descriptor, Handoff, Offer, Parameter, Parcel, Policy, Role, Rule, Session, Start,
    Step, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Typical {
    tokens: u32,
    rule: policy_sdk::Typical,
}

impl Policy for Typical {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("typical", "Keeps drafted tokens that are typical of the large model.")
            .need("judge", "The large model, which keeps or replaces.", &[])
            .need("drafter", "A small model that guesses what the judge would say.", &[])
            .parameter(Parameter::count("tokens", 5, 1..=64, "Length of a draft, in tokens."))
            .parameter(Parameter::number("epsilon", 0.3, 0.0..=1.0, "Probability that is always enough."))
            .parameter(Parameter::number(
                "delta",
                0.09,
                0.0..=1.0,
                "Scale of the probability that is enough where the judge is unsure.",
            ))
            .sends()
            .receives()
    }

    fn start(start: Start) -> Self {
        let [epsilon, delta] = ["epsilon", "delta"].map(|key| start.number(key) as f32);
        Self { tokens: start.count("tokens"), rule: policy_sdk::Typical { epsilon, delta } }
    }
}

impl Session for Typical {
    fn route(&mut self, step: &Step) -> Decision {
        // An end token of the judge ends the answer.
        if step.role != JUDGE || step.at_eos {
            return Decision::Stay;
        }
        Decision::hand_off(DRAFTER, self.tokens)
    }

    fn send(&mut self, _: Handoff) -> Parcel {
        // The judge's own token stands, so every round commits one.
        Parcel::KEEP_HELD
    }

    fn receive(&mut self, _: &Offer) -> Accept {
        Accept::verify(Rule::Typical(self.rule))
    }
}

export_policy!(Typical);

const JUDGE: Role = 0;
const DRAFTER: Role = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, offer, step};

    use super::*;

    #[test]
    fn a_draft_is_judged_by_what_is_typical() {
        let mut journey = Journey::<Typical>::begin(&[("delta", 0.2), ("tokens", 3.0)]);
        assert_eq!(journey.route(&step(0)), Decision::hand_off(DRAFTER, 3));
        assert_eq!(journey.send(Handoff::new(DRAFTER, 3)), Parcel::KEEP_HELD);
        let rule = Rule::Typical(policy_sdk::Typical { epsilon: 0.3, delta: 0.2 });
        assert_eq!(journey.receive(&offer(DRAFTER, &[1, 2, 3])), Accept::verify(rule));
    }

    #[test]
    fn nothing_is_drafted_after_the_end() {
        let mut journey = Journey::<Typical>::begin(&[]);
        assert_eq!(journey.route(&Step { at_eos: true, ..step(7) }), Decision::Stay);
    }
}
