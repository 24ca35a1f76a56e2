//! `tokenrouter run`: one answer in the terminal, coloured by the model that made each token.

use std::time::Duration;

use engine::ChatMessage;
use journey::{FinishReason, Sampling};

use super::{CliError, ConfigFile, configuration, start};
use crate::config::Config;
use crate::runtime::{Answer, Ask, Catalog, Event, NoSuchRoute, Runtime, Selected};
use crate::terminal::{Speakers, Terminal, palette};

/// Answer one prompt here and show which model made which token.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tokenrouter run \"Tom has 45 apples. He finds 17 more apples. He buys 38 more apples. How many apples does Tom have now?\"
  tokenrouter run --model pair/entropy@threshold=0.2 \"How much is 217 + 45?\"
  tokenrouter run --model large \"What is 17 + 25?\"")]
pub(super) struct Args {
    /// What to say to the model; sent through its chat template.
    prompt: String,
    /// Route or model, with settings after '@'; without it, the first route.
    #[arg(long, value_name = "ROUTE[@SETTING=N,...]")]
    model: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Most tokens of the answer.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// 0 always takes the most probable token; higher is more varied.
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    temperature: f32,
    /// The same seed gives the same answer.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

pub(super) async fn run(args: Args, terminal: &Terminal) -> Result<(), CliError> {
    let config = configuration(args.config.config.as_deref())?;
    let runtime = start(&config)?;
    let outcome = answer(&args, &config, &runtime, terminal).await;
    runtime.shut_down(Duration::ZERO).await;
    outcome
}

async fn answer(
    args: &Args,
    config: &Config,
    runtime: &Runtime,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let name = args.model.clone().unwrap_or_else(|| first_route(config));
    let selected = select(&runtime.catalog(), &name)?;
    let message = ChatMessage { role: "user".to_owned(), content: args.prompt.clone() };
    let tokenizer = &selected.route.tokenizer;
    let failed = |source| CliError::Prompt { source: Box::new(source) };
    let prompt = tokenizer.encode_chat(&[message]).map_err(failed)?;
    let room = selected.route.context.saturating_sub(prompt.len()).max(1);
    let ask = Ask {
        sampling: Sampling { temperature: args.temperature, ..Sampling::GREEDY },
        seed: args.seed,
        max_tokens: Some((args.max_tokens as usize).min(room)),
        ..Ask::greedy(prompt)
    };
    let route = selected.route.clone();
    let mut speakers = Speakers::new(terminal, &route.model_names);
    speakers.legend()?;
    let reason = speak(runtime.submit(&selected, ask)?, &mut speakers, terminal).await;
    speakers.end_line()?;
    let reason = reason?;
    if terminal.interactive() {
        terminal.line(format_args!(""))?;
    }
    if reason == FinishReason::Length {
        terminal.note(format_args!("the answer was cut: --max-tokens or the context is used up"))?;
    }
    Ok(speakers.summary()?)
}

/// Shows the answer as it comes; returns why it ended.
async fn speak(
    mut answer: Answer,
    speakers: &mut Speakers<'_>,
    terminal: &Terminal,
) -> Result<FinishReason, CliError> {
    while let Some(event) = answer.events.recv().await {
        match event {
            Event::Made(made) => speakers.token(&made)?,
            Event::FellBack { fault } => {
                speakers.end_line()?;
                let style = palette::WARNING;
                terminal.note(format_args!(
                    "{style}the policy failed, the answer goes on without it: {fault}{style:#}"
                ))?;
            }
            Event::Scored(_) => {}
            Event::Finished(reason) => return Ok(reason),
            Event::Failed { message } => return Err(CliError::Answer { message }),
        }
    }
    Err(CliError::Answer { message: "the model stopped".to_owned() })
}

fn first_route(config: &Config) -> String {
    config.routes.keys().chain(config.models.keys()).next().cloned().unwrap_or_default()
}

fn select(catalog: &Catalog, name: &str) -> Result<Selected, CliError> {
    catalog.select(name).map_err(|error| match error {
        NoSuchRoute::Unknown(name) => {
            let known: Vec<&str> = catalog.routes.keys().map(String::as_str).collect();
            CliError::NoSuchRoute { name, known: known.join(", ") }
        }
        other => CliError::Settings { name: name.to_owned(), problem: other.to_string() },
    })
}

fn temperature(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("must be a number from 0 to 100".to_owned()),
    }
}
