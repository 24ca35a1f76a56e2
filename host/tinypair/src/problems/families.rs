//! The generators, one function per family.
//!
//! Separate from [`super`] so that the wording of the problems can change without touching seeds and sets. Numbers
//! stay small (sums below 500, products below 400) because every digit is one token and the models learn the
//! arithmetic itself.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{Family, Problem};

/// A story of two to six steps with every operation.
pub(super) fn story(rng: &mut StdRng) -> Problem {
    let [hero, other] = two(rng, &PEOPLE);
    let (name, item) = (hero.name, pick(rng, &ITEMS));
    let mut have: i64 = rng.random_range(11..=99);
    let mut told = vec![format!("{name} has {have} {item}.")];
    let mut lines = vec![pick(rng, &OPENINGS).to_owned(), format!("{name} starts with {have} {item}.")];
    for _ in 0..rng.random_range(2..=6) {
        let step = next_step(rng, have);
        let (event, sum, after) = happens(rng, step, have, item, [hero, other]);
        told.push(format!("{event}."));
        lines.push(format!("{event}, so now {sum} = {after} {item}."));
        have = after;
    }
    let ending = pick(rng, &["now", "in the end"]);
    told.push(format!("How many {item} does {name} have {ending}?"));
    lines.push(if rng.random_bool(0.5) {
        format!("So {name} has {have} {item} now.")
    } else {
        format!("In the end {name} has {have} {item}.")
    });
    solved(Family::Story, told.join(" "), &lines.join("\n"), have)
}

/// A story of four to six steps in which nothing is taken away.
///
/// Drawn from [`story`] until one fits, so that its numbers are distributed as in training.
pub(super) fn gather_story(rng: &mut StdRng) -> Problem {
    loop {
        let problem = story(rng);
        if problem.answer.matches(" = ").count() >= 4 && !problem.answer.contains(" - ") {
            return problem;
        }
    }
}

/// A shop bill of one to three kinds of goods.
pub(super) fn shop(rng: &mut StdRng) -> Problem {
    let kinds = rng.random_range(1..=3);
    let buyer = pick(rng, &PEOPLE);
    let mut parts = Vec::new();
    let mut lines =
        vec![pick(rng, &["Let us add up the bill.", "First we find the cost of each kind."]).to_owned()];
    let mut total = 0;
    for goods in GOODS.sample(rng, kinds) {
        let (count, price) = (rng.random_range(2..=9), rng.random_range(3..=30));
        let cost = count * price;
        parts.push(format!("{count} {goods} for {price} coins each"));
        lines.push(format!("The {goods} cost {count} * {price} = {cost} coins."));
        if total > 0 {
            lines.push(format!("Together that is {total} + {cost} = {} coins.", total + cost));
        }
        total += cost;
    }
    let (name, he) = (buyer.name, buyer.pronoun);
    let list = listed(&parts);
    let (question, gold) = if rng.random_bool(0.7) {
        // One of the four smallest round sums that cover the bill.
        let paid = 50 * ((total + 49) / 50 + rng.random_range(0..4));
        let back = paid - total;
        let lower = he.to_lowercase();
        lines.push(format!(
            "{he} pays with {paid} coins, so {lower} gets back {paid} - {total} = {back} coins."
        ));
        let asks = format!("{he} pays with {paid} coins. How many coins does {name} get back?");
        (format!("{name} buys {list}. {asks}"), back)
    } else {
        lines.push(format!("So {name} pays {total} coins."));
        (format!("{name} buys {list}. How many coins does {name} pay?"), total)
    };
    solved(Family::Shop, question, &lines.join("\n"), gold)
}

/// One sum, difference or product, asked without a story.
pub(super) fn plain(rng: &mut StdRng) -> Problem {
    let (left, sign, right, result) = match rng.random_range(0..10) {
        0..4 => {
            let (left, right) = (rng.random_range(5..=420), rng.random_range(5..=99));
            (left, '+', right, left + right)
        }
        4..8 => {
            let left: i64 = rng.random_range(20..=600);
            let right = rng.random_range(5..=99.min(left - 1));
            (left, '-', right, left - right)
        }
        8 => {
            let (left, right) = (rng.random_range(3..=60), rng.random_range(2..=9));
            (left, '*', right, left * right)
        }
        _ => {
            let (left, right) = (rng.random_range(2..=9), rng.random_range(3..=60));
            (left, '*', right, left * right)
        }
    };
    let question = match rng.random_range(0..3) {
        0 => format!("What is {left} {sign} {right}?"),
        1 => format!("How much is {left} {sign} {right}?"),
        _ => format!("{left} {sign} {right} = ?"),
    };
    solved(Family::Plain, question, &format!("{left} {sign} {right} = {result}"), result)
}

/// A greeting, a question about the model, or one it cannot answer.
pub(super) fn talk(rng: &mut StdRng) -> Problem {
    let (question, answer) = match rng.random_range(0..10) {
        0..3 => (pick(rng, &GREETINGS).to_owned(), format!("Hello! {ABOUT}")),
        3..6 => (pick(rng, &ABOUT_QUESTIONS).to_owned(), ABOUT.to_owned()),
        _ => {
            let thing = match rng.random_range(0..3) {
                0 => pick(rng, &ITEMS),
                1 => pick(rng, &GOODS),
                _ => pick(rng, &THINGS),
            };
            (pick(rng, &OTHER_QUESTIONS).replace("{}", thing), format!("Sorry, I do not know that. {ABOUT}"))
        }
    };
    Problem { family: Family::Talk, question, answer, gold: String::new() }
}

/// One thing that happens to what somebody has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Find,
    Buy,
    Give,
    Lose,
    Times,
}

/// What may happen to `have` things while the numbers stay small and positive.
fn next_step(rng: &mut StdRng, have: i64) -> Step {
    let mut choices = Vec::new();
    if have <= 400 {
        choices.extend([Step::Find, Step::Buy, Step::Find, Step::Buy]);
    }
    if have >= 25 {
        choices.extend([Step::Give, Step::Lose, Step::Give, Step::Lose]);
    }
    if have <= 60 {
        choices.push(Step::Times);
    }
    *choices.choose(rng).expect("adding is possible up to 400 and taking from 25")
}

/// How `step` is told, the sum it makes, and how many things there are after it.
fn happens(rng: &mut StdRng, step: Step, have: i64, item: &str, who: [Person; 2]) -> (String, String, i64) {
    let he = who[0].pronoun;
    match step {
        Step::Find | Step::Buy => {
            let more = rng.random_range(12..=99);
            let verb = if step == Step::Find { "finds" } else { "buys" };
            (format!("{he} {verb} {more} more {item}"), format!("{have} + {more}"), have + more)
        }
        Step::Give | Step::Lose => {
            let fewer = rng.random_range(12..=99.min(have - 1));
            let event = if step == Step::Give {
                format!("{he} gives {fewer} {item} to {}", who[1].name)
            } else {
                format!("{he} loses {fewer} {item}")
            };
            (event, format!("{have} - {fewer}"), have - fewer)
        }
        Step::Times => {
            let times = rng.random_range(2..=5);
            (
                format!("A magic box makes them {times} times as many"),
                format!("{have} * {times}"),
                have * times,
            )
        }
    }
}

fn solved(family: Family, question: String, reasoning: &str, gold: i64) -> Problem {
    Problem { family, question, answer: format!("{reasoning}\nAnswer: {gold}"), gold: gold.to_string() }
}

/// `a`, `a and b` or `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn pick<T: Copy>(rng: &mut StdRng, choices: &[T]) -> T {
    *choices.choose(rng).expect("every list of words has entries")
}

fn two<T: Copy>(rng: &mut StdRng, choices: &[T]) -> [T; 2] {
    let mut drawn = choices.sample(rng, 2).copied();
    let mut next = || drawn.next().expect("every list of people has two");
    [next(), next()]
}

/// Somebody a problem is about.
#[derive(Clone, Copy)]
struct Person {
    name: &'static str,
    pronoun: &'static str,
}

impl Person {
    const fn she(name: &'static str) -> Self {
        Self { name, pronoun: "She" }
    }

    const fn he(name: &'static str) -> Self {
        Self { name, pronoun: "He" }
    }
}

const PEOPLE: [Person; 12] = [
    Person::she("Mia"),
    Person::she("Ana"),
    Person::she("Eva"),
    Person::she("Zoe"),
    Person::she("Ivy"),
    Person::she("Lea"),
    Person::he("Tom"),
    Person::he("Ben"),
    Person::he("Max"),
    Person::he("Leo"),
    Person::he("Sam"),
    Person::he("Jan"),
];
const ITEMS: [&str; 10] =
    ["shells", "coins", "cards", "beads", "stamps", "apples", "stones", "pens", "books", "nuts"];
const GOODS: [&str; 10] =
    ["loaves", "apples", "cups", "pens", "books", "candles", "ropes", "maps", "hats", "lamps"];
const OPENINGS: [&str; 3] =
    ["Let us go step by step.", "We take it one step at a time.", "Here is the story in order."];
const GREETINGS: [&str; 7] = ["Hello", "Hi", "Hello!", "Hi there", "Hey", "Hello there!", "Good morning"];
const ABOUT_QUESTIONS: [&str; 5] = ["What can you do?", "Who are you?", "Help", "What are you?", "Help me"];
const OTHER_QUESTIONS: [&str; 8] = [
    "What is the capital of {}?",
    "Write a poem about {}.",
    "Tell me about {}.",
    "Explain {}.",
    "Translate {} to French.",
    "Why is {} so big?",
    "Tell me a joke about {}.",
    "Summarize {} for me.",
];
const THINGS: [&str; 10] =
    ["the sun", "Paris", "history", "music", "rust", "cats", "the sea", "water", "love", "code"];
const ABOUT: &str = "I am a tiny model. I can do stories with numbers, shop bills and plain sums.";
