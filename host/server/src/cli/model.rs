//! `tokenrouter model`: what a model's files hold, without reading the weights; and bringing models from the hub.

use std::path::Path;

use clap::Subcommand;
use engine::{ChatMessage, EngineError, KvType, ModelFiles, ModelSpec, Tokenizer};

use super::CliError;
use crate::models::{HubModel, ModelSource, SourceError, available_memory, pull};
use crate::terminal::{Align, LoadBar, Table, Terminal, grouped, size};

/// Bring models, and look at their files.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  tokenrouter model inspect embedded:small
  tokenrouter model pull hf:Qwen/Qwen2.5-0.5B-Instruct")]
pub(super) enum Model {
    /// Show a model's architecture, size, and what a token of context costs.
    Inspect(Inspect),
    /// Download a model from the Hugging Face Hub into the cache that Python uses too.
    Pull(Pull),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter model inspect embedded:small
  tokenrouter model inspect models/SmolLM2-135M
  tokenrouter model inspect models/qwen2.5-coder-0.5b-q4_k_m.gguf
  tokenrouter model inspect hf:Qwen/Qwen2.5-0.5B-Instruct")]
pub(super) struct Inspect {
    /// A folder in the Hugging Face layout, a GGUF file, embedded:NAME, or hf:ORG/NAME that was pulled.
    #[arg(value_name = "MODEL")]
    model: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only what loading needs is downloaded: safetensors with config and tokenizer, or one GGUF file. A download that broke
off goes on where it stopped. HF_HOME moves the cache, HF_ENDPOINT names another hub.

Examples:
  tokenrouter model pull hf:Qwen/Qwen2.5-0.5B-Instruct
  tokenrouter model pull hf:Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:q4_k_m
  tokenrouter model pull hf:HuggingFaceTB/SmolLM2-135M@main")]
pub(super) struct Pull {
    /// The model: hf:ORG/NAME, with @REVISION and, to choose among GGUF files, :FILE.
    #[arg(value_name = "hf:ORG/NAME[@REVISION][:FILE]", value_parser = hub_model)]
    model: HubModel,
    /// For private and gated models.
    #[arg(long, value_name = "TOKEN", env = "HF_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

fn hub_model(text: &str) -> Result<HubModel, String> {
    let name = text.strip_prefix("hf:").unwrap_or(text);
    HubModel::parse(name).map_err(|error| error.to_string())
}

pub(super) fn bring(args: &Pull, terminal: &Terminal) -> Result<(), CliError> {
    let mut bar = LoadBar::downloading();
    let path = pull(&args.model, args.token.clone(), &mut bar).map_err(Box::new)?;
    drop(bar);
    let model = &args.model;
    terminal.line(format_args!("{}", path.display()))?;
    Ok(terminal.line(format_args!("to serve it, in a configuration:  files = \"hf:{model}\""))?)
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
    let source = ModelSource::parse(model, Path::new("")).map_err(SourceError::from)?;
    Ok(source.files()?)
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
    let per_token = spec.kv_bytes_per_token(KvType::Auto);
    table.row([&"KV per token", &size(per_token)]);
    let full = per_token * spec.context as u64;
    table.row([&"KV of a full context", &size(full)]);
    let least = spec.weight_bytes + full;
    let available = available_memory().map_or_else(|| "unknown".to_owned(), size);
    table.row([&"memory for one full context", &format!("{} ({available} available here)", size(least))]);
    let eos: Vec<String> = spec.eos.iter().map(ToString::to_string).collect();
    table.row([&"end tokens", &if eos.is_empty() { "none".to_owned() } else { eos.join(", ") }]);
    table.row([&"chat template", &chat_template(tokenizer)]);
    table
}

fn chat_template(tokenizer: &Tokenizer) -> String {
    let hello = ChatMessage { role: "user".to_owned(), content: "Hello".to_owned() };
    match tokenizer.encode_chat(&[hello]) {
        Ok(_) => match tokenizer.template_notes().as_slice() {
            [] => "yes".to_owned(),
            notes => format!("yes; {}", notes.join("; ")),
        },
        Err(EngineError::NoTemplate) => "no (completions only)".to_owned(),
        Err(error) => format!("yes, but it does not take a user's message: {error}"),
    }
}
