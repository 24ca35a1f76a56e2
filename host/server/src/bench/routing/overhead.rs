//! What everything but the models costs: steps that take no time, and requests that hop at every third token; and what one
//! hop costs at contexts of different lengths, with requests that hop twice for every token.
//!
//! Requests go straight into the runtime, without HTTP. What is left is the scheduler, the loops, the policy in Wasm and
//! the simulated engine's own sampling, which is measured alone and taken off.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{LoadOptions, Row, SimSettings};
use futures_util::future::try_join_all;
use journey::{Draw, JourneyId};
use serde_json::{Value, json};

use super::RoutingError;
use super::served::started;
use crate::config::Config;
use crate::runtime::{Ask, Event, Runtime};
use crate::terminal::{Align, Table};

/// Microseconds per token and per hop.
#[derive(Clone, Debug, Default)]
pub struct Overhead {
    points: Vec<Point>,
    /// Positions in the context, and the microseconds of a hop there.
    hops: Vec<(usize, f64)>,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    requests: usize,
    tokens: usize,
    /// Wall time per token, microseconds.
    all_us: f64,
    /// Of it the simulated engine's, per token, measured alone.
    engine_us: f64,
}

/// Measures it at each number of requests, for about so long each. `config` has simulated models that take no time and a
/// route `route`.
///
/// # Errors
/// [`RoutingError`].
pub async fn overhead(
    config: &Config,
    route: &str,
    (requests, each): (&[usize], Duration),
    mut progress: impl FnMut(usize),
) -> Result<Overhead, RoutingError> {
    let mut overhead = Overhead::default();
    for (done, &requests) in requests.iter().enumerate() {
        progress(done);
        let runtime = started(config.clone()).await?;
        let outcome = measure(&runtime, route, (requests, each)).await;
        runtime.shut_down(Duration::ZERO).await;
        let (tokens, seconds) = outcome?;
        let engine_us = engine_us(config, requests)?;
        let all_us = seconds * 1e6 / tokens.max(1) as f64;
        overhead.points.push(Point { requests, tokens, all_us, engine_us });
    }
    overhead.hops = hops(config, route).await?;
    Ok(overhead)
}

/// Microseconds of a hop at each context: one request whose every token is routed, so that it goes to the large model and
/// back for each. From its first token to its last, as its prompt has to be fed first.
async fn hops(config: &Config, route: &str) -> Result<Vec<(usize, f64)>, RoutingError> {
    let mut config = config.clone();
    for model in config.models.values_mut() {
        if let Some(sim) = &mut model.sim {
            sim.unsure = 1.0;
            sim.context = std::num::NonZeroUsize::new(CONTEXTS[CONTEXTS.len() - 1] + 2 * ANSWER);
        }
    }
    let runtime = started(config).await?;
    let hops = measure_hops(&runtime, route).await;
    runtime.shut_down(Duration::ZERO).await;
    hops
}

async fn measure_hops(runtime: &Runtime, route: &str) -> Result<Vec<(usize, f64)>, RoutingError> {
    let mut hops = Vec::new();
    for context in CONTEXTS {
        let mut best = f64::INFINITY;
        // What disturbs only adds, so the fastest counts.
        for round in 0..ROUNDS {
            best = best.min(one_request(runtime, route, (context, round)).await? * 1e6 / 2.0);
        }
        hops.push((context, best));
    }
    Ok(hops)
}

/// Seconds per token after the first.
async fn one_request(
    runtime: &Runtime,
    route: &str,
    (context, round): (usize, usize),
) -> Result<f64, RoutingError> {
    let selected = runtime.catalog().select(route)?;
    let prompt = (0..context).map(|at| ((round + at) % 40) as u32 + 5).collect();
    let ask = Ask { max_tokens: Some(ANSWER), ignore_eos: true, ..Ask::greedy(prompt) };
    let mut events = runtime.submit(&selected, ask).map_err(|error| broken(&error))?.events;
    let mut came = Vec::with_capacity(ANSWER);
    while let Some(event) = events.recv().await {
        if matches!(event, Event::Made(_)) {
            came.push(Instant::now());
        }
    }
    let span = came.first().zip(came.last()).map_or(Duration::ZERO, |(first, last)| *last - *first);
    Ok(span.as_secs_f64() / came.len().saturating_sub(1).max(1) as f64)
}

/// Tokens and seconds.
async fn measure(
    runtime: &Runtime,
    route: &str,
    (requests, each): (usize, Duration),
) -> Result<(usize, f64), RoutingError> {
    let selected = runtime.catalog().select(route)?;
    let until = Instant::now() + each;
    let begun = Instant::now();
    let client = async |first: usize| -> Result<usize, RoutingError> {
        let mut tokens = 0;
        while Instant::now() < until {
            let prompt = (0..PROMPT).map(|at| ((first + at) % 40) as u32 + 5).collect();
            let ask = Ask { max_tokens: Some(ANSWER), ignore_eos: true, ..Ask::greedy(prompt) };
            let submitted = runtime.submit(&selected, ask);
            let mut events = submitted.map_err(|error| broken(&error))?.events;
            while let Some(event) = events.recv().await {
                match event {
                    Event::Made(_) => tokens += 1,
                    Event::Failed { message } | Event::FellBack { fault: message } => {
                        return Err(RoutingError::Answer { status: 500, text: message });
                    }
                    Event::Scored(_) => {}
                    Event::Finished(_) => break,
                }
            }
        }
        Ok(tokens)
    };
    let tokens = try_join_all((0..requests).map(client)).await?;
    Ok((tokens.into_iter().sum(), begun.elapsed().as_secs_f64()))
}

fn broken(error: &crate::runtime::SubmitError) -> RoutingError {
    RoutingError::Answer { status: 500, text: error.to_string() }
}

/// Microseconds per row of the entry model's simulated engine at so many rows a step.
fn engine_us(config: &Config, rows: usize) -> Result<f64, RoutingError> {
    let files = engine::ModelFiles::Embedded { name: "small", files: tinypair::models::SMALL.files };
    let settings = config.models.values().find_map(|model| model.sim.as_ref());
    let settings = settings.map_or_else(SimSettings::default, crate::config::Sim::settings);
    let loaded = engine::simulate(("small", &files), LoadOptions::default(), settings, &Arc::default())?;
    let mut engine = loaded.engine;
    let draw = [Draw::GREEDY];
    let begun = Instant::now();
    for at in 0..ENGINE_STEPS {
        let rows: Vec<Row<'_>> = (0..rows as u64)
            .map(|id| Row { journey: JourneyId(id), salt: 0, from: at, tokens: &[5], draws: &draw })
            .collect();
        engine.step(&rows)?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / (ENGINE_STEPS * rows) as f64)
}

impl Overhead {
    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |point: &Point| {
            json!({
                "n": point.requests,
                "us_per_token": point.all_us,
                "us_per_token_engine": point.engine_us,
                "us_per_token_overhead": point.all_us - point.engine_us,
            })
        };
        let hop = |(context, us): &(usize, f64)| json!({ "context": context, "us_per_hop": us });
        json!({
            "engine": "sim",
            "overhead": self.points.iter().map(row).collect::<Vec<_>>(),
            "hops": self.hops.iter().map(hop).collect::<Vec<_>>(),
        })
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[Align::Right; 5]);
        table.row([&"N", &"tokens", &"us a token", &"simulated engine", &"all else"]);
        for point in &self.points {
            table.row([
                &point.requests,
                &point.tokens,
                &format!("{:.2}", point.all_us),
                &format!("{:.2}", point.engine_us),
                &format!("{:.2}", point.all_us - point.engine_us),
            ]);
        }
        table
    }

    /// What a hop costs, for people.
    #[must_use]
    pub fn hop_table(&self) -> Table {
        let mut table = Table::new(&[Align::Right; 2]);
        table.row([&"context", &"us a hop"]);
        for (context, us) in &self.hops {
            table.row([context, &format!("{us:.1}")]);
        }
        table
    }
}

/// Positions in the context at which a hop is timed.
const CONTEXTS: [usize; 3] = [100, 1_000, 10_000];
const ROUNDS: usize = 5;

/// Tokens of a prompt and of an answer.
const PROMPT: usize = 16;
const ANSWER: usize = 200;

const ENGINE_STEPS: usize = 400;
