//! Trains the tiny pair from a seed, or measures a pair that is already there.
//!
//! `--seed 1 --out DIR` trains both models and writes `DIR/small` and `DIR/large`; `--check DIR` only measures, and
//! `--check embedded` measures the pair compiled into the crate. The same seed and token budget give the same weights
//! on the same processor; with `--minutes` the learning-rate schedule follows the clock instead.

mod attention;
mod check;
mod checkpoint;
mod data;
mod decode;
mod lanes;
mod model;
mod ops;
mod optimizer;
mod progress;
mod rotary;
mod trainer;
mod vocabulary;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::{Parser, ValueEnum};
use tinypair::models;
use tinypair::problems::{self, HELD_OUT_COUNT, HELD_OUT_SEED, Mix};
use tokenizers::Tokenizer;

use crate::data::Batches;
use crate::decode::Pair;
use crate::model::{Model, ModelShape};
use crate::trainer::{Budget, Schedule};

/// Trains or measures the tiny pair.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seed of the weights and of the training problems.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder to write `small` and `large` into.
    #[arg(long, required_unless_present = "check")]
    out: Option<PathBuf>,
    /// Train the models in this folder (or `embedded`) further instead of starting from random weights.
    #[arg(long)]
    from: Option<PathBuf>,
    /// Which model to train.
    #[arg(long, value_enum, default_value_t = Which::Both)]
    model: Which,
    /// Stop after this many minutes per model instead of after a number of tokens.
    #[arg(long)]
    minutes: Option<f64>,
    /// Millions of tokens per model; by default 6 for the small one and 20 for the large one.
    #[arg(long)]
    million_tokens: Option<f64>,
    /// Build a new tokenizer of at most this many tokens instead of keeping the committed one.
    #[arg(long)]
    new_tokenizer: Option<usize>,
    /// Measure the pair in this folder (or `embedded`) and train nothing.
    #[arg(long)]
    check: Option<PathBuf>,
    /// Held-out problems to measure with: `gather` or `wide`.
    #[arg(long, default_value = Mix::DEFAULT.name(), value_parser = mix)]
    mix: Mix,
    /// How many held-out problems to measure with.
    #[arg(long, default_value_t = HELD_OUT_COUNT)]
    problems: usize,
}

/// The models to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Small,
    Large,
    Both,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(pair) = &arguments.check {
        return measure(&arguments, pair);
    }
    let out = arguments.out.as_deref().context("--out is missing")?;
    let tokenizer_json = tokenizer_json(&arguments)?;
    let vocab = tokenizer(&tokenizer_json)?.get_vocab_size(true);
    if arguments.model != Which::Large {
        train(
            &arguments,
            &start(&arguments, "small", ModelShape::small(vocab))?,
            &tokenizer_json,
            &out.join("small"),
        )?;
    }
    if arguments.model != Which::Small {
        train(
            &arguments,
            &start(&arguments, "large", ModelShape::large(vocab))?,
            &tokenizer_json,
            &out.join("large"),
        )?;
    }
    if arguments.model == Which::Both { measure(&arguments, out) } else { Ok(()) }
}

/// The weights that training of the model `name` starts from.
fn start(arguments: &Arguments, name: &str, shape: ModelShape) -> Result<Model> {
    match arguments.from.as_deref() {
        None => Ok(Model::new(shape, arguments.seed)?),
        Some(from) => load(from, name),
    }
}

/// The model `name` of the pair in the folder `from`, or of the embedded pair.
fn load(from: &Path, name: &str) -> Result<Model> {
    if from == Path::new("embedded") {
        return checkpoint::embedded(&models::by_name(name).context("no such model is embedded")?);
    }
    checkpoint::read(&from.join(name))
}

/// Trains one model, writes it, and prints its greedy accuracy.
fn train(arguments: &Arguments, model: &Model, tokenizer_json: &[u8], to: &Path) -> Result<()> {
    let default_tokens = if model.shape.hidden < 128 { 6.0 } else { 20.0 };
    let tokens = (arguments.million_tokens.unwrap_or(default_tokens) * 1e6) as u64;
    let budget = arguments.minutes.map_or(Budget::Tokens(tokens), Budget::Minutes);
    let tokenizer = tokenizer(tokenizer_json)?;
    let schedule = if arguments.from.is_some() { Schedule::Further } else { Schedule::Scratch };
    let mut batches = Batches::new(arguments.seed, tokenizer.clone());
    trainer::train(model, &mut batches, budget, schedule)?;
    checkpoint::write(model, tokenizer_json, to)?;
    let model = checkpoint::read(to)?;
    let held_out = problems::held_out(arguments.mix, HELD_OUT_SEED, arguments.problems);
    let written = check::alone(&Pair { small: Some(&model), large: None, tokenizer: &tokenizer }, &held_out)?;
    let accuracy = check::accuracy(&written);
    let (count, mix) = (held_out.len(), arguments.mix.name());
    writeln!(io::stdout(), "{}: {accuracy:.1} % of {count} {mix} problems solved", to.display())?;
    Ok(())
}

/// Prints the figures of the pair in the folder `from`.
fn measure(arguments: &Arguments, from: &Path) -> Result<()> {
    let json = if from == Path::new("embedded") {
        models::SMALL.file("tokenizer.json").context("no embedded tokenizer")?.to_vec()
    } else {
        std::fs::read(from.join("small/tokenizer.json"))?
    };
    let (small, large) = (load(from, "small")?, load(from, "large")?);
    let held_out = problems::held_out(arguments.mix, HELD_OUT_SEED, arguments.problems);
    let mut out = io::stdout();
    writeln!(out, "{} held-out problems, mix {}", held_out.len(), arguments.mix.name())?;
    writeln!(out, "{:<44} {:>6} {:>9}", "", "large %", "solved %")?;
    check::report([&small, &large], &tokenizer(&json)?, &held_out, &mut out)
}

fn tokenizer_json(arguments: &Arguments) -> Result<Vec<u8>> {
    if let Some(vocab) = arguments.new_tokenizer {
        let built = vocabulary::build(vocab, arguments.seed)?;
        let json = built.to_string(true).map_err(|error| anyhow!("writing the tokenizer: {error}"))?;
        return Ok(json.into_bytes());
    }
    Ok(models::SMALL.file("tokenizer.json").context("no embedded tokenizer")?.to_vec())
}

fn tokenizer(json: &[u8]) -> Result<Tokenizer> {
    Tokenizer::from_bytes(json).map_err(|error| anyhow!("reading the tokenizer: {error}"))
}

fn mix(name: &str) -> Result<Mix> {
    Mix::by_name(name).ok_or_else(|| anyhow!("no such mix"))
}
