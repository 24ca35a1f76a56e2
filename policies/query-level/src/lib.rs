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
//! The entry model has read the prompt by the time a policy is asked; its first token is dropped if the other answers.
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{Decision, Descriptor, Parameter, Policy, Session, Start, Step, Trigger, export_policy};

/// The policy; for a journey it holds what it made of the prompt.
pub struct QueryLevel {
    is_hard: bool,
    max_tokens: u32,
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
            .guard(SMALL, Trigger::at_start())
    }

    fn start(start: Start) -> Self {
        let is_hard = difficulty(&start.prompt) > start.number("threshold");
        Self { is_hard, max_tokens: start.max_tokens }
    }
}

impl Session for QueryLevel {
    fn route(&mut self, step: &Step) -> Decision {
        if step.role == SMALL && step.index == 0 && self.is_hard {
            // A visit as long as the answer may be: the policy is not asked about the large model's tokens.
            return Decision::hand_off(LARGE, self.max_tokens);
        }
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

const SMALL: u32 = 0;
const LARGE: u32 = 1;
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
    fn a_hard_prompt_is_answered_by_the_large_model_and_nothing_more_is_asked() {
        let mut journey = asked(HARD);
        assert_eq!(journey.decisions(&[step(0), step(1)]), [Decision::hand_off(LARGE, 256), Decision::Stay]);
    }

    #[test]
    fn an_easy_prompt_stays() {
        assert_eq!(asked("Say hello to Ada.").route(&step(0)), Decision::Stay);
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
