//! A small model writes the steps of the reasoning, the large one grades each: SpecReason.
//!
//! Algorithm: the answer is taken as steps that are separated by an empty line. The journey begins at the *judge*, and
//! the drafter writes each step. The judge is asked, in a text that stays nowhere, to grade the step by a digit; with
//! its most probable digit at least `threshold` the step stands. Otherwise all of it is dropped and the judge writes
//! the step itself, up to the next empty line. Then the drafter writes again.
//!
//! The judge makes a token at the beginning of each step, which is dropped unless it ends the answer: the judge may end
//! it, or grade a step that does. A drafted step is cut at `tokens`; the judge finishes one that stands. A rejected
//! step is followed by one that the judge writes, so the answer grows each time.
//!
//! Source: SpecReason (arXiv 2504.07891).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | grade from 0 to 9 | 7 | least grade at which a step stands |
//! | `tokens` | tokens | 256 | longest drafted step |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::alloc::string::ToString;
use policy_sdk::{
    Accept, Ask, Condition, Decision, Descriptor, Handoff, Offer, Parameter, Policy, Question, Role, Session,
    Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds the parameters and how the last step was graded.
pub struct SpecReason {
    threshold: u32,
    tokens: u32,
    /// Positions that the route's models hold after the prompt.
    room: u32,
    /// Index of the step's first token.
    begun: u32,
    /// Whether the judge writes the step at hand.
    rejected: bool,
}

impl Policy for SpecReason {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new(
            "spec-reason",
            "A small model writes steps; the large one grades and rewrites the bad ones.",
        )
        .need("judge", "The large model, which grades steps and writes those that fail.", &[])
        .need("drafter", "A small model, which writes most steps.", &[])
        .parameter(Parameter::count(
            "threshold",
            7,
            0..=9,
            "Least grade, from 0 to 9, at which a step stands.",
        ))
        .parameter(Parameter::count("tokens", 256, 1..=4096, "Longest drafted step, in tokens."))
        .guard(JUDGE, Trigger::after_text(STEP_END))
        .receives()
    }

    fn start(start: Start) -> Self {
        let (threshold, tokens) = (start.count("threshold"), start.count("tokens"));
        Self { threshold, tokens, room: start.room(), begun: 0, rejected: false }
    }
}

impl Session for SpecReason {
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
            let digits = Ask::Texts((0..10u32).map(|digit| digit.to_string()).collect());
            let asked = self.begun as usize + offer.tokens.len() + GRADING.len() + 1;
            return if asked < self.room as usize {
                Accept::Consult(Question::to(JUDGE, digits).side(GRADING))
            } else {
                // The context is all but full: there is no room to grade anything in.
                Accept::all(offer)
            };
        };
        self.rejected = grade(answer.logprobs()) < self.threshold;
        if self.rejected { Accept::Take(0) } else { Accept::all(offer) }
    }
}

/// The most probable digit.
fn grade(logprobs: &[f32]) -> u32 {
    let best = (0u32..).zip(logprobs).max_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map_or(0, |(digit, _)| digit)
}

export_policy!(SpecReason);

const JUDGE: Role = 0;
const DRAFTER: Role = 1;
const STEP_END: &str = "\n\n";
const GRADING: &str = "\n\n[A grader reads the last step above and looks only at whether it is correct and \
    follows from what stands before. 0: certainly wrong. 9: certainly right.]\nGrade of the last step: ";

#[cfg(test)]
mod tests {
    use policy_sdk::Found;
    use policy_sdk::testing::{Journey, answers, offer, start, step};

    use super::*;

    fn drafting() -> Decision {
        Decision::HandOff(Handoff::new(DRAFTER, 256).until(Condition::text("\n\n")))
    }

    fn graded(best: usize) -> Offer {
        let mut logprobs = vec![-5.0; 10];
        logprobs[best] = -0.1;
        Offer { answers: answers(JUDGE, Found::Logprobs(logprobs)), ..offer(DRAFTER, &[4, 5, 6]) }
    }

    #[test]
    fn the_judge_is_asked_aside_for_a_digit() {
        let mut journey = Journey::<SpecReason>::begin(&[]);
        assert_eq!(journey.route(&step(0)), drafting());
        let Accept::Consult(question) = journey.receive(&offer(DRAFTER, &[4, 5, 6])) else {
            panic!("it asks")
        };
        assert_eq!((question.models.as_slice(), question.with_held), (&[JUDGE][..], true));
        assert!(question.side.ends_with(": "));
        let Ask::Texts(digits) = question.ask else { panic!("digits") };
        assert_eq!(digits.concat(), "0123456789");
    }

    #[test]
    fn a_step_stands_from_the_threshold_on() {
        let mut journey = Journey::<SpecReason>::begin(&[]);
        assert_eq!(journey.receive(&graded(7)), Accept::Take(3));
        assert_eq!(journey.receive(&graded(6)), Accept::Take(0));
    }

    #[test]
    fn the_judge_writes_a_rejected_step_and_then_the_drafter_the_next() {
        let mut journey = Journey::<SpecReason>::begin(&[]);
        let boundary = |index| Step { tail: "So.\n\n".to_owned(), ..step(index) };
        assert_eq!(journey.route(&boundary(4)), drafting());
        assert_eq!(journey.receive(&graded(2)), Accept::Take(0));
        // The first is asked about the same position again; the second is no beginning.
        assert_eq!(journey.decisions(&[boundary(4), step(5)]), [Decision::Stay, Decision::Stay]);
        assert_eq!(journey.route(&boundary(9)), drafting());
    }

    #[test]
    fn the_judge_ends_the_answer() {
        let mut journey = Journey::<SpecReason>::begin(&[]);
        assert_eq!(journey.route(&Step { at_eos: true, ..step(0) }), Decision::Stay);
    }

    #[test]
    fn without_room_to_grade_a_step_stands() {
        let mut start = start::<SpecReason>(&[]);
        start.context = 16 + 100;
        let mut journey = Journey::<SpecReason>::of(start);
        assert_eq!(journey.receive(&offer(DRAFTER, &[4, 5, 6])), Accept::Take(3));
    }
}
