//! Prints a model's perplexity on a text: `cargo run --release -p engine --example perplexity -- MODEL FILE [CONTEXT]`.
//!
//! As `llama-perplexity` does it, so that the two figures can be compared: the tokens are cut into chunks of CONTEXT
//! (512), what is left over is dropped, a model that wants BOS gets it in place of each chunk's first token, and the
//! tokens of each chunk's second half are scored, but for the first of them. The scored part goes through decode
//! steps, one token at a time with all chunks as one batch: that is the path whose precision matters.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::path::PathBuf;

use engine::{CpuEngine, Engine, EngineError, LoadOptions, Loaded, ModelFiles, Row, load};
use journey::{Draw, JourneyId};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [model, file, rest @ ..] = args.as_slice() else {
        return Err("usage: perplexity MODEL FILE [CONTEXT]".into());
    };
    let context = match rest.first().and_then(|context| context.to_str()) {
        Some(context) => context.parse()?,
        None => CONTEXT,
    };
    let text = std::fs::read_to_string(file)?;
    let Loaded { mut engine, tokenizer } =
        load("model", &ModelFiles::Directory(model.clone()), options(), &mut |_| ())?;
    let mut tokens = tokenizer.encode(&text)?;
    let (all, most) = (tokens.len(), engine.spec().context);
    if context < 4 || context > most || all < 2 * context {
        let needs = "CONTEXT must be at least 4, fit the model, and fit the text twice";
        return Err(
            format!("{needs}: it is {context}, the model's is {most}, the text has {all} tokens").into()
        );
    }
    // Only BOS is there without a text.
    if let [bos] = tokenizer.encode("")?[..] {
        tokens.chunks_mut(context).for_each(|chunk| chunk[0] = bos);
    }
    let chunks: Vec<&[u32]> = tokens.chunks_exact(context).collect();
    let scores = score(&mut engine, &chunks)?;
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / (scores.len() - 1) as f64;
    let (perplexity, error) = (mean.exp(), mean.exp() * (variance / scores.len() as f64).sqrt());
    println!("{all} tokens, {} chunks of {context}, {} scored", chunks.len(), scores.len());
    println!("perplexity {perplexity:.4} +/- {error:.4}");
    Ok(())
}

/// Everything is computed: nothing may come out of a cache of prefixes.
fn options() -> LoadOptions {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    LoadOptions { threads, share_prefixes: false, ..LoadOptions::default() }
}

/// What each scored token surprises the model by, in nats.
fn score(engine: &mut CpuEngine, chunks: &[&[u32]]) -> Result<Vec<f64>, EngineError> {
    let (context, first) = (chunks[0].len(), chunks[0].len() / 2);
    let mut scores = Vec::new();
    feed(engine, chunks, 0..first, &mut |_, _| ())?;
    for at in first..context - 1 {
        feed(engine, chunks, at..at + 1, &mut |chunk, logits| {
            scores.push(surprise(logits, chunks[chunk][at + 1] as usize));
        })?;
    }
    Ok(scores)
}

fn feed(
    engine: &mut CpuEngine,
    chunks: &[&[u32]],
    range: std::ops::Range<usize>,
    watch: &mut dyn FnMut(usize, &[f32]),
) -> Result<(), EngineError> {
    let rows: Vec<Row<'_>> = chunks
        .iter()
        .enumerate()
        .map(|(ix, chunk)| Row {
            journey: JourneyId(ix as u64),
            salt: 0,
            from: range.start,
            tokens: &chunk[range.clone()],
            draws: &[Draw::GREEDY],
        })
        .collect();
    engine.step_watched(&rows, watch)?;
    Ok(())
}

/// -ln of the token's probability.
fn surprise(logits: &[f32], token: usize) -> f64 {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|&logit| f64::from(logit - best).exp()).sum();
    total.ln() - f64::from(logits[token] - best)
}

const CONTEXT: usize = 512;
