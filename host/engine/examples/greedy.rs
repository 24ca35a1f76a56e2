//! Compares greedy answers with those of another implementation of the same model:
//! `cargo run --release -p engine --example greedy -- MODEL PROMPTS.json`.
//!
//! `tests/bench/greedy.py` writes the file: per prompt its text, its token ids, and the ids that the other one chose.
//! The answer is decoded freely until the two differ. There, two right implementations differ only where they are
//! nearly undecided, so the gap between the two best logits is printed. Then the other's tokens are fed one by one, to
//! count how often both choose the same after the same past.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::path::PathBuf;

use engine::{Engine, EngineError, LoadOptions, Loaded, ModelFiles, Row, load};
use journey::{Draw, JourneyId, Sampled};
use serde::Deserialize;

#[derive(Deserialize)]
struct Answers {
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    text: String,
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    /// Between the other's two best logits, at each of its choices.
    gaps: Vec<f32>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(model), Some(file)) = (args.next(), args.next()) else {
        return Err("usage: greedy MODEL PROMPTS.json".into());
    };
    let Answers { answers } = serde_json::from_slice(&std::fs::read(file)?)?;
    let Loaded { mut engine, tokenizer } =
        load("model", &ModelFiles::Directory(model), options(), &mut |_| ())?;
    let (mut same, mut agreed, mut steps) = (0, 0, 0);
    for (number, answer) in answers.iter().enumerate() {
        println!("\nprompt {number}: {:?}", answer.text);
        let ours = tokenizer.encode(&answer.text)?;
        if ours != answer.prompt_ids {
            println!("  tokens differ: we make {ours:?}, the other {:?}", answer.prompt_ids);
        }
        let free = decode(&mut engine, answer, false)?;
        let ids: Vec<u32> = free.iter().map(|sampled| sampled.token).collect();
        println!("  ids {ids:?}");
        same += usize::from(differs(&free, answer).is_none());
        println!("  {}", differs(&free, answer).unwrap_or_else(|| "the same answer".to_owned()));
        let led = decode(&mut engine, answer, true)?;
        let equal = led.iter().zip(&answer.ids).filter(|(sampled, id)| sampled.token == **id).count();
        println!("  fed the other's tokens: {equal} of {} choices agree", answer.ids.len());
        agreed += equal;
        steps += answer.ids.len();
    }
    println!("\n{same} of {} answers are the same; {agreed} of {steps} choices agree", answers.len());
    Ok(())
}

/// Everything is computed: nothing may come out of a cache of prefixes.
fn options() -> LoadOptions {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    LoadOptions { threads, share_prefixes: false, ..LoadOptions::default() }
}

/// One choice per token of the other's answer. `led`: each follows the other's tokens instead of our own.
fn decode(engine: &mut dyn Engine, answer: &Answer, led: bool) -> Result<Vec<Sampled>, EngineError> {
    let journey = JourneyId(0);
    let draws = &[Draw { candidates: 2, ..Draw::GREEDY }];
    let mut choices: Vec<Sampled> = Vec::new();
    let (mut from, mut tokens) = (0, answer.prompt_ids.clone());
    for id in &answer.ids {
        let sampled =
            engine.step(&[Row { journey, salt: 0, from, tokens: &tokens, draws }])?.into_iter().next();
        let Some(sampled) = sampled else { break };
        from += tokens.len();
        tokens = vec![if led { *id } else { sampled.token }];
        choices.push(sampled);
    }
    engine.release(journey);
    Ok(choices)
}

/// Where the answers part, if they do.
fn differs(choices: &[Sampled], answer: &Answer) -> Option<String> {
    let at = choices.iter().zip(&answer.ids).position(|(sampled, id)| sampled.token != *id)?;
    let (sampled, theirs) = (&choices[at], answer.ids[at]);
    let [best, second] = sampled.candidates.get(..2)? else { return None };
    let gap = best.logit - second.logit;
    let rank = if second.token == theirs { "our second choice" } else { "neither of our two best" };
    let their_gap = answer.gaps.get(at).copied().unwrap_or(f32::NAN);
    Some(format!(
        "token {at}: we choose {}, the other {theirs} ({rank}); gap {gap:.4}, the other's {their_gap:.4}",
        sampled.token
    ))
}
