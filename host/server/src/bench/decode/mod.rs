//! How fast a model decodes here: tokens per second against the batch, beside what the machine allows.
//!
//! One engine alone, without server, scheduler and policy, so that a slow step can be told from a slow server. Every
//! step samples greedily and takes the signals that policies route by, as in serving. Reading order: `rounds` (the
//! work and its time) → `machine` (what the hardware does at best) → `bounds` (what follows for this model) →
//! `report`. Beside it stands `pair`: two models on the same cores.

mod bounds;
mod machine;
mod pair;
mod report;
pub(super) mod rounds;

pub use bounds::{Bound, Limit};
pub use machine::Machine;
pub use pair::{PairReport, PairRow, pair_units, run_pair};
pub use report::{Report, Row, Speed};

use engine::{Engine, EngineError, KvType, LoadOptions, ModelSpec};

use machine::Effort;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sequences decoded at once; one row of the report each.
    pub batches: Vec<usize>,
    /// Tokens of every prompt.
    pub prompt: usize,
    /// Tokens decoded after it.
    pub tokens: usize,
    /// Measurements of each batch.
    pub rounds: usize,
    /// Threads of the engine, by [`Plan::options`], and of the measurement of the machine.
    pub threads: usize,
}

impl Plan {
    /// How often a run reports progress.
    #[must_use]
    pub fn units(&self) -> u64 {
        (1 + self.batches.len() * (WARM_UP + self.rounds)) as u64
    }

    /// How the engine is to be loaded: with room for the largest batch, and nothing kept from one round for the next.
    #[must_use]
    pub fn options(&self, spec: &ModelSpec) -> LoadOptions {
        let sequences = self.batches.iter().copied().max().unwrap_or(1) as u64;
        // KV comes in blocks of some positions, of which each sequence may leave one nearly empty.
        let positions = (self.prompt + self.tokens + BLOCK_MAX) as u64;
        let kv_bytes = sequences * positions * spec.kv_bytes_per_token(KvType::Auto);
        LoadOptions { threads: self.threads, kv_bytes, share_prefixes: false, ..LoadOptions::default() }
    }

    /// Whether the model can hold the sequences.
    ///
    /// # Errors
    /// [`DecodeError::Context`].
    pub fn check(&self, spec: &ModelSpec) -> Result<(), DecodeError> {
        let (prompt, tokens, context) = (self.prompt, self.tokens, spec.context);
        if prompt + tokens > context {
            let (model, needed) = (spec.name.clone(), prompt + tokens);
            return Err(DecodeError::Context { model, prompt, tokens, needed, context });
        }
        Ok(())
    }
}

/// Why the benchmark cannot run, or broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The sequences are longer than the model's context.
    #[error(
        "--prompt {prompt} and --tokens {tokens} need {needed} positions; the context of {model} is {context}. \
         Lower one of them"
    )]
    Context {
        /// The model.
        model: String,
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens to decode.
        tokens: usize,
        /// Their sum.
        needed: usize,
        /// Positions there are.
        context: usize,
    },
    /// The engine failed.
    #[error("decoding {batch} sequences at once")]
    Engine {
        /// The batch.
        batch: usize,
        /// Why.
        source: Box<EngineError>,
    },
}

/// Measures the machine, then each batch; `progress` hears what begins, [`Plan::units`] times.
///
/// # Errors
/// [`DecodeError`].
pub fn run(
    engine: &mut dyn Engine,
    plan: &Plan,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, DecodeError> {
    run_with(engine, plan, Effort::THOROUGH, progress)
}

fn run_with(
    engine: &mut dyn Engine,
    plan: &Plan,
    effort: Effort,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, DecodeError> {
    plan.check(engine.spec())?;
    progress("the machine");
    let machine = Machine::measure(plan.threads, engine.spec().weight_bytes, effort);
    let mut report = Report::new(engine.spec(), plan, machine);
    for &batch in &plan.batches {
        let failed = |source| DecodeError::Engine { batch, source: Box::new(source) };
        let times = rounds::all(engine, plan, batch, progress).map_err(failed)?;
        report.add(batch, &times);
    }
    Ok(report)
}

/// How a bar shows the run.
pub const PROGRESS: &str = "measuring  {bar:32} {percent:>3} %  {eta:>4} left  {msg}";

/// Rounds of each batch that are not counted: the first touches fresh KV memory.
const WARM_UP: usize = 1;

/// No engine has larger blocks of KV.
const BLOCK_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use engine::ModelFiles;

    use super::*;

    fn small() -> engine::CpuEngine {
        let files = ModelFiles::Embedded { name: "small", files: tinypair::models::SMALL.files };
        let options = plan().options(&engine::inspect(&files).unwrap());
        engine::load("small", &files, options, &mut |_| ()).unwrap().engine
    }

    fn plan() -> Plan {
        Plan { batches: vec![1, 3], prompt: 20, tokens: 4, rounds: 2, threads: 2 }
    }

    #[test]
    fn a_run_reports_every_batch_and_leaves_no_kv() {
        let mut engine = small();
        let mut heard = Vec::new();
        let report = run_with(&mut engine, &plan(), Effort::TOUCH, &mut |what| heard.push(what.to_owned()));
        let json = report.unwrap().json();
        assert_eq!(heard.len() as u64, plan().units());
        assert_eq!(heard[0], "the machine");
        assert_eq!(heard.last().unwrap(), "batch 3");
        assert_eq!((&json["model"], &json["threads"]), (&"small".into(), &2.into()));
        let batches: Vec<u64> =
            json["rows"].as_array().unwrap().iter().map(|r| r["batch"].as_u64().unwrap()).collect();
        assert_eq!(batches, [1, 3]);
        for row in json["rows"].as_array().unwrap() {
            for phase in ["prefill", "decode"] {
                let figure = |name: &str| row[format!("{phase}_{name}")].as_f64().unwrap();
                assert!(figure("tokens_per_s") >= figure("tokens_per_s_median"), "{row}");
                assert!(figure("tokens_per_s_median") > 0.0 && figure("share_of_bound") > 0.0, "{row}");
            }
        }
        assert!(json["bounds"]["weights_read_gb_per_s"].as_f64().unwrap() > 0.0, "{json}");
        assert_eq!(engine.kv().tokens, 0);
    }

    #[test]
    fn sequences_beyond_the_context_are_refused_with_the_numbers() {
        let mut engine = small();
        let context = engine.spec().context;
        let plan = Plan { tokens: context, ..plan() };
        let error = run_with(&mut engine, &plan, Effort::TOUCH, &mut |_| ()).unwrap_err().to_string();
        for part in ["--prompt 20", &format!("--tokens {context}"), &format!("is {context}"), "small"] {
            assert!(error.contains(part), "{part:?} is missing in {error:?}");
        }
    }
}
