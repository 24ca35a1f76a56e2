//! Steps of a small model stand where a reward model is content: reward-guided speculative decoding.
//!
//! Algorithm: the answer is taken as steps that are separated by an empty line. The journey begins at the *judge*, and
//! the drafter writes each step. The judge's head `reward` scores the step at its last token, as a process reward model
//! does; with at least `threshold` the step stands. Otherwise all of it is dropped and the judge writes the step
//! itself, up to the next empty line. Then the drafter writes again.
//!
//! The head makes the judge the reward model too: it reads the judge's own state, so a score costs no more than reading
//! the step, which the judge must do anyway. A judge without such a head can grade by a prompt: `spec-reason`.
//! Beginnings and ends are as there: the judge may end the answer, and finishes a standing step that was cut at
//! `tokens`.
//!
//! Source: RSD (arXiv 2501.19324), whose reward model is a third network.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | score of the head, from 0 to 1 | 0.7 | least score at which a step stands |
//! | `tokens` | tokens | 256 | longest drafted step |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Accept, Ask, Condition, Decision, Descriptor, Handoff, Offer, Parameter, Policy, Question, Role, Session,
    Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the parameters and how the last step was scored.
pub struct RewardGuided {
    threshold: f64,
    tokens: u32,
    /// Positions that the route's models hold after the prompt.
    room: u32,
    /// Index of the step's first token.
    begun: u32,
    /// Whether the judge writes the step at hand.
    rejected: bool,
}

impl Policy for RewardGuided {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new(
            "reward-guided",
            "Steps of a small model stand if a reward head of the large one is content.",
        )
        .need("judge", "The large model, which scores steps and writes those that fail.", &["reward"])
        .need("drafter", "A small model, which writes most steps.", &[])
        .parameter(Parameter::number("threshold", 0.7, 0.0..=1.0, "Least score at which a step stands."))
        .parameter(Parameter::count("tokens", 256, 1..=4096, "Longest drafted step, in tokens."))
        .guard(JUDGE, Trigger::after_text(STEP_END))
        .receives()
    }

    fn start(start: Start) -> Self {
        let (threshold, tokens) = (start.number("threshold"), start.count("tokens"));
        Self { threshold, tokens, room: start.room(), begun: 0, rejected: false }
    }
}

impl Session for RewardGuided {
    fn route(&mut self, step: &Step) -> Decision {
        // The host asks about the judge's first token of a step, again if the drafter's was rejected.
        let writes_itself = core::mem::take(&mut self.rejected);
        if step.role != JUDGE || step.at_eos || writes_itself {
            return Decision::Stay;
        }
        self.begun = step.index;
        Decision::HandOff(Handoff::new(DRAFTER, self.tokens).until(Condition::text(STEP_END)))
    }

    fn receive(&mut self, offer: &Offer) -> Accept {
        let Some(answer) = offer.answers.first() else {
            let asked = self.begun as usize + offer.tokens.len() + 1;
            return if asked < self.room as usize {
                Accept::Consult(Question::to(JUDGE, Ask::Scores))
            } else {
                // The context is full, and the answer ends with this step.
                Accept::all(offer)
            };
        };
        let score = answer.scores().first().copied().unwrap_or(0.0);
        self.rejected = f64::from(score) < self.threshold;
        if self.rejected { Accept::Take(0) } else { Accept::all(offer) }
    }
}

export_policy!(RewardGuided);

const JUDGE: Role = 0;
const DRAFTER: Role = 1;
const STEP_END: &str = "\n\n";

#[cfg(test)]
mod tests {
    use policy_sdk::Found;
    use policy_sdk::testing::{Journey, answers, offer, start, step};

    use super::*;

    fn drafting() -> Decision {
        Decision::HandOff(Handoff::new(DRAFTER, 256).until(Condition::text("\n\n")))
    }

    fn scored(score: f32) -> Offer {
        Offer { answers: answers(JUDGE, Found::Scores(vec![score])), ..offer(DRAFTER, &[4, 5, 6]) }
    }

    #[test]
    fn the_judges_head_scores_the_step() {
        let mut journey = Journey::<RewardGuided>::begin(&[]);
        assert_eq!(journey.route(&step(0)), drafting());
        let asked = Accept::Consult(Question::to(JUDGE, Ask::Scores));
        assert_eq!(journey.receive(&offer(DRAFTER, &[4, 5, 6])), asked);
    }

    #[test]
    fn a_step_stands_from_the_threshold_on() {
        let mut journey = Journey::<RewardGuided>::begin(&[("threshold", 0.5)]);
        assert_eq!(journey.receive(&scored(0.5)), Accept::Take(3));
        assert_eq!(journey.receive(&scored(0.49)), Accept::Take(0));
    }

    #[test]
    fn the_judge_writes_a_rejected_step_and_then_the_drafter_the_next() {
        let mut journey = Journey::<RewardGuided>::begin(&[]);
        let boundary = |index| Step { tail: "So.\n\n".to_owned(), ..step(index) };
        assert_eq!(journey.route(&boundary(4)), drafting());
        assert_eq!(journey.receive(&scored(0.1)), Accept::Take(0));
        // The first is asked about the same position again; the second is no beginning.
        assert_eq!(journey.decisions(&[boundary(4), step(5)]), [Decision::Stay, Decision::Stay]);
        assert_eq!(journey.route(&boundary(9)), drafting());
    }

    #[test]
    fn the_judge_ends_the_answer() {
        let mut journey = Journey::<RewardGuided>::begin(&[]);
        assert_eq!(journey.route(&Step { at_eos: true, ..step(0) }), Decision::Stay);
    }

    #[test]
    fn in_a_full_context_a_step_stands() {
        let mut start = start::<RewardGuided>(&[]);
        start.context = 16 + 4;
        let mut journey = Journey::<RewardGuided>::of(start);
        assert_eq!(journey.receive(&offer(DRAFTER, &[4, 5, 6])), Accept::Take(3));
    }
}
