//! Prints decode speed of a checkpoint on one thread: `cargo run --release -p engine --example decode_speed -- DIR`.
//!
//! Every journey has a prompt of 64 tokens; then the batch decodes greedily, one token per journey and step, with
//! signals and candidates as a policy would ask for. Figures are the best of five rounds, in tokens per second over
//! the whole batch.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::{Duration, Instant};

use engine::{CandleEngine, Engine, EngineError, ModelFiles, Row, load};
use journey::{Draw, JourneyId, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: decode_speed DIRECTORY")?;
    let mut engine = load("model", &ModelFiles::Directory(directory.into()), &mut |_| ())?.engine;
    println!("batch  prefill t/s  decode t/s  us/step");
    for batch in [1, 2, 4, 8, 16, 32] {
        let rounds = (0..ROUNDS).map(|_| round(&mut engine, batch)).collect::<Result<Vec<_>, _>>()?;
        let prefill = rounds.iter().map(|(prefill, _)| *prefill).min().unwrap_or_default();
        let decode = rounds.iter().map(|(_, decode)| *decode).min().unwrap_or_default();
        let per_second = |steps: usize, time: Duration| (steps * batch) as f64 / time.as_secs_f64();
        println!(
            "{batch:5}  {:11.0}  {:10.0}  {:7.1}",
            per_second(PROMPT, prefill),
            per_second(STEPS, decode),
            decode.as_secs_f64() / STEPS as f64 * 1e6
        );
    }
    Ok(())
}

/// Time of the prefill and of the decode steps.
fn round(engine: &mut CandleEngine, batch: usize) -> Result<(Duration, Duration), EngineError> {
    let draw = Some(Draw { sampling: Sampling::GREEDY, uniform: 0.0, candidates: 4 });
    let vocabulary = engine.spec().vocabulary as u32;
    let token =
        |journey: usize, position: usize| (journey as u32 * 31 + position as u32 * 7 + 3) % vocabulary;
    let prompts: Vec<Vec<u32>> =
        (0..batch).map(|journey| (0..PROMPT).map(|position| token(journey, position)).collect()).collect();
    let id = |journey: usize| JourneyId(journey as u64);

    let begin = Instant::now();
    let rows: Vec<Row<'_>> = prompts
        .iter()
        .enumerate()
        .map(|(journey, tokens)| Row { journey: id(journey), from: 0, tokens, draw })
        .collect();
    let mut last = tokens_of(&engine.step(&rows)?);
    let prefilled = Instant::now();
    for step in 0..STEPS {
        let rows: Vec<Row<'_>> = last
            .iter()
            .enumerate()
            .map(|(journey, tokens)| Row { journey: id(journey), from: PROMPT + step, tokens, draw })
            .collect();
        last = tokens_of(&engine.step(&rows)?);
    }
    let times = (prefilled - begin, prefilled.elapsed());
    (0..batch).for_each(|journey| engine.release(id(journey)));
    Ok(times)
}

fn tokens_of(sampled: &[Option<journey::Sampled>]) -> Vec<[u32; 1]> {
    sampled.iter().flatten().map(|sampled| [sampled.token]).collect()
}

const ROUNDS: usize = 5;
const PROMPT: usize = 64;
const STEPS: usize = 64;
