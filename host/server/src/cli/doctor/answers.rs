//! A short answer on every route: do models decode, and do journeys really change models.

use std::time::Instant;

use engine::ChatMessage;

use super::Finding;
use crate::config::{Config, PolicySource};
use crate::runtime::{Ask, Event, Route, Runtime};

/// One finding per route; a model is a route, too.
pub(super) async fn all(config: &Config, runtime: &Runtime) -> Vec<Finding> {
    let mut findings = Vec::new();
    for route in runtime.catalog().routes.values() {
        let what = format!("answer by {}", route.name);
        findings.push(match answer(runtime, route, forcing(config, route)).await {
            Ok(answer) => answer.finding(what, route, config),
            Err(problem) => Finding::fail(what, problem),
        });
    }
    findings
}

/// What an answer showed.
struct Short {
    /// Tokens by role.
    tokens: Vec<usize>,
    fault: Option<String>,
    seconds: f64,
}

impl Short {
    fn finding(self, what: String, route: &Route, config: &Config) -> Finding {
        if let Some(fault) = self.fault {
            return Finding::fail(what, format!("the policy failed: {fault}"));
        }
        let made = self.tokens.iter().zip(&route.model_names);
        let shares: Vec<String> = made.map(|(count, name)| format!("{count} by {name}")).collect();
        let speed = self.tokens.iter().sum::<usize>() as f64 / self.seconds.max(f64::EPSILON);
        let found = format!("{}; {speed:.0} tokens/s", shares.join(", "));
        if self.tokens.iter().sum::<usize>() == 0 {
            return Finding::fail(what, "no token was made");
        }
        let silent = self.tokens.iter().zip(&route.model_names).find(|(count, _)| **count == 0);
        match (silent, forced(config, route)) {
            (Some((_, model)), Some(Forced { everyone: true, .. })) => {
                Finding::fail(what, format!("{found}; nothing was handed off to {model} where it must be"))
            }
            _ => Finding::ok(what, found),
        }
    }
}

async fn answer(runtime: &Runtime, route: &Route, settings: String) -> Result<Short, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let name = format!("{}{settings}", route.name);
    let selected = runtime.catalog().select(&name).map_err(|error| text(&error))?;
    let message = ChatMessage { role: "user".to_owned(), content: QUESTION.to_owned() };
    let prompt = match route.tokenizer.encode_chat(&[message]) {
        Err(engine::EngineError::NoTemplate) => route.tokenizer.encode(QUESTION),
        other => other,
    };
    let prompt = prompt.map_err(|error| text(&error))?;
    let ask = Ask { max_tokens: Some(TOKENS), ..Ask::greedy(prompt) };
    let begun = Instant::now();
    let mut events = runtime.submit(&selected, ask).map_err(|error| text(&error))?.events;
    let mut short = Short { tokens: vec![0; route.models.len()], fault: None, seconds: 0.0 };
    while let Some(event) = events.recv().await {
        match event {
            Event::Made(made) => short.tokens[made.by.index()] += 1,
            Event::Scored(_) => {}
            Event::FellBack { fault } => short.fault = Some(fault),
            Event::Failed { message } => return Err(message),
            Event::Finished(_) => {
                short.seconds = begun.elapsed().as_secs_f64();
                return Ok(short);
            }
        }
    }
    Err("the answer broke off".to_owned())
}

/// How a built-in policy is made to hand off within a few tokens.
struct Forced {
    policy: &'static str,
    settings: &'static str,
    /// Whether every model must then make a token.
    everyone: bool,
}

fn forced(config: &Config, route: &Route) -> Option<&'static Forced> {
    match &config.routes.get(&route.name)?.policy {
        PolicySource::Builtin(name) => FORCED.iter().find(|forced| forced.policy == name),
        PolicySource::File(_) | PolicySource::Uploaded { .. } | PolicySource::Oci(_) => None,
    }
}

fn forcing(config: &Config, route: &Route) -> String {
    forced(config, route).map_or_else(String::new, |forced| format!("@{}", forced.settings))
}

const FORCED: [Forced; 4] = [
    Forced { policy: "entropy", settings: "threshold=0.01", everyone: false },
    Forced { policy: "margin", settings: "threshold=0.99", everyone: false },
    Forced { policy: "pinned", settings: "role=1", everyone: false },
    // The chance that sixteen draws at one half all fall on one side is 1 in 32,768, and the draws are seeded.
    Forced { policy: "random-share", settings: "share=0.5", everyone: true },
];
const QUESTION: &str =
    "Tom has 45 apples. He finds 17 more apples. He buys 38 more apples. How many apples does Tom have now?";
const TOKENS: usize = 16;
