//! Two models that decode at the same time: what each gets of the cores, and what both get together, in every way of
//! sharing them.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use engine::{CoreSharing, Cores, Engine, EngineError};
use serde_json::{Value, json};

use super::rounds::Round;
use super::{DecodeError, Plan};
use crate::terminal::{Align, Table};

/// One way of sharing at one batch, the best of all rounds. Tokens per second.
#[derive(Clone, Debug)]
pub struct PairRow {
    /// Sequences that each model decodes at once.
    pub batch: usize,
    /// How the cores were shared.
    pub sharing: CoreSharing,
    /// Of either model while the other had work too.
    pub together: [f64; 2],
    /// Of either model alone on all cores.
    pub alone: [f64; 2],
}

impl PairRow {
    /// Both shares of what a model makes alone, added: 1 is what taking turns without loss gives.
    #[must_use]
    pub fn worth(&self) -> f64 {
        self.together[0] / self.alone[0] + self.together[1] / self.alone[1]
    }
}

/// Everything measured in one run.
#[derive(Clone, Debug)]
pub struct PairReport {
    models: [String; 2],
    threads: usize,
    window: Duration,
    rows: Vec<PairRow>,
}

impl PairReport {
    /// The models and how they were measured, on one line.
    #[must_use]
    pub fn title(&self) -> String {
        let Self { models: [first, second], threads, window, .. } = self;
        format!("{first} and {second} at once, {threads} threads, windows of {:.1} s", window.as_secs_f64())
    }

    /// One line per batch and way of sharing.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table =
            Table::new(&[Align::Right, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
        let [first, second] = &self.models;
        table.row([&"batch", &"cores", &format!("{first}/s"), &format!("{second}/s"), &"sum/s", &"of alone"]);
        for (ix, row) in self.rows.iter().enumerate() {
            let whole = |speed: f64| format!("{speed:.0}");
            if ix == 0 || self.rows[ix - 1].batch != row.batch {
                let [first, second] = row.alone.map(whole);
                table.row([&row.batch, &"alone", &first, &second, &"", &""]);
            }
            let [first, second] = row.together.map(whole);
            let sum = whole(row.together.iter().sum());
            table.row([
                &row.batch,
                &name(row.sharing),
                &first,
                &second,
                &sum,
                &format!("{:.2}", row.worth()),
            ]);
        }
        table
    }

    /// The numbers, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &PairRow| {
            json!({
                "batch": row.batch,
                "cores": name(row.sharing),
                "tokens_per_s": row.together,
                "alone_tokens_per_s": row.alone,
                "sum_tokens_per_s": row.together.iter().sum::<f64>(),
                "of_alone": row.worth(),
            })
        };
        json!({
            "models": self.models,
            "threads": self.threads,
            "window_s": self.window.as_secs_f64(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// How often [`run_pair`] reports progress.
#[must_use]
pub fn pair_units(plan: &Plan) -> u64 {
    (plan.batches.len() * plan.rounds * (2 + SHARINGS.len())) as u64
}

/// Measures both engines alone and together; `progress` hears what begins. Engines are loaded with [`Plan::options`].
///
/// # Errors
/// [`DecodeError`].
pub fn run_pair(
    engines: [&mut dyn Engine; 2],
    plan: &Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<PairReport, DecodeError> {
    run_pair_for(engines, plan, WINDOW, progress)
}

fn run_pair_for(
    mut engines: [&mut dyn Engine; 2],
    plan: &Plan,
    window: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<PairReport, DecodeError> {
    for engine in &engines {
        plan.check(engine.spec())?;
    }
    let models = [0, 1].map(|ix| label(&engines[ix].spec().name));
    let mut rows = Vec::new();
    for &batch in &plan.batches {
        let failed = |source| DecodeError::Engine { batch, source: Box::new(source) };
        let round = |number| Round { plan, batch, number };
        let mut alone = [0f64; 2];
        let mut together = [[0f64; 2]; SHARINGS.len()];
        // Round by round, so that a slow moment of the machine does not meet one way only.
        for number in 0..plan.rounds {
            for ix in 0..2 {
                progress(&format!("batch {batch}, {} alone", models[ix]));
                share(&mut engines, plan, CoreSharing::Join);
                let speed = timed(&mut engines[ix..=ix], &round(number), window).map_err(failed)?;
                alone[ix] = alone[ix].max(speed[0]);
            }
            for (best, sharing) in together.iter_mut().zip(SHARINGS) {
                progress(&format!("batch {batch}, cores {}", name(sharing)));
                share(&mut engines, plan, sharing);
                let speed = timed(&mut engines, &round(number), window).map_err(failed)?;
                if speed[0] / alone[0] + speed[1] / alone[1] > best[0] / alone[0] + best[1] / alone[1] {
                    *best = [speed[0], speed[1]];
                }
            }
        }
        rows.extend(SHARINGS.into_iter().zip(together).map(|(sharing, together)| PairRow {
            batch,
            sharing,
            together,
            alone,
        }));
    }
    Ok(PairReport { models, threads: plan.threads, window, rows })
}

fn share(engines: &mut [&mut dyn Engine; 2], plan: &Plan, sharing: CoreSharing) {
    let cores = Arc::new(Cores::new(plan.threads, sharing, 2));
    engines.iter_mut().for_each(|engine| engine.share_cores(&cores));
}

/// Tokens per second of each engine while all of them decode for `window`.
fn timed(
    engines: &mut [&mut dyn Engine],
    round: &Round<'_>,
    window: Duration,
) -> Result<Vec<f64>, EngineError> {
    let (ready, stop) = (Barrier::new(engines.len() + 1), AtomicBool::new(false));
    let counts: Vec<AtomicU64> = engines.iter().map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let decoding: Vec<_> = engines
            .iter_mut()
            .zip(&counts)
            .map(|(engine, count)| scope.spawn(|| decode(&mut **engine, round, (&ready, &stop, count))))
            .collect();
        ready.wait();
        let begun = Instant::now();
        let made = || counts.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = made();
        // Somebody may have left a wake-up for this thread.
        while let Some(left) = window.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
        let (after, seconds) = (made(), begun.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        for thread in decoding {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(before.iter().zip(after).map(|(before, after)| (after - before) as f64 / seconds).collect())
    })
}

/// Decodes until told to stop, over the same positions again and again.
fn decode(
    engine: &mut dyn Engine,
    round: &Round<'_>,
    (ready, stop, count): (&Barrier, &AtomicBool, &AtomicU64),
) -> Result<(), EngineError> {
    let prompts = round.prompts(engine.spec().vocabulary);
    let begun = round.prefill(engine, &prompts);
    // Also after a failure: the others wait here.
    ready.wait();
    let mut last = begun?;
    let mut step = 0;
    while !stop.load(Ordering::Relaxed) {
        last = round.decode(engine, round.plan.prompt + step % round.plan.tokens, &last)?;
        count.fetch_add(last.len() as u64, Ordering::Relaxed);
        step += 1;
    }
    round.release(engine);
    Ok(())
}

/// The last part of a path, as columns have little room.
fn label(model: &str) -> String {
    let stem = Path::new(model).file_name().map_or_else(|| model.into(), OsStr::to_string_lossy);
    stem.trim_end_matches(".gguf").to_owned()
}

fn name(sharing: CoreSharing) -> &'static str {
    match sharing {
        CoreSharing::Split => "split",
        CoreSharing::Join => "join",
        CoreSharing::Turns => "turns",
    }
}

const SHARINGS: [CoreSharing; 3] = [CoreSharing::Split, CoreSharing::Join, CoreSharing::Turns];

/// Some hundred steps of a small model.
const WINDOW: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod tests {
    use engine::ModelFiles;

    use super::*;

    #[test]
    fn both_models_make_tokens_in_every_way_of_sharing() {
        let plan = Plan { batches: vec![2], prompt: 8, tokens: 8, rounds: 1, threads: 2 };
        let load = |name: &'static str, files| {
            let files = ModelFiles::Embedded { name, files };
            let spec = engine::inspect(&files).unwrap();
            engine::load(name, &files, plan.options(&spec), &mut |_| ()).unwrap().engine
        };
        let mut small = load("small", tinypair::models::SMALL.files);
        let mut large = load("large", tinypair::models::LARGE.files);
        let mut begun = 0;
        let report =
            run_pair_for([&mut small, &mut large], &plan, Duration::from_millis(60), &mut |_| begun += 1);
        let report = report.unwrap();
        assert_eq!(begun, pair_units(&plan));
        assert_eq!(report.rows.len(), 3);
        for row in &report.rows {
            assert!(row.together.iter().chain(&row.alone).all(|&speed| speed > 0.0), "{row:?}");
        }
        assert_eq!(report.json()["rows"][2]["cores"], "turns");
        assert!(report.table().to_string().contains("of alone"));
    }
}
