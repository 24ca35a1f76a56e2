//! A small model writes until it is unsure, the large one corrects it: BiLD, the big little decoder.
//!
//! Algorithm: the journey begins at the *judge*. Its token stands; then the little model writes on until its own most
//! probable token has a probability below `fallback`, or `tokens` tokens are written. The judge looks at all of them in
//! one step: the first whose loss, minus its log-probability there, is above `rollback` is replaced by the judge's own
//! token and what follows is dropped; if there is none, the judge adds one token. Then the little model writes on.
//!
//! Source: BiLD (arXiv 2302.07863); the defaults of the thresholds are those of its code.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `fallback` | probability | 0.6 | least top probability at which the little model goes on |
//! | `rollback` | nats | 5 | most loss at which the judge keeps a token |
//! | `tokens` | tokens | 10 | longest stretch of the little model |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Accept, Check, Condition, Decision, Descriptor, Ended, Handoff, Offer, Parameter, Parcel, Policy, Role,
    Rule, Session, Signal, Start, Step, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct BigLittle {
    fallback: f32,
    rollback: f32,
    tokens: u32,
}

impl Policy for BigLittle {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("big-little", "A small model writes until it is unsure; the large one corrects it.")
            .need("judge", "The large model, which corrects.", &[])
            .need("little", "The small model, which writes most of the answer.", &[])
            .parameter(Parameter::number(
                "fallback",
                0.6,
                0.0..=1.0,
                "Least probability of its most probable token at which the little model goes on.",
            ))
            .parameter(Parameter::number(
                "rollback",
                5.0,
                0.0..=1e3,
                "Most loss, minus the judge's log-probability in nats, at which a token is kept.",
            ))
            .parameter(Parameter::count(
                "tokens",
                10,
                1..=256,
                "Longest stretch of the little model, in tokens.",
            ))
            .sends()
            .receives()
    }

    fn start(start: Start) -> Self {
        let [fallback, rollback] = ["fallback", "rollback"].map(|key| start.number(key) as f32);
        Self { fallback, rollback, tokens: start.count("tokens") }
    }
}

impl Session for BigLittle {
    fn route(&mut self, step: &Step) -> Decision {
        // An end token of the judge ends the answer.
        if step.role != JUDGE || step.at_eos {
            return Decision::Stay;
        }
        let unsure = Condition::below(Signal::Top1, self.fallback);
        Decision::HandOff(Handoff::new(LITTLE, self.tokens).until(unsure))
    }

    fn send(&mut self, _: Handoff) -> Parcel {
        // The judge's own token stands, so every round commits one.
        Parcel::KEEP_HELD
    }

    fn receive(&mut self, offer: &Offer) -> Accept {
        // The token at which the little model became unsure is not looked at: its position is the judge's.
        let unsure = u32::from(offer.why == Ended::Condition);
        let tokens = offer.tokens.len() as u32 - unsure;
        Accept::Verify(Check { rule: Rule::MaxLoss(self.rollback), tokens })
    }
}

export_policy!(BigLittle);

const JUDGE: Role = 0;
const LITTLE: Role = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, offer, step};

    use super::*;

    #[test]
    fn the_little_model_writes_until_it_is_unsure() {
        let mut journey = Journey::<BigLittle>::begin(&[("fallback", 0.25)]);
        let until = Handoff::new(LITTLE, 10).until(Condition::below(Signal::Top1, 0.25));
        assert_eq!(journey.route(&step(0)), Decision::HandOff(until.clone()));
        assert_eq!(journey.send(until), Parcel::KEEP_HELD);
    }

    #[test]
    fn the_judge_looks_at_what_the_little_model_was_sure_of() {
        let mut journey = Journey::<BigLittle>::begin(&[("rollback", 3.5)]);
        let verify = |tokens| Accept::Verify(Check { rule: Rule::MaxLoss(3.5), tokens });
        let whole = offer(LITTLE, &[1, 2]);
        assert_eq!(journey.receive(&whole), verify(2));
        assert_eq!(journey.receive(&Offer { why: Ended::Condition, ..whole }), verify(1));
    }

    #[test]
    fn nothing_is_written_after_the_end() {
        let mut journey = Journey::<BigLittle>::begin(&[]);
        assert_eq!(journey.route(&Step { at_eos: true, ..step(7) }), Decision::Stay);
    }
}
