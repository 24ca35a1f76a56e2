//! Several whole answers of one model, and a vote among them: self-consistency.
//!
//! Algorithm: the model drafts `samples` answers, each with randomness of its own, at `temperature`. The last number in
//! an answer's text is its vote; the answer with the most votes is taken, among equals that with the higher mean
//! log-probability per token. Answers without a number have no vote, so where none has one the likeliest is taken.
//!
//! The client sees nothing until all drafts are made: the answer comes at once and costs the tokens of all of them.
//! Where the request leaves no choice (`temperature` = 0) all drafts are the same.
//!
//! Numbers are compared as they are written, without commas between digits and without zeros at the end of a fraction:
//! 1,200.50 and 1200.5 are one vote.
//!
//! Source: self-consistency (arXiv 2203.11171).
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `samples` | answers | 8 | how many are drafted |
//! | `temperature` | - | 0.7 | of the drafts, instead of the request's |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::alloc::string::String;
use policy_sdk::alloc::vec::Vec;
use policy_sdk::{
    Adoption, Ask, Decision, Descriptor, Draft, DraftRequest, Next, Parameter, Policy, Question, Role,
    Session, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds what it will ask for.
pub struct BestOfN {
    wish: DraftRequest,
}

impl Policy for BestOfN {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("best-of-n", "Takes the answer that most of several samples agree on.")
            .models(1..=1)
            .parameter(Parameter::count("samples", 8, 1..=32, "How many answers are drafted."))
            .parameter(Parameter::number("temperature", 0.7, 0.0..=2.0, "Temperature of the drafts."))
            .guard(MODEL, Trigger::Start)
    }

    fn start(start: Start) -> Self {
        let samples = start.count("samples");
        let temperature = Some(start.number("temperature") as f32);
        Self { wish: DraftRequest { samples, temperature, ..DraftRequest::new(start.max_tokens) } }
    }
}

impl Session for BestOfN {
    fn route(&mut self, step: &Step) -> Decision {
        if step.index > 0 {
            return Decision::Stay;
        }
        let Some(answer) = step.answers.first() else {
            let drafts = Ask::Drafts(self.wish.clone());
            return Decision::Consult(Question::to(MODEL, drafts).without_held());
        };
        let best = best(answer.drafts());
        best.map_or(Decision::Stay, |draft| Decision::Adopt(Adoption::whole(draft, Next::Finish)))
    }
}

/// The draft that wins the vote.
fn best(drafts: &[Draft]) -> Option<u32> {
    let numbers: Vec<Option<String>> = drafts.iter().map(|draft| last_number(&draft.text)).collect();
    let votes = |number: &Option<String>| match number {
        Some(_) => numbers.iter().filter(|other| *other == number).count(),
        None => 0,
    };
    let candidates = (0u32..).zip(drafts.iter().zip(&numbers));
    let ranked = candidates.map(|(index, (draft, number))| (index, votes(number), mean(&draft.logprobs)));
    let best = ranked.max_by(|one, other| one.1.cmp(&other.1).then(one.2.total_cmp(&other.2)));
    best.map(|(index, ..)| index)
}

fn mean(logprobs: &[f32]) -> f32 {
    logprobs.iter().sum::<f32>() / logprobs.len().max(1) as f32
}

/// The last number of a text, in one spelling.
fn last_number(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let end = bytes.iter().rposition(u8::is_ascii_digit)? + 1;
    let mut from = end - 1;
    // A comma or a point belongs to the number if a digit stands before it.
    let joins = |at: usize| matches!(bytes[at], b',' | b'.') && at > 0 && bytes[at - 1].is_ascii_digit();
    while from > 0 && (bytes[from - 1].is_ascii_digit() || joins(from - 1)) {
        from -= 1;
    }
    // A minus after a letter or digit is a hyphen.
    let minus = from > 0 && bytes[from - 1] == b'-' && (from < 2 || !bytes[from - 2].is_ascii_alphanumeric());
    let mut number: String = text[from - usize::from(minus)..end].chars().filter(|&c| c != ',').collect();
    if number.contains('.') {
        let kept = number.trim_end_matches('0').trim_end_matches('.').len();
        number.truncate(kept);
    }
    Some(number)
}

export_policy!(BestOfN);

const MODEL: Role = 0;

#[cfg(test)]
mod tests {
    use policy_sdk::Found;
    use policy_sdk::testing::{Journey, answers, draft, step};

    use super::*;

    fn winner(drafts: &[Draft]) -> Decision {
        let answers = answers(MODEL, Found::Drafts(drafts.to_vec()));
        Journey::<BestOfN>::begin(&[]).route(&Step { answers, ..step(0) })
    }

    fn adopted(draft: u32) -> Decision {
        Decision::Adopt(Adoption::whole(draft, Next::Finish))
    }

    #[test]
    fn whole_answers_are_drafted_before_the_first_token() {
        let mut journey = Journey::<BestOfN>::begin(&[("samples", 4.0)]);
        let Decision::Consult(question) = journey.route(&step(0)) else { panic!("it asks for drafts") };
        assert!(!question.with_held);
        let wish = DraftRequest { samples: 4, temperature: Some(0.7), ..DraftRequest::new(256) };
        assert_eq!(question.ask, Ask::Drafts(wish));
    }

    #[test]
    fn the_majority_wins_and_its_likeliest_answer_is_taken() {
        let drafts =
            [draft("It is 7.", -0.1), draft("So 42.", -0.9), draft("42.0", -0.5), draft("none", -0.1)];
        assert_eq!(winner(&drafts), adopted(2));
    }

    #[test]
    fn without_numbers_the_likeliest_answer_wins() {
        assert_eq!(winner(&[draft("yes", -0.5), draft("no", -0.2), draft("maybe", -0.9)]), adopted(1));
        assert_eq!(winner(&[]), Decision::Stay);
    }

    #[test]
    fn a_number_is_read_in_one_spelling() {
        let read = |text| last_number(text).unwrap_or_default();
        assert_eq!(read("first 3, then 1,200.50 EUR."), "1200.5");
        assert_eq!(read("x = -3"), "-3");
        assert_eq!(read("pages 3-5"), "5");
        assert_eq!(read("2.00"), "2");
        assert_eq!(read("100"), "100");
        assert_eq!(read("é7"), "7");
        assert_eq!(read("none"), "");
    }
}
