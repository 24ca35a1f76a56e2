//! Trains a router head for the tiny pair, in the manner of R2R, or measures one.
//!
//! `--out DIR` labels tokens of the small model on generated problems (`label`), trains a small network on what the
//! engine's heads can read (`features`, `network`) and writes it as a head (`written`). `--evaluate DIR` routes
//! held-out problems by that head, by entropy, by margin and at random (`evaluate`, `route`).

mod evaluate;
mod features;
mod label;
mod network;
mod pair;
mod route;
#[cfg(test)]
mod tests;
mod written;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow};
use clap::Parser;
use engine::{Engine as _, Head, ModelFiles, ModelSpec};
use tinypair::heads::R2R;
use tinypair::problems::{Family, HELD_OUT_COUNT, Mix, Problem, Training};

use crate::pair::Pair;

/// Trains or measures a router head.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seed of the training problems and of the network; the small model was trained on those of seed 1.
    #[arg(long, default_value_t = 2)]
    seed: u64,
    /// How many problems to label.
    #[arg(long, default_value_t = 4_000)]
    problems: usize,
    /// Folder to write the head into.
    #[arg(long, required_unless_present = "evaluate")]
    out: Option<PathBuf>,
    /// Measure the head in this folder (or `embedded`).
    #[arg(long)]
    evaluate: Option<PathBuf>,
    /// Held-out problems to measure with: `gather` or `wide`.
    #[arg(long, default_value = Mix::DEFAULT.name(), value_parser = mix)]
    mix: Mix,
    /// How many held-out problems to measure with; training leaves out the first 1000.
    #[arg(long, default_value_t = HELD_OUT_COUNT)]
    held_out: usize,
    /// Threads that compute.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut pair = Pair::load(arguments.threads)?;
    if let Some(folder) = &arguments.out {
        train(&mut pair, &arguments, folder)?;
    }
    if let Some(folder) = &arguments.evaluate {
        let head = head(folder, pair.small.engine.spec())?;
        pair.small.engine.attach(vec![head])?;
        let (mix, count, mut out) = (arguments.mix, arguments.held_out, io::stdout());
        evaluate::areas(&mut pair, mix, count, &mut out)?;
        evaluate::table(&mut pair, mix, count, &mut out)?;
    }
    Ok(())
}

/// Labels, trains and writes.
fn train(pair: &mut Pair, arguments: &Arguments, folder: &Path) -> Result<()> {
    let begun = Instant::now();
    let hidden = pair.small.engine.spec().hidden;
    pair.small.engine.attach(vec![features::head(pair.small.engine.spec())?])?;
    let problems: Vec<Problem> = Training::new(arguments.seed)
        .filter(|problem| problem.family != Family::Talk)
        .take(arguments.problems)
        .collect();
    let examples = label::examples(pair, &problems)?;
    let useful = examples.iter().filter(|example| example.is_useful).count();
    let differing = examples.iter().filter(|example| example.differs).count();
    let (count, seconds) = (examples.len(), begun.elapsed().as_secs());
    let mut out = io::stdout();
    writeln!(out, "{count} examples, {differing} differ, {useful} are useful to replace ({seconds} s)")?;
    let network = network::train(&examples, arguments.seed);
    writeln!(out, "trained ({} s)", begun.elapsed().as_secs())?;
    let (seed, asked) = (arguments.seed, arguments.problems);
    let about = format!("Trained by examples/train_head --seed {seed} --problems {asked}.");
    written::write(&network, hidden, &about, folder)
}

/// The head in `folder`, or the embedded one.
fn head(folder: &Path, model: &ModelSpec) -> Result<Head> {
    if folder == Path::new("embedded") {
        return embedded(model);
    }
    Ok(Head::load(&folder.join("r2r.toml"), model)?)
}

/// The head that is compiled into the crate.
fn embedded(model: &ModelSpec) -> Result<Head> {
    let files = ModelFiles::Embedded { name: R2R.model, files: R2R.files };
    Ok(Head::load_from(&files, R2R.graph, model)?)
}

fn mix(name: &str) -> Result<Mix> {
    Mix::by_name(name).ok_or_else(|| anyhow!("no such mix"))
}
