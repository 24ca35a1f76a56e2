//! `tokenrouter model inspect`: what a model's files hold, without reading the weights.

use std::path::PathBuf;

use clap::Subcommand;
use engine::{ChatMessage, EngineError, ModelFiles, ModelSpec, Tokenizer};

use super::CliError;
use crate::terminal::{Align, Table, Terminal};

/// Look at a model's files.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  tokenrouter model inspect embedded:small")]
pub(super) enum Model {
    /// Show a model's architecture, size, and what a token of context costs.
    Inspect(Inspect),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter model inspect embedded:small
  tokenrouter model inspect models/SmolLM2-135M")]
pub(super) struct Inspect {
    /// A folder in the Hugging Face layout, or embedded:NAME.
    #[arg(value_name = "DIR|embedded:NAME")]
    model: String,
}

pub(super) fn inspect(args: &Inspect, terminal: &Terminal) -> Result<(), CliError> {
    let files = files(&args.model)?;
    let failed = |source| CliError::Model { model: args.model.clone(), source: Box::new(source) };
    let spec = engine::inspect(&files).map_err(failed)?;
    let tokenizer = Tokenizer::load(&files).map_err(failed)?;
    Ok(terminal.line(format_args!("{}", describe(&spec, &tokenizer)))?)
}

/// Where the files of a model named on the command line are.
pub(super) fn files(model: &str) -> Result<ModelFiles, CliError> {
    let Some(name) = model.strip_prefix("embedded:") else {
        return Ok(ModelFiles::Directory(PathBuf::from(model)));
    };
    let found = tinypair::models::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = tinypair::models::ALL.iter().map(|model| model.name).collect();
        CliError::NoSuchEmbedded { name: name.to_owned(), known: known.join(", ") }
    })?;
    Ok(ModelFiles::Embedded { name: found.name, files: found.files })
}

fn describe(spec: &ModelSpec, tokenizer: &Tokenizer) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row([&"model", &spec.name]);
    table.row([&"architecture", &spec.architecture]);
    table.row([&"parameters", &grouped(spec.parameters)]);
    table.row([&"stored as", &spec.dtype]);
    table.row([&"weights in memory", &size(spec.weight_bytes)]);
    table.row([&"layers", &spec.layers]);
    table.row([&"hidden / feed-forward", &format!("{} / {}", spec.hidden, spec.intermediate)]);
    let heads = format!("{} query, {} key and value, {} wide", spec.heads, spec.kv_heads, spec.head_dim);
    table.row([&"heads", &heads]);
    table.row([&"vocabulary", &grouped(spec.vocabulary as u64)]);
    table.row([&"context", &format!("{} tokens", grouped(spec.context as u64))]);
    table.row([&"KV per token", &size(spec.kv_bytes_per_token)]);
    let full = spec.kv_bytes_per_token * spec.context as u64;
    table.row([&"KV of a full context", &size(full)]);
    let eos: Vec<String> = spec.eos.iter().map(ToString::to_string).collect();
    table.row([&"end tokens", &if eos.is_empty() { "none".to_owned() } else { eos.join(", ") }]);
    table.row([&"chat template", &chat_template(tokenizer)]);
    table
}

fn chat_template(tokenizer: &Tokenizer) -> String {
    let hello = ChatMessage { role: "user".to_owned(), content: "Hello".to_owned() };
    match tokenizer.encode_chat(&[hello]) {
        Ok(_) => "yes".to_owned(),
        Err(EngineError::NoTemplate) => "no (completions only)".to_owned(),
        Err(error) => format!("yes, but it does not take a user's message: {error}"),
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (ix, digit) in digits.chars().enumerate() {
        if ix > 0 && (digits.len() - ix).is_multiple_of(3) {
            shown.push(' ');
        }
        shown.push(digit);
    }
    shown
}

/// Bytes in the largest unit that keeps the number above 1.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{amount:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(672), "672");
        assert_eq!(grouped(1_193_600), "1 193 600");
    }

    #[test]
    fn sizes_have_the_largest_unit_that_fits() {
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1024), "1.0 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
