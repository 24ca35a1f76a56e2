//! Word problems with a written chain of thought and a checkable answer.
//!
//! They are what the pair was trained on and what the benchmark asks it. Everything here is a pure function of a
//! seed, so a benchmark run can be repeated, and the questions asked are never among those trained on: the two
//! random streams differ by construction (see `Stream`), and [`Training`] also skips every question that the
//! default held-out set contains by chance. Nothing here tokenises, prompts a model or keeps a score.

mod families;

use std::collections::HashSet;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// The kind of a problem; each has its own generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Somebody's things are found, given away, lost and multiplied, step by step.
    Story,
    /// A bill of up to three kinds of goods, often with change to get back.
    Shop,
    /// One sum, difference or product.
    Plain,
    /// Small talk; it has no answer to check.
    Talk,
}

impl Family {
    /// The name used in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Story => "story",
            Self::Shop => "shop",
            Self::Plain => "plain",
            Self::Talk => "talk",
        }
    }
}

/// One question with the answer a perfect model would write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which generator made it.
    pub family: Family,
    /// What the user asks.
    pub question: String,
    /// The whole written answer; it ends in a line `Answer: ...` unless the problem is small talk.
    pub answer: String,
    /// What stands after `Answer:`; empty for small talk.
    pub gold: String,
}

impl Problem {
    /// Whether `text`, as a model wrote it, ends in the right answer.
    #[must_use]
    pub fn is_solved_by(&self, text: &str) -> bool {
        answer_of(text) == Some(self.gold.as_str())
    }
}

/// Which problems a held-out set holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Stories of at least four steps with only additions and multiplications.
    Gather,
    /// Every kind of story and shop bill, three stories to two bills.
    Wide,
}

impl Mix {
    /// The mix the benchmark asks unless told otherwise.
    pub const DEFAULT: Self = Self::Gather;

    /// The name used on command lines and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Wide => "wide",
        }
    }

    /// The mix called `name`.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Gather, Self::Wide].into_iter().find(|mix| mix.name() == name)
    }

    fn draw(self, rng: &mut StdRng) -> Problem {
        match self {
            Self::Gather => families::gather_story(rng),
            Self::Wide if rng.random_bool(0.6) => families::story(rng),
            Self::Wide => families::shop(rng),
        }
    }
}

/// How many problems the benchmark asks by default.
pub const HELD_OUT_COUNT: usize = 500;

/// The seed of the default held-out set.
pub const HELD_OUT_SEED: u64 = 1;

/// `count` different problems that no training stream is seeded to produce.
#[must_use]
pub fn held_out(mix: Mix, seed: u64, count: usize) -> Vec<Problem> {
    let mut rng = Stream::HeldOut.rng(seed);
    let mut asked = HashSet::new();
    let mut problems = Vec::with_capacity(count);
    while problems.len() < count {
        let problem = mix.draw(&mut rng);
        if asked.insert(problem.question.clone()) {
            problems.push(problem);
        }
    }
    problems
}

/// An endless stream of training problems of every family.
#[derive(Debug)]
pub struct Training {
    rng: StdRng,
    /// Questions of the default held-out sets, never yielded.
    excluded: HashSet<String>,
}

impl Training {
    /// The stream of `seed`, without the questions of the first `2 * HELD_OUT_COUNT` default held-out problems of
    /// each mix.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let excluded = [Mix::Gather, Mix::Wide]
            .into_iter()
            .flat_map(|mix| held_out(mix, HELD_OUT_SEED, 2 * HELD_OUT_COUNT))
            .map(|problem| problem.question)
            .collect();
        Self { rng: Stream::Training.rng(seed), excluded }
    }
}

impl Iterator for Training {
    type Item = Problem;

    fn next(&mut self) -> Option<Problem> {
        loop {
            let problem = match self.rng.random_range(0..100) {
                0..45 => families::story(&mut self.rng),
                45..68 => families::shop(&mut self.rng),
                68..98 => families::plain(&mut self.rng),
                _ => families::talk(&mut self.rng),
            };
            if !self.excluded.contains(&problem.question) {
                return Some(problem);
            }
        }
    }
}

/// The chat-format prompt for `question`, ready for the assistant to continue.
#[must_use]
pub fn prompt(question: &str) -> String {
    prompt_with_system(None, question)
}

/// Like [`prompt`], with a system message before the question.
#[must_use]
pub fn prompt_with_system(system: Option<&str>, question: &str) -> String {
    let system = system.map_or_else(String::new, |text| format!("<|im_start|>system\n{text}<|im_end|>\n"));
    format!("{system}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
}

/// What stands after the last `Answer:` in `text`.
#[must_use]
pub fn answer_of(text: &str) -> Option<&str> {
    let (_, after) = text.rsplit_once("Answer: ")?;
    after.lines().next().map(str::trim)
}

/// A system message some training prompts begin with, so that the models bear one.
pub fn system_message(rng: &mut impl rand::Rng) -> Option<&'static str> {
    if rng.random_bool(0.12) { SYSTEM_MESSAGES.choose(rng).copied() } else { None }
}

/// Where random numbers are drawn from.
///
/// The last byte of the generator's 32-byte key says which stream it is and the first eight hold the seed, so a
/// training seed and a held-out seed never give the same key, whatever their values.
#[derive(Clone, Copy, Debug)]
enum Stream {
    Training = 0,
    HeldOut = 1,
}

impl Stream {
    fn rng(self, seed: u64) -> StdRng {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[31] = self as u8;
        StdRng::from_seed(key)
    }
}

const SYSTEM_MESSAGES: [&str; 4] = [
    "You are a helpful assistant.",
    "You are a careful assistant. Think step by step.",
    "Answer the question.",
    "You are good at puzzles.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_on_the_last_answer_line() {
        assert_eq!(answer_of("1 + 1 = 2\nAnswer: 2"), Some("2"));
        assert_eq!(answer_of("Answer: 1\nno, Answer: 7 \nbye"), Some("7"));
        assert_eq!(answer_of("I do not know"), None);
    }

    #[test]
    fn every_written_answer_solves_its_own_problem() {
        for problem in Training::new(7).take(2_000).filter(|problem| problem.family != Family::Talk) {
            assert!(problem.is_solved_by(&problem.answer), "{problem:?}");
        }
    }

    #[test]
    fn every_equation_written_in_an_answer_holds() {
        for problem in Training::new(8).take(2_000) {
            for line in problem.answer.lines().filter(|line| line.contains(" = ")) {
                let words: Vec<&str> = line.split(' ').collect();
                let at = words.iter().position(|word| *word == "=").unwrap();
                let number = |index: usize| words[index].trim_end_matches('.').parse::<i64>().unwrap();
                let (left, right) = (number(at - 3), number(at - 1));
                let result = match words[at - 2] {
                    "+" => left + right,
                    "-" => left - right,
                    _ => left * right,
                };
                assert_eq!(result, number(at + 1), "{line}");
                assert!(result >= 0, "{line}");
            }
        }
    }

    #[test]
    fn gather_stories_have_four_steps_and_never_take_away() {
        for problem in held_out(Mix::Gather, 3, 200) {
            let steps = problem.answer.matches(" = ").count();
            assert!((4..=6).contains(&steps) && !problem.answer.contains(" - "), "{problem:?}");
        }
    }

    #[test]
    fn training_never_asks_a_held_out_question() {
        let asked: HashSet<String> = [Mix::Gather, Mix::Wide]
            .into_iter()
            .flat_map(|mix| held_out(mix, HELD_OUT_SEED, HELD_OUT_COUNT))
            .map(|problem| problem.question)
            .collect();
        assert!(Training::new(HELD_OUT_SEED).take(20_000).all(|problem| !asked.contains(&problem.question)));
    }

    #[test]
    fn the_same_seed_asks_the_same_questions() {
        assert_eq!(held_out(Mix::DEFAULT, 4, 20), held_out(Mix::DEFAULT, 4, 20));
        assert_ne!(held_out(Mix::DEFAULT, 4, 20), held_out(Mix::DEFAULT, 5, 20));
    }

    #[test]
    fn the_prompt_is_the_chat_template_of_the_models() {
        assert_eq!(prompt("Hi"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    }
}
