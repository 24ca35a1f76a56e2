//! A small model drafts, the large one judges the whole draft in one step: speculative decoding.
//!
//! Algorithm: the journey begins at the *judge*. Its token stands; then the drafter makes `tokens` more, and the judge
//! looks at all of them in one step. Each is kept with probability min(1, p/q), p the judge's and q the drafter's
//! probability; the first that is not is replaced by one from max(0, p - q), normalised, and the rest is dropped. After
//! a draft that is kept whole the judge adds one token. The answer is distributed as the judge's own: nothing is lost
//! but time where drafts fail.
//!
//! With `exact` = 1 a token is kept only if it is the one that the judge itself draws. Fewer are kept, but the answer
//! is the judge's own for the same seed, token for token. Where the request asks for the most probable tokens both
//! rules are the same.
//!
//! Each round commits at least the judge's token, so drafts that fail cannot hold a journey up.
//!
//! Source: Leviathan et al. (arXiv 2211.17192); Chen et al. (arXiv 2302.01318).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `tokens` | tokens | 5 | length of a draft |
//! | `exact` | 0 or 1 | 0 | whether a drafted token must be the judge's own |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Accept, Decision, Descriptor, Handoff, Offer, Parameter, Parcel, Policy, Role, Rule, Session, Start,
    Step, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Speculative {
    tokens: u32,
    rule: Rule,
}

impl Policy for Speculative {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("speculative", "The large model's answer, drafted by a small one.")
            .need("judge", "The large model, whose answer it is.", &[])
            .need("drafter", "A small model that guesses what the judge would say.", &[])
            .parameter(Parameter::count("tokens", 5, 1..=64, "Length of a draft, in tokens."))
            .parameter(Parameter::count(
                "exact",
                0,
                0..=1,
                "1: a drafted token must be the judge's own; 0: it is kept with probability min(1, p/q).",
            ))
            .sends()
            .receives()
            .distributions()
    }

    fn start(start: Start) -> Self {
        let rule = if start.count("exact") == 1 { Rule::Exact } else { Rule::Rejection };
        Self { tokens: start.count("tokens"), rule }
    }
}

impl Session for Speculative {
    fn route(&mut self, step: &Step) -> Decision {
        // An end token of the judge ends the answer.
        if step.role != JUDGE || step.at_eos {
            return Decision::Stay;
        }
        Decision::hand_off(DRAFTER, self.tokens)
    }

    fn send(&mut self, _: Handoff) -> Parcel {
        // The judge's own token stands.
        Parcel::KEEP_HELD
    }

    fn receive(&mut self, _: &Offer) -> Accept {
        Accept::verify(self.rule)
    }
}

export_policy!(Speculative);

const JUDGE: Role = 0;
const DRAFTER: Role = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, offer, step};

    use super::*;

    #[test]
    fn the_judges_token_stands_and_a_draft_follows_it() {
        let mut journey = Journey::<Speculative>::begin(&[]);
        assert_eq!(journey.route(&step(0)), Decision::hand_off(DRAFTER, 5));
        assert_eq!(journey.send(Handoff::new(DRAFTER, 5)), Parcel::KEEP_HELD);
        assert_eq!(journey.receive(&offer(DRAFTER, &[1, 2, 3, 4, 5])), Accept::verify(Rule::Rejection));
        assert_eq!(journey.route(&step(6)), Decision::hand_off(DRAFTER, 5));
    }

    #[test]
    fn on_request_only_the_judges_own_tokens_are_kept() {
        let mut journey = Journey::<Speculative>::begin(&[("exact", 1.0), ("tokens", 2.0)]);
        assert_eq!(journey.route(&step(0)), Decision::hand_off(DRAFTER, 2));
        assert_eq!(journey.receive(&offer(DRAFTER, &[1, 2])), Accept::verify(Rule::Exact));
    }

    #[test]
    fn nothing_is_drafted_after_the_end() {
        let mut journey = Journey::<Speculative>::begin(&[]);
        assert_eq!(journey.route(&Step { at_eos: true, ..step(7) }), Decision::Stay);
    }
}
