//! What a head costs beside its model:
//! `cargo run --release -p engine --example head_cost -- HEAD.toml [SIZE] [THREADS]`.
//!
//! The model has random weights and a size of `RandomShape`, 0.6b by default; its hidden width must be the head's. Every
//! batch decodes for a few steps, and the best step's times are printed. `examples/heads/made.py` makes heads of the
//! published sizes.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use engine::{Device, Engine, Head, LoadOptions, RandomShape, Row, random};
use journey::{Draw, JourneyId};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = args.first() else { return Err("usage: head_cost HEAD.toml [SIZE] [THREADS]".into()) };
    let shape: RandomShape = args.get(1).map_or("0.6b", String::as_str).parse()?;
    let threads = args.get(2).map_or(Ok(1), |threads| threads.parse())?;
    let mut engine = random(shape, Device::Cpu, LoadOptions { threads, ..LoadOptions::default() })?;
    let head = Head::load(Path::new(path), engine.spec())?;
    println!(
        "{}: {} weights, {:.1} MFLOP a token",
        head.name(),
        head.parameters(),
        head.flops() as f64 / 1e6
    );
    engine.attach(vec![head])?;
    println!("{:>5} {:>12} {:>12}", "rows", "step, ms", "of it head");
    for rows in [1, 2, 4, 8, 16] {
        let (step, head) = measured(&mut *engine, rows)?;
        println!("{rows:>5} {:>12.2} {:>12.2}", step.as_secs_f64() * 1e3, head.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// The shortest step of a batch, and the shortest time of its heads.
fn measured(engine: &mut dyn Engine, rows: u64) -> Result<(Duration, Duration), Box<dyn Error>> {
    let draws = &[Draw { scores: true, ..Draw::GREEDY }];
    let mut best = (Duration::MAX, Duration::MAX);
    for position in 0..STEPS {
        let row = |id| Row { journey: JourneyId(id), salt: 0, from: position, tokens: &[7], draws };
        let batch: Vec<Row<'_>> = (0..rows).map(row).collect();
        let before = engine.profile();
        engine.step(&batch)?;
        let after = engine.profile();
        best = (best.0.min(after.total - before.total), best.1.min(after.heads - before.heads));
    }
    (0..rows).for_each(|id| engine.release(JourneyId(id)));
    Ok(best)
}

const STEPS: usize = 12;
