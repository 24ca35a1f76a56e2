//! Keeps the small model's whole answer where enough of its tokens were likely: the token-level cascade.
//!
//! Algorithm: the small model drafts the whole answer, which nobody sees yet. If the `quantile` of the
//! log-probabilities of its tokens (the end token included) is at least `threshold`, the draft is the answer. Otherwise
//! it is forgotten and the large model answers from the beginning, and that answer is seen as it is made.
//!
//! The quantile of n numbers is the one of rank floor(`quantile` (n - 1)), counted from the smallest. `quantile` = 0
//! judges by the least likely token; the mean, which the paper finds worse, hides few unlikely tokens in a long answer.
//!
//! Source: "Language model cascades: token-level uncertainty and beyond" (Gupta et al., arXiv 2404.10136), its rule of
//! one quantile; the rules that it trains on several of them are not here.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `quantile` | fraction of the tokens | 0.1 | which of the sorted log-probabilities judges the answer |
//! | `threshold` | nats | -1.0 | least value of it at which the small model's answer is kept |
//!
//! The defaults are ours and depend on the pair.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Adoption, Ask, Decision, Descriptor, Draft, DraftRequest, Next, Parameter, Policy, Question, Session,
    Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the parameters and remembers nothing between steps.
pub struct Cascade {
    quantile: f64,
    threshold: f64,
    max_tokens: u32,
}

impl Policy for Cascade {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("cascade", "Keeps the small model's answer if enough of its tokens were likely.")
            .parameter(Parameter::number(
                "quantile",
                0.1,
                0.0..=1.0,
                "Which of the sorted log-probabilities judges the answer, as a fraction of the tokens.",
            ))
            .parameter(Parameter::number(
                "threshold",
                -1.0,
                -1e3..=0.0,
                "Least log-probability, in nats, at that quantile at which the small model's answer is kept.",
            ))
            .guard(SMALL, Trigger::Start)
    }

    fn start(start: Start) -> Self {
        Self {
            quantile: start.number("quantile"),
            threshold: start.number("threshold"),
            max_tokens: start.max_tokens,
        }
    }
}

impl Session for Cascade {
    fn route(&mut self, step: &Step) -> Decision {
        if step.role != SMALL || step.index > 0 {
            return Decision::Stay;
        }
        let Some(answer) = step.answers.first() else {
            let whole = Ask::Drafts(DraftRequest::new(self.max_tokens));
            return Decision::Consult(Question::to(SMALL, whole).without_held());
        };
        match answer.drafts().first() {
            Some(draft) if self.is_likely(draft) => Decision::Adopt(Adoption::whole(0, Next::Finish)),
            // A visit as long as the answer may be: the policy is not asked about the large model's tokens.
            _ => Decision::hand_off(LARGE, self.max_tokens),
        }
    }
}

impl Cascade {
    /// Whether the quantile is at least the threshold. It is below exactly if more tokens are than its rank.
    fn is_likely(&self, draft: &Draft) -> bool {
        let rank = (draft.logprobs.len().saturating_sub(1) as f64 * self.quantile) as usize;
        let unlikely = draft.logprobs.iter().filter(|logprob| f64::from(**logprob) < self.threshold).count();
        unlikely <= rank
    }
}

export_policy!(Cascade);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, answers, draft, step};
    use policy_sdk::{Found, Parcel};

    use super::*;

    fn drafted(logprobs: &[f32]) -> Step {
        let draft = Draft { logprobs: logprobs.to_vec(), ..draft("so it is", 0.0) };
        Step { answers: answers(SMALL, Found::Drafts(vec![draft])), ..step(0) }
    }

    fn kept(settings: &[(&str, f64)], logprobs: &[f32]) -> bool {
        match Journey::<Cascade>::begin(settings).route(&drafted(logprobs)) {
            Decision::Adopt(adoption) => {
                assert_eq!(adoption, Adoption::whole(0, Next::Finish));
                true
            }
            other => {
                assert_eq!(other, Decision::hand_off(LARGE, 256));
                false
            }
        }
    }

    #[test]
    fn the_small_model_drafts_the_whole_answer_first() {
        let mut journey = Journey::<Cascade>::begin(&[]);
        let Decision::Consult(question) = journey.route(&step(0)) else { panic!("it asks for a draft") };
        assert_eq!((question.models.as_slice(), question.with_held), (&[SMALL][..], false));
        assert_eq!(question.ask, Ask::Drafts(DraftRequest::new(256)));
        assert_eq!(journey.send(policy_sdk::Handoff::new(LARGE, 256)), Parcel::DROP_HELD);
    }

    #[test]
    fn few_unlikely_tokens_are_forgiven_and_more_are_not() {
        // Of five numbers the quantile 0.25 has rank 1: one may be below the threshold.
        let settings = [("quantile", 0.25)];
        assert!(kept(&settings, &[-0.1, -3.0, -0.2, -0.1, -0.3]));
        assert!(!kept(&settings, &[-0.1, -3.0, -1.1, -0.1, -0.3]));
    }

    #[test]
    fn the_ends_of_the_quantile_are_the_least_and_the_most_likely_token() {
        assert!(!kept(&[("quantile", 0.0)], &[-0.1, -1.1, -0.1]));
        assert!(kept(&[("quantile", 0.0)], &[-0.1, -1.0, -0.1]));
        assert!(kept(&[("quantile", 1.0)], &[-9.0, -9.0, -0.1]));
        assert!(!kept(&[("quantile", 1.0)], &[-9.0, -9.0, -9.0]));
    }

    #[test]
    fn later_tokens_are_nobodys_business() {
        let mut journey = Journey::<Cascade>::begin(&[]);
        assert_eq!(journey.route(&Step { logprob: -9.0, ..step(1) }), Decision::Stay);
    }
}
