//! What a grammar costs with a model's vocabulary: to make the compiler and a grammar, to begin an answer, and at each token.
//!
//! `cargo run --release --example grammar_cost -- MODEL`, where MODEL is a folder or a GGUF file. An answer is written by
//! taking allowed tokens at random, so it is as long as its schema lets it be.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::{ModelFiles, Tokenizer};
use grammar::Compiler;
use journey::random::{Purpose, uniform};
use journey::{Standing, TokenMask};
use serde_json::json;

#[expect(clippy::print_stdout, reason = "it is a program that prints")]
fn main() -> anyhow::Result<()> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.ok_or_else(|| anyhow::anyhow!("name a model: a folder or a GGUF file"))?;
    let vocabulary = Tokenizer::load(&ModelFiles::Directory(path))?.vocabulary();
    let begun = Instant::now();
    let compiler = Compiler::new(&vocabulary, usize::MAX)?;
    println!("vocabulary of {} tokens: {:.1?}", vocabulary.len(), begun.elapsed());
    let item = json!({"type": "object", "required": ["name", "size", "tags"], "additionalProperties": false, "properties": {
        "name": {"type": "string", "maxLength": 20}, "size": {"type": "number"},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3}}});
    for (name, schema) in [
        ("any object", json!({"type": "object"})),
        ("a list of things", json!({"type": "array", "items": item, "minItems": 4, "maxItems": 6})),
    ] {
        let begun = Instant::now();
        let grammar = compiler.compile(&grammar::json(&schema)?)?;
        let compiled = begun.elapsed();
        let begun = Instant::now();
        let mut matcher = grammar.begin();
        let clone = begun.elapsed();
        let (mut masks, mut takes) = (Vec::new(), Vec::new());
        let mut mask = TokenMask::default();
        for position in 0..2000 {
            let begun = Instant::now();
            matcher.allow(&mut mask);
            masks.push(begun.elapsed());
            let count = mask.allowed(vocabulary.len()).count();
            let at = (uniform(1, position, Purpose::Sample, 0) * count as f64) as usize;
            let Some(token) = mask.allowed(vocabulary.len()).nth(at) else { break };
            let begun = Instant::now();
            let taken = matcher.take(token) && matcher.standing() != Standing::Complete;
            takes.push(begun.elapsed());
            if !taken {
                break;
            }
        }
        println!(
            "{name}: compiled in {compiled:.1?}, an answer begun in {clone:.1?}; {} tokens",
            masks.len()
        );
        println!("  mask {}; token taken {}", spread(&mut masks), spread(&mut takes));
    }
    Ok(())
}

fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    format!("p50 {:.1?}, p99 {:.1?}, most {:.1?}", at(0.5), at(0.99), at(0.999_999))
}
