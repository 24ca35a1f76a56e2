//! The engine that decodes on the processor.
//!
//! It runs the decoder over the rows of a step, in the pages that the book-keeping found for them, and turns logits into
//! sampled tokens.

use std::sync::Arc;

use journey::{Draw, JourneyId, Sampled};
use serde::{Deserialize, Serialize};

use super::cores::Cores;
use super::decoder::{Decoder, Step, Working, now};
use super::distribution::Survey;
use super::head::Tap;
use super::kv::{KvShape, Pages};
use super::rowwise::Hands;
use super::simd::{Level, dispatch};
use super::team::{Chunks, Team};
use crate::batch::{Fed, KvBook, Storage};
use crate::paging::{BlockCopy, PAGE};
use crate::{Engine, EngineError, Head, KvUsage, LoadOptions, ModelSpec, Profile, Row, WeightType, signals};

/// A decoder on the processor, with its KV and its threads.
pub struct CpuEngine {
    spec: ModelSpec,
    decoder: Decoder,
    team: Team,
    level: Level,
    book: KvBook,
    memory: Memory,
    working: Working,
    heads: Vec<Head>,
    /// Shared with other engines.
    cores: Option<Arc<Cores>>,
}

/// How keys and values are kept.
enum Memory {
    /// Half precision.
    Half(Pages<u16>),
    /// Single precision.
    Full(Pages<f32>),
}

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    /// f32 for float weights, f16 for quantised ones; on a GPU bf16.
    #[default]
    Auto,
    /// Half precision: half the memory, and what other engines keep.
    F16,
    /// Single precision: exact against a reference in f32.
    F32,
}

impl KvType {
    /// F16 or F32 for weights that are mostly stored as `weights`.
    pub(crate) fn resolve(self, weights: WeightType) -> Self {
        match self {
            Self::Auto if weights.is_quantised() => Self::F16,
            Self::Auto => Self::F32,
            chosen => chosen,
        }
    }

    /// Bytes of one number.
    pub(crate) fn bytes(self) -> usize {
        if self == Self::F16 { 2 } else { 4 }
    }
}

impl CpuEngine {
    pub(super) fn new(spec: ModelSpec, decoder: Decoder, team: Team, options: LoadOptions) -> Self {
        let shape = KvShape { layers: spec.layers, kv_heads: spec.kv_heads, head_dim: spec.head_dim };
        let kept = options.kv.resolve(spec.dtype);
        let memory = match kept {
            KvType::F16 => Memory::Half(Pages::new(shape)),
            KvType::Auto | KvType::F32 => Memory::Full(Pages::new(shape)),
        };
        let block_bytes = shape.bytes_per_token(kept) * PAGE as u64;
        let book = KvBook::new(options.kv_bytes, block_bytes, options.share_prefixes);
        let working = Working::new(&decoder.config);
        Self {
            spec,
            decoder,
            team,
            level: Level::detect(),
            book,
            memory,
            working,
            heads: Vec::new(),
            cores: None,
        }
    }

    /// As [`Engine::step`], and shows the logits of every draw to `watch`: the index of its row and `vocabulary` raw
    /// logits. For checks against other implementations.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_watched(
        &mut self,
        rows: &[Row<'_>],
        watch: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Vec<Sampled>, EngineError> {
        self.book.check(rows, &self.spec)?;
        let cores = self.cores.clone();
        let busy = cores.as_deref().map(Cores::begin);
        let worthwhile = self.worthwhile(rows);
        self.team.resize(busy.as_ref().map_or(worthwhile, |busy| busy.threads.min(worthwhile)));
        let begun = now();
        let reserved = self.book.reserve(rows, &mut self.memory);
        let result = reserved.and_then(|fed| self.feed(rows, &fed, watch));
        self.book.settle(rows, result.is_err());
        self.working.spent.total += begun.elapsed();
        drop(busy);
        result
    }

    /// Threads that a step gains by.
    fn worthwhile(&self, rows: &[Row<'_>]) -> usize {
        let tokens: usize = rows.iter().map(|row| row.tokens.len()).sum();
        let scored = rows.iter().flat_map(|row| row.draws).filter(|draw| draw.scores).count();
        let of_heads: u64 = self.heads.iter().map(Head::parameters).sum();
        let products = self.spec.parameters.saturating_mul(tokens as u64);
        let products = products.saturating_add(of_heads.saturating_mul(scored as u64));
        1 + usize::try_from(products / PRODUCTS_PER_THREAD).unwrap_or(usize::MAX - 1)
    }

    fn feed(
        &mut self,
        rows: &[Row<'_>],
        fed: &[Fed],
        watch: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Vec<Sampled>, EngineError> {
        let tables = self.book.tables(rows);
        let hands = Hands { team: &self.team, level: self.level };
        let working = &mut self.working;
        match &mut self.memory {
            Memory::Half(pages) => {
                self.decoder.forward(Step { hands, fed, tables: &tables, pages }, working);
            }
            Memory::Full(pages) => {
                self.decoder.forward(Step { hands, fed, tables: &tables, pages }, working);
            }
        }
        let draws: Vec<(usize, &Draw<'_>)> = rows
            .iter()
            .enumerate()
            .flat_map(|(index, row)| row.draws.iter().map(move |draw| (index, draw)))
            .collect();
        let mut observed = self.observe(rows, &draws)?;
        self.score(rows, &draws, &mut observed)?;
        let (logits, stride) = (&self.working.logits.all, self.working.logits.stride);
        for ((index, _), logits) in draws.iter().zip(logits.chunks_exact(stride)) {
            watch(*index, &logits[..self.spec.vocabulary]);
        }
        Ok(observed.into_iter().map(|observed| observed.sampled).collect())
    }

    /// Samples and takes the signals of every draw, each with the index of its row.
    fn observe(
        &mut self,
        rows: &[Row<'_>],
        draws: &[(usize, &Draw<'_>)],
    ) -> Result<Vec<Observed>, EngineError> {
        if draws.is_empty() {
            return Ok(Vec::new());
        }
        let (stride, vocabulary) = (self.working.logits.stride, self.spec.vocabulary);
        let wanted = self.heads.iter().map(Head::logits).max().unwrap_or(0);
        let mut observed: Vec<Option<Observed>> = vec![None; draws.len()];
        let (cap, level) = (self.decoder.config.logit_softcap, self.level);
        let parts = (Chunks::new(&mut self.working.logits.all, stride), Chunks::new(&mut observed, 1));
        self.team.each(1, parts, |index, (logits, observed)| {
            let (logits, draw) = (&mut logits[..vocabulary], draws[index].1);
            let wanted = if draw.scores { wanted } else { 0 };
            let count = draw.candidates.max(2).max(wanted);
            let survey = dispatch(level, Survey { logits, cap, count });
            observed[0] = survey.map(|(sums, best)| Observed {
                sampled: signals::observe(level, logits, (&sums, &best), draw),
                top: best.iter().take(wanted).map(|ranked| ranked.logit).collect(),
            });
        });
        let named = |((index, _), observed): (&(usize, _), Option<Observed>)| {
            observed.ok_or(EngineError::NotFinite { journey: rows[*index].journey })
        };
        draws.iter().zip(observed).map(named).collect()
    }

    /// Runs the heads for the draws that ask for scores, all of them together.
    fn score(
        &mut self,
        rows: &[Row<'_>],
        draws: &[(usize, &Draw<'_>)],
        observed: &mut [Observed],
    ) -> Result<(), EngineError> {
        let asked: Vec<usize> = (0..draws.len()).filter(|&index| draws[index].1.scores).collect();
        if asked.is_empty() || self.heads.is_empty() {
            return Ok(());
        }
        let begun = now();
        let mut scores: Vec<Vec<f32>> = vec![Vec::new(); asked.len()];
        let taps: Vec<Tap<'_>> = asked
            .iter()
            .map(|&index| {
                let Observed { sampled, top } = &observed[index];
                let hidden = &self.working.last.row(index)[..self.spec.hidden];
                Tap { hidden, token: sampled.token, logits: top, entropy: sampled.signals.entropy }
            })
            .collect();
        let hands = Hands { team: &self.team, level: self.level };
        let embed = |token: u32, row: &mut [f32]| self.decoder.embedding_row(token, row);
        for head in &mut self.heads {
            head.runner().run(hands, &embed, &taps, &mut scores);
        }
        for (index, scores) in asked.into_iter().zip(scores) {
            if !scores.iter().all(|score| score.is_finite()) {
                return Err(EngineError::NotFinite { journey: rows[draws[index].0].journey });
            }
            observed[index].sampled.scores = scores;
        }
        self.working.spent.heads += begun.elapsed();
        Ok(())
    }
}

/// A draw with what heads read beside it.
#[derive(Clone)]
struct Observed {
    sampled: Sampled,
    /// The largest logits, largest first, as many as some head reads.
    top: Vec<f32>,
}

impl Engine for CpuEngine {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
        self.step_watched(rows, &mut |_, _| ())
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

    fn share_cores(&mut self, cores: &Arc<Cores>) {
        self.cores = Some(Arc::clone(cores));
    }

    fn attach(&mut self, heads: Vec<Head>) -> Result<(), EngineError> {
        heads.iter().try_for_each(|head| head.check(&self.spec))?;
        self.heads = heads;
        Ok(())
    }

    fn profile(&self) -> Profile {
        self.working.spent
    }

    fn kv(&self) -> KvUsage {
        self.book.usage(&self.memory)
    }
}

/// Work from which on another thread gains more than waking it costs. Measured on two cores with the embedded models:
/// with half of it a second thread more than halves the speed, with as much it begins to gain.
const PRODUCTS_PER_THREAD: u64 = 1 << 23;

impl Storage for Memory {
    fn grow(&mut self, count: usize) -> Result<(), EngineError> {
        match self {
            Self::Half(pages) => pages.grow(count),
            Self::Full(pages) => pages.grow(count),
        }
    }

    fn copy(&mut self, copy: BlockCopy) -> Result<(), EngineError> {
        let (from, to) = (copy.from.index(), copy.to.index());
        match self {
            Self::Half(pages) => pages.copy(from, to, copy.positions),
            Self::Full(pages) => pages.copy(from, to, copy.positions),
        }
        Ok(())
    }

    fn block_bytes(&self) -> usize {
        match self {
            Self::Half(pages) => pages.page_bytes(),
            Self::Full(pages) => pages.page_bytes(),
        }
    }
}
