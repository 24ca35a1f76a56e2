//! Chooses one model for the whole answer by what the prompt looks like: query-level routing.
//!
//! Algorithm: the prompt's difficulty is a number from 0 to 1. Above `threshold` the large model answers, otherwise the
//! small one does. It is the sum of four parts, each of which grows to its weight and no further:
//!
//! | part | weight | full at |
//! |---|---|---|
//! | length | 0.3 | 4,000 bytes |
//! | numbers, runs of digits | 0.25 | 8 |
//! | code, fences of three backticks | 0.2 | 1 |
//! | words that ask for reasoning | 0.25 | 2 different ones |
//!
//! Source: the question is RouteLLM's (arXiv 2406.18665). Its routers are trained on preferences; these features are
//! made by hand and are a baseline for them, no more. What a chat template adds to every prompt counts as well.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `threshold` | difficulty | 0.4 | most difficulty that is left to the small model |
//!
//! The journey begins at the model that answers: the other one never reads the prompt.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{
    Decision, Descriptor, Parameter, Policy, Role, Session, Start, Step, Trigger, export_policy,
};

/// The policy; for a journey it holds what it made of the prompt.
pub struct QueryLevel {
    is_hard: bool,
}

impl Policy for QueryLevel {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("query-level", "Lets the large model answer prompts that look difficult.")
            .parameter(Parameter::number(
                "threshold",
                0.4,
                0.0..=1.0,
                "Most difficulty of a prompt, from 0 to 1, that is left to the small model.",
            ))
            .prompt(PROMPT_BYTES)
            .enters()
            .guard(SMALL, Trigger::Start)
            .guard(LARGE, Trigger::Start)
    }

    fn start(start: Start) -> Self {
        Self { is_hard: difficulty(&start.prompt) > start.number("threshold") }
    }
}

impl Session for QueryLevel {
    fn enter(&mut self) -> Role {
        if self.is_hard { LARGE } else { SMALL }
    }

    fn route(&mut self, _: &Step) -> Decision {
        // Asked about the first token only, which the guards are for.
        Decision::Stay
    }
}

fn difficulty(prompt: &str) -> f64 {
    let lower = prompt.to_ascii_lowercase();
    let words = REASONING.iter().filter(|word| lower.contains(**word)).count();
    let part = |weight: f64, count: usize, full: f64| weight * (count as f64 / full).min(1.0);
    part(0.3, prompt.len(), 4000.0)
        + part(0.25, numbers(prompt), 8.0)
        + part(0.2, prompt.matches("```").count(), 1.0)
        + part(0.25, words, 2.0)
}

/// Runs of digits.
fn numbers(prompt: &str) -> usize {
    prompt.split(|character: char| !character.is_ascii_digit()).filter(|run| !run.is_empty()).count()
}

export_policy!(QueryLevel);

const SMALL: Role = 0;
const LARGE: Role = 1;
const PROMPT_BYTES: u32 = 16 << 10;
const REASONING: [&str; 12] = [
    "prove",
    "derive",
    "why ",
    "explain",
    "step by step",
    "optimal",
    "complexity",
    "integral",
    "probability",
    "how many",
    "debug",
    "compare",
];

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, start, step};

    use super::*;

    fn asked(prompt: &str) -> Journey<QueryLevel> {
        Journey::of(Start { prompt: prompt.to_owned(), ..start::<QueryLevel>(&[]) })
    }

    const HARD: &str = "Prove step by step that the sum of 1, 3, 5, 7, 9, 11 and 13 is 49.";

    #[test]
    fn a_hard_prompt_is_answered_by_the_large_model() {
        let mut journey = asked(HARD);
        assert_eq!(journey.enter(), LARGE);
        assert_eq!(journey.route(&Step { role: LARGE, ..step(0) }), Decision::Stay);
    }

    #[test]
    fn an_easy_prompt_is_answered_by_the_small_one() {
        assert_eq!(asked("Say hello to Ada.").enter(), SMALL);
    }

    #[test]
    fn difficulty_is_a_number_from_0_to_1() {
        assert_eq!(difficulty(""), 0.0);
        let everything = HARD.repeat(100) + "```";
        assert!((difficulty(&everything) - 1.0).abs() < 1e-9);
        let words = 0.25 + 0.3 * 30.0 / 4000.0;
        assert!((difficulty("Derive it; explain every turn.") - words).abs() < 1e-9);
    }

    #[test]
    fn a_number_is_a_run_of_digits() {
        assert_eq!(numbers("1, 22 and 3.5"), 4);
        assert_eq!(numbers("none"), 0);
    }
}
