//! `tokenrouter bench device`: its options, its lines.

use std::path::PathBuf;

use engine::{Device as Place, Engine, EngineError, KvType, LoadOptions, RandomShape};

use super::save;
use crate::bench::decode::Plan;
use crate::bench::device::{parity, routed, speeds};
use crate::cli::{CliError, model};
use crate::terminal::{Align, Table, Terminal};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter bench device --device cuda --model embedded:small --parity
  tokenrouter bench device --device cuda --model random:0.6b --parity
  tokenrouter bench device --device cuda --model random:0.6b --model random:8b --json gpu.json")]
pub(in crate::cli) struct Device {
    /// Where the models run: cpu, cuda or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    device: Place,
    /// A folder in the Hugging Face layout, a .gguf file, embedded:NAME, or random:SIZE of 0.6b, 1.7b, 4b, 8b. Two are
    /// measured each alone, and then routed.
    #[arg(long, value_name = "PATH", required = true, num_args = 1)]
    model: Vec<String>,
    /// Hold the device's logits and tokens against the processor's instead of measuring speed.
    #[arg(long)]
    parity: bool,
    /// With --parity: the largest difference of a logit that is not a failure.
    #[arg(long, value_name = "X", default_value_t = 0.5)]
    tolerance: f32,
    /// Sequences decoded at once; one measurement each.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    batches: Vec<usize>,
    /// Tokens of every prompt.
    #[arg(long, value_name = "N", default_value_t = 128)]
    prompt: usize,
    /// Tokens decoded after it.
    #[arg(long, value_name = "N", default_value_t = 64)]
    tokens: usize,
    /// Measurements of each batch; the best counts.
    #[arg(long, value_name = "N", default_value_t = 2)]
    rounds: usize,
    /// Routed: every so many tokens the second model makes one.
    #[arg(long, value_name = "N", default_value_t = 8)]
    every: usize,
    /// Save the numbers.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(in crate::cli) fn device(args: &Device, terminal: &Terminal) -> Result<(), CliError> {
    args.device.check_built().map_err(|source| failed(args.device.to_string(), source))?;
    let numbers = if args.parity { compare(args, terminal)? } else { measure(args, terminal)? };
    match &args.json {
        Some(file) => save(file, &format!("{numbers:#}\n"), terminal),
        None => Ok(()),
    }
}

fn compare(args: &Device, terminal: &Terminal) -> Result<serde_json::Value, CliError> {
    let mut all = Vec::new();
    for name in &args.model {
        let mut device = open(name, args.device, args)?;
        let mut processor = open(name, Place::Cpu, args)?;
        let found = parity(&mut *processor, &mut *device).map_err(|source| failed(name.clone(), source))?;
        terminal.line(format_args!(
            "{name}: {} of {} greedy tokens equal, largest difference of a logit {:.4}",
            found.equal, found.tokens, found.difference
        ))?;
        if found.difference.is_nan() || found.difference > args.tolerance {
            let (model, difference, tolerance) = (name.clone(), found.difference, args.tolerance);
            return Err(CliError::Apart { model, difference, tolerance });
        }
        all.push(serde_json::json!({
            "model": name, "tokens": found.tokens, "equal": found.equal, "difference": found.difference,
        }));
    }
    Ok(serde_json::json!({ "device": args.device.to_string(), "parity": all }))
}

fn measure(args: &Device, terminal: &Terminal) -> Result<serde_json::Value, CliError> {
    let plan = args.plan();
    let mut engines = Vec::new();
    let mut all = Vec::new();
    for name in &args.model {
        let mut engine = open(name, args.device, args)?;
        plan.check(engine.spec())?;
        let measured =
            speeds(&mut *engine, &plan, &mut |_| ()).map_err(|source| failed(name.clone(), source))?;
        let mut table = Table::new(&[Align::Right; 3]);
        table.row([&"batch", &"prefill t/s", &"decode t/s"]);
        for speed in &measured {
            table.row([&speed.batch, &format!("{:.0}", speed.prefill), &format!("{:.0}", speed.decode)]);
            all.push(serde_json::json!({
                "model": name, "batch": speed.batch, "prefill_tokens_per_s": speed.prefill,
                "decode_tokens_per_s": speed.decode,
            }));
        }
        terminal.line(format_args!("{name} on {}\n{table}", args.device))?;
        engines.push(engine);
    }
    let mut together = Vec::new();
    if let [entry, other] = engines.as_mut_slice() {
        let both = args.model.join(" and ");
        let measured = routed((&mut **entry, &mut **other), &plan, args.every.max(1), &mut |_| ());
        let measured = measured.map_err(|source| failed(both.clone(), source))?;
        let mut table = Table::new(&[Align::Right; 2]);
        table.row([&"batch", &"routed t/s"]);
        for routed in &measured {
            table.row([&routed.batch, &format!("{:.0}", routed.tokens_per_s)]);
            together.push(serde_json::json!({
                "batch": routed.batch, "every": routed.every, "tokens_per_s": routed.tokens_per_s,
            }));
        }
        terminal.line(format_args!("{both}, every {} tokens one of the second\n{table}", args.every))?;
    }
    Ok(serde_json::json!({
        "device": args.device.to_string(), "prompt": args.prompt, "tokens": args.tokens, "rows": all,
        "routed": together,
    }))
}

/// A model on a device, with room for the largest batch.
fn open(name: &str, device: Place, args: &Device) -> Result<Box<dyn Engine>, CliError> {
    let failed = |source| failed(name.to_owned(), source);
    let options = |spec: &engine::ModelSpec| {
        let options = args.plan().options(spec);
        // What is compared has a few hundred positions.
        let kv_bytes = options.kv_bytes.max(512 * spec.kv_bytes_per_token(KvType::Auto));
        LoadOptions { kv_bytes, ..options }
    };
    if let Some(size) = name.strip_prefix("random:") {
        let shape: RandomShape =
            size.parse().map_err(|source| CliError::NoSuchSize { size: size.to_owned(), source })?;
        let spec = shape.spec().map_err(failed)?;
        return engine::random(shape, device, options(&spec)).map_err(failed);
    }
    let files = model::files(name)?;
    let spec = engine::inspect(&files).map_err(failed)?;
    let loaded = engine::load_on(device, name, &files, options(&spec), &mut |_| ()).map_err(failed)?;
    Ok(loaded.engine)
}

impl Device {
    fn plan(&self) -> Plan {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let batches = self.batches.iter().map(|&batch| batch.max(1)).collect();
        let Self { prompt, tokens, rounds, .. } = *self;
        Plan { batches, prompt: prompt.max(1), tokens: tokens.max(1), rounds: rounds.max(1), threads }
    }
}

fn failed(model: String, source: EngineError) -> CliError {
    CliError::Model { model, source: Box::new(source) }
}
