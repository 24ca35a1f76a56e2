//! An engine whose steps only take time: to try routing and scheduling at the speeds of hardware that is not there.
//!
//! It has the tokenizer, the shape and the book-keeping of a real model, so prompts, KV, eviction and every error are
//! real; what a step computes is made up. A step lasts as long as a law says, on a device that may be shared: two steps
//! at once on one device each run at half the speed. At every position a share of the distributions is unsure, which is
//! what policies route by, and the scores of heads are random numbers. Every figure from it is a simulated one.

mod device;

use std::sync::Arc;
use std::time::Instant;

use journey::random::{Purpose, uniform};
use journey::{Draw, JourneyId, Sampled};

use crate::batch::{Fed, KvBook, Storage};
use crate::cpu::{KvShape, Level, Survey, dispatch};
use crate::load::{LoadOptions, Loaded, inspect};
use crate::paging::{BlockCopy, PAGE};
use crate::{Engine, EngineError, Head, KvUsage, ModelFiles, ModelSpec, Profile, Row, Tokenizer, signals};

pub use device::SimDevice;

/// How long simulated steps take, and what they say.
#[derive(Clone, Debug, PartialEq)]
pub struct SimSettings {
    /// Seconds of every step.
    pub fixed_s: f64,
    /// Seconds more for each row.
    pub row_s: f64,
    /// Seconds more for each token that is computed.
    pub token_s: f64,
    /// Seconds more for each position that the rows hold already.
    pub context_s: f64,
    /// Share of positions at which the model is unsure: its two best tokens have 0.55 and 0.45, elsewhere 0.98 and 0.02.
    pub unsure: f64,
    /// Most positions of one sequence; `None`: as many as the model has.
    pub context: Option<usize>,
    /// Models of one seed say the same to the same request, and are unsure at the same positions.
    pub seed: u64,
    /// What an answer says, over and over; without it, tokens are random.
    pub text: Option<String>,
}

impl Default for SimSettings {
    /// Steps that take no time by a model that is always sure.
    fn default() -> Self {
        let (fixed_s, row_s, token_s, context_s) = (0.0, 0.0, 0.0, 0.0);
        Self { fixed_s, row_s, token_s, context_s, unsure: 0.0, context: None, seed: 0, text: None }
    }
}

impl SimSettings {
    fn seconds(&self, rows: &[Row<'_>], tokens: usize) -> f64 {
        let context: usize = rows.iter().map(|row| row.from).sum();
        let Self { fixed_s, row_s, token_s, context_s, .. } = self;
        fixed_s + row_s * rows.len() as f64 + token_s * tokens as f64 + context_s * context as f64
    }
}

/// A model that only takes time.
pub(crate) struct SimEngine {
    spec: ModelSpec,
    settings: SimSettings,
    device: Arc<SimDevice>,
    book: KvBook,
    memory: NoMemory,
    /// What an answer is made of, in this order if there is a text.
    words: Vec<u32>,
    level: Level,
    /// Of one position: [`ALL_BUT_IMPOSSIBLE`] outside of [`Self::say`].
    logits: Vec<f32>,
    /// Scores of the attached heads: random numbers in [0, 1), so that of a threshold t a share of 1 - t is above it.
    scores: u32,
    spent: Profile,
}

/// Makes an engine that takes time on `device` as the settings say. Of the model's files only the headers and the
/// tokenizer are read.
///
/// # Errors
/// As [`crate::inspect`], and of the tokenizer.
pub fn simulate(
    (name, files): (&str, &ModelFiles),
    options: LoadOptions,
    settings: SimSettings,
    device: &Arc<SimDevice>,
) -> Result<Loaded<Box<dyn Engine>>, EngineError> {
    let spec = inspect(files)?;
    let context = settings.context.unwrap_or(spec.context);
    let spec = ModelSpec { name: name.to_owned(), context, ..spec };
    let tokenizer = Tokenizer::load(files)?;
    let words = words(&spec, &tokenizer, settings.text.as_deref())?;
    let shape = KvShape { layers: spec.layers, kv_heads: spec.kv_heads, head_dim: spec.head_dim };
    let block_bytes = shape.bytes_per_token(options.kv.resolve(spec.dtype)) * PAGE as u64;
    let engine = SimEngine {
        book: KvBook::new(options.kv_bytes, block_bytes, options.share_prefixes),
        memory: NoMemory { block_bytes: block_bytes as usize },
        logits: vec![ALL_BUT_IMPOSSIBLE; spec.vocabulary],
        device: Arc::clone(device),
        level: Level::detect(),
        scores: 0,
        spent: Profile::default(),
        spec,
        settings,
        words,
    };
    Ok(Loaded { engine: Box::new(engine), tokenizer: Arc::new(tokenizer) })
}

/// The tokens of a text, or all that do not end an answer.
fn words(spec: &ModelSpec, tokenizer: &Tokenizer, text: Option<&str>) -> Result<Vec<u32>, EngineError> {
    let known = 0..tokenizer.vocabulary().len() as u32;
    let mut words = match text {
        Some(text) => tokenizer.encode(text)?,
        None => known.collect(),
    };
    words.retain(|token| !spec.eos.contains(token));
    // A text may be empty; a vocabulary has a token that does not end an answer.
    if words.is_empty() { Ok(vec![0]) } else { Ok(words) }
}

impl SimEngine {
    fn feed(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
        let mut sampled = Vec::with_capacity(rows.iter().map(|row| row.draws.len()).sum());
        for row in rows {
            let first = row.tokens.len() - row.draws.len();
            for (draw, at) in row.draws.iter().zip(first..) {
                let token = self.say((row.from + at) as u64, row.tokens[at], draw);
                sampled.push(token.ok_or(EngineError::NotFinite { journey: row.journey })?);
            }
        }
        Ok(sampled)
    }

    /// What follows `token` at `position`: of a text the next word, otherwise any.
    fn say(&mut self, position: u64, token: u32, draw: &Draw<'_>) -> Option<Sampled> {
        // A request's own number makes its unsure positions its own; it is the same at every model.
        let seed = self.settings.seed ^ u64::from(token) ^ draw.uniform.to_bits();
        let number = |index| uniform(seed, position, Purpose::Sample, index);
        let count = self.words.len();
        let word = match self.settings.text {
            Some(_) => position as usize % count,
            None => (number(FOLLOWS) * count as f64) as usize,
        };
        let second_logit = if number(UNSURE) < self.settings.unsure { SECOND_NEAR } else { SECOND_FAR };
        let (best, second) = (self.words[word] as usize, self.words[(word + 1) % count] as usize);
        self.logits[second] = second_logit;
        self.logits[best] = 0.0;
        let (level, logits) = (self.level, &mut self.logits);
        let survey = Survey { logits, cap: None, count: draw.candidates.max(2) };
        let survey = dispatch(level, survey);
        let sampled =
            survey.map(|(sums, ranked)| signals::observe(level, &self.logits, (&sums, &ranked), draw));
        self.logits[best] = ALL_BUT_IMPOSSIBLE;
        self.logits[second] = ALL_BUT_IMPOSSIBLE;
        let scores = if draw.scores { self.scores } else { 0 };
        // Rounding to f32 must not reach 1.
        let score = |index| (number(SCORE + index) as f32).min(1.0f32.next_down());
        sampled.map(|sampled| Sampled { scores: (0..scores).map(score).collect(), ..sampled })
    }
}

impl Engine for SimEngine {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
        self.book.check(rows, &self.spec)?;
        let begun = Instant::now();
        let reserved = self.book.reserve(rows, &mut self.memory);
        let result = reserved.map(|fed: Vec<Fed>| fed.len()).and_then(|tokens| {
            let device = Arc::clone(&self.device);
            let work = device.begin(begun, self.settings.seconds(rows, tokens));
            let sampled = self.feed(rows);
            work.finish();
            sampled
        });
        self.book.settle(rows, result.is_err());
        self.spent.total += begun.elapsed();
        result
    }

    fn release(&mut self, journey: JourneyId) {
        self.book.release(journey);
    }

    fn park(&mut self, journey: JourneyId) {
        self.book.park(journey);
    }

    fn held(&self, journey: JourneyId) -> usize {
        self.book.held(journey)
    }

    fn fork(&mut self, from: JourneyId, to: JourneyId) {
        self.book.fork(from, to);
    }

    fn attach(&mut self, heads: Vec<Head>) -> Result<(), EngineError> {
        heads.iter().try_for_each(|head| head.check(&self.spec))?;
        self.scores = heads.iter().map(|head| head.scores().len() as u32).sum();
        Ok(())
    }

    fn profile(&self) -> Profile {
        self.spent
    }

    fn kv(&self) -> KvUsage {
        self.book.usage(&self.memory)
    }
}

/// Blocks that are counted and not there.
struct NoMemory {
    block_bytes: usize,
}

impl Storage for NoMemory {
    fn grow(&mut self, _count: usize) -> Result<(), EngineError> {
        Ok(())
    }

    fn copy(&mut self, _copy: BlockCopy) -> Result<(), EngineError> {
        Ok(())
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }
}

// What the numbers of a position are for.
const FOLLOWS: u32 = 0;
const UNSURE: u32 = 1;
/// Of the first score; those of the others follow.
const SCORE: u32 = 2;

/// Logit of the second token beside 0 for the best: probabilities 0.55 and 0.45, entropy 0.69 nats.
const SECOND_NEAR: f32 = -0.2;
/// Probabilities 0.98 and 0.02, entropy 0.09 nats.
const SECOND_FAR: f32 = -4.0;
/// Logit of all other tokens: of a million of them together the probability is below 1e-7.
const ALL_BUT_IMPOSSIBLE: f32 = -30.0;
