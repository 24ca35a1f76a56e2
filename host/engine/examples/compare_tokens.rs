//! Compares a model's token ids with another program's:
//! `cargo run --release -p engine --example compare_tokens -- MODEL IDS.json`.
//!
//! `IDS.json` is what `tests/golden/gguf_tokens.py ids` writes: a list of objects with `text` and `ids`, without BOS.
//! Prints how many are equal, and the first that are not.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Instant;

use engine::{ModelFiles, Tokenizer};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    text: String,
    ids: Vec<u32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(model), Some(ids)) = (arguments.next(), arguments.next()) else {
        return Err("usage: compare_tokens MODEL IDS.json".into());
    };
    let begin = Instant::now();
    let tokenizer = Tokenizer::load(&ModelFiles::Directory(model.into()))?;
    println!("{} tokens, read in {:.0?}", tokenizer.vocabulary().len(), begin.elapsed());
    let expected: Vec<Expected> = serde_json::from_slice(&std::fs::read(ids)?)?;
    let bos = tokenizer.encode("")?;
    let (mut equal, mut lossless) = (0, 0);
    for Expected { text, ids } in &expected {
        let found = tokenizer.encode(text)?;
        let found = &found[bos.len()..];
        lossless += usize::from(tokenizer.decode(found) == *text);
        if found == ids {
            equal += 1;
        } else {
            println!("{text:?}\n    {found:?}\n    not {ids:?}");
        }
    }
    println!("{equal} of {} texts have equal ids; {lossless} decode to themselves", expected.len());
    Ok(())
}
