//! The engine that decodes on the processor.
//!
//! It turns rows into a flat batch, finds the pages of their KV, runs the decoder and turns logits into sampled
//! tokens. What a caller can get wrong is checked here, before any KV changes.

use std::collections::HashSet;

use journey::{Draw, JourneyId, Sampled};
use serde::Deserialize;

use super::decoder::{Decoder, Fed, Step, Tables, Working, now};
use super::distribution::Survey;
use super::kv::{KvShape, Pages};
use super::rowwise::Hands;
use super::simd::{Level, dispatch};
use super::team::{Chunks, Team};
use crate::paging::{Feed, Keep, KvLedger, PAGE, Refused};
use crate::{Engine, EngineError, KvUsage, LoadOptions, ModelSpec, Profile, Row, WeightType, signals};

/// A decoder on the processor, with its KV and its threads.
pub struct CpuEngine {
    spec: ModelSpec,
    decoder: Decoder,
    team: Team,
    level: Level,
    ledger: KvLedger,
    share_prefixes: bool,
    memory: Memory,
    working: Working,
}

/// How keys and values are kept.
enum Memory {
    /// Half precision.
    Half(Pages<u16>),
    /// Single precision.
    Full(Pages<f32>),
}

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvType {
    /// f32 for float weights, f16 for quantised ones.
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
        let blocks_max = options.kv_bytes / (shape.bytes_per_token(kept) * PAGE as u64);
        let ledger = KvLedger::new(usize::try_from(blocks_max).unwrap_or(usize::MAX));
        let working = Working::new(&decoder.config);
        let share_prefixes = options.share_prefixes;
        Self { spec, decoder, team, level: Level::detect(), ledger, share_prefixes, memory, working }
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
        self.check(rows)?;
        let begun = now();
        let result = self.reserve(rows).and_then(|computed| self.feed(rows, &computed, watch));
        for row in rows {
            if result.is_err() {
                self.ledger.cut(row.journey, row.from);
                continue;
            }
            self.ledger.commit(row.journey);
            let fills_a_block = (row.from + row.tokens.len()) / PAGE > row.from / PAGE;
            if self.share_prefixes && fills_a_block {
                self.ledger.publish(row.journey);
            }
        }
        self.working.spent.total += begun.elapsed();
        result
    }

    /// Takes room for all rows; returns how many tokens of each need not be computed.
    fn reserve(&mut self, rows: &[Row<'_>]) -> Result<Vec<usize>, EngineError> {
        let mut adopted = Vec::with_capacity(rows.len());
        for &Row { journey, salt, from, tokens, draws } in rows {
            // What a row samples after must be computed.
            let adopt_max = if self.share_prefixes { tokens.len() - draws.len() } else { 0 };
            let room = self.ledger.reserve(&Feed { journey, salt, from, tokens, adopt_max });
            let room = room.map_err(|refused| match refused {
                Refused::Gap { from, held } => EngineError::Gap { journey, from, held },
                Refused::NoRoom { needed, obtainable } => EngineError::KvFull { journey, needed, obtainable },
            })?;
            self.memory.grow(self.ledger.usage().blocks_touched);
            if let Some(copy) = room.copy {
                self.memory.copy(copy.from.index(), copy.to.index(), copy.positions);
            }
            adopted.push(room.adopted);
        }
        Ok(adopted)
    }

    fn feed(
        &mut self,
        rows: &[Row<'_>],
        adopted: &[usize],
        watch: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Vec<Sampled>, EngineError> {
        let fed = flatten(rows, adopted);
        let tables = Tables(rows.iter().map(|row| self.ledger.table(row.journey)).collect());
        let hands = Hands { team: &self.team, level: self.level };
        let working = &mut self.working;
        match &mut self.memory {
            Memory::Half(pages) => {
                self.decoder.forward(Step { hands, fed: &fed, tables: &tables, pages }, working);
            }
            Memory::Full(pages) => {
                self.decoder.forward(Step { hands, fed: &fed, tables: &tables, pages }, working);
            }
        }
        let draws: Vec<(usize, &Draw<'_>)> = rows
            .iter()
            .enumerate()
            .flat_map(|(index, row)| row.draws.iter().map(move |draw| (index, draw)))
            .collect();
        let sampled = self.observe(rows, &draws)?;
        let (logits, stride) = (&self.working.logits.all, self.working.logits.stride);
        for ((index, _), logits) in draws.iter().zip(logits.chunks_exact(stride)) {
            watch(*index, &logits[..self.spec.vocabulary]);
        }
        Ok(sampled)
    }

    /// Samples and takes the signals of every draw, each with the index of its row.
    fn observe(
        &mut self,
        rows: &[Row<'_>],
        draws: &[(usize, &Draw<'_>)],
    ) -> Result<Vec<Sampled>, EngineError> {
        if draws.is_empty() {
            return Ok(Vec::new());
        }
        let (stride, vocabulary) = (self.working.logits.stride, self.spec.vocabulary);
        let mut observed: Vec<Option<Sampled>> = vec![None; draws.len()];
        let (cap, level) = (self.decoder.config.logit_softcap, self.level);
        let parts = (Chunks::new(&mut self.working.logits.all, stride), Chunks::new(&mut observed, 1));
        self.team.each(1, parts, |index, (logits, observed)| {
            let (logits, draw) = (&mut logits[..vocabulary], draws[index].1);
            let count = draw.candidates.max(2);
            let survey = dispatch(level, Survey { logits, cap, count });
            observed[0] = survey.map(|(sums, best)| signals::observe(level, logits, (&sums, &best), draw));
        });
        let named = |((index, _), observed): (&(usize, _), Option<Sampled>)| {
            observed.ok_or(EngineError::NotFinite { journey: rows[*index].journey })
        };
        draws.iter().zip(observed).map(named).collect()
    }

    /// Everything that a caller can get wrong.
    fn check(&mut self, rows: &[Row<'_>]) -> Result<(), EngineError> {
        let mut seen = HashSet::with_capacity(rows.len());
        for row @ &Row { journey, from, tokens, .. } in rows {
            if tokens.is_empty() {
                return Err(EngineError::EmptyRow { journey });
            }
            if !seen.insert(journey) {
                return Err(EngineError::RepeatedJourney { journey });
            }
            // From here on it cannot be evicted to make room for another row.
            let held = self.ledger.resume(journey);
            if from > held {
                return Err(EngineError::Gap { journey, from, held });
            }
            let (needed, context) = (from + tokens.len(), self.spec.context);
            if needed > context {
                return Err(EngineError::ContextFull { journey, needed, context });
            }
            let vocabulary = self.spec.vocabulary;
            if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
                return Err(EngineError::UnknownToken { journey, token, vocabulary });
            }
            row.check_draws(vocabulary)?;
        }
        Ok(())
    }
}

impl Engine for CpuEngine {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
        self.step_watched(rows, &mut |_, _| ())
    }

    fn release(&mut self, journey: JourneyId) {
        let keep = if self.share_prefixes { Keep::Prefix } else { Keep::Nothing };
        self.ledger.release(journey, keep);
    }

    fn park(&mut self, journey: JourneyId) {
        self.ledger.park(journey);
    }

    fn held(&self, journey: JourneyId) -> usize {
        self.ledger.held(journey)
    }

    fn fork(&mut self, from: JourneyId, to: JourneyId) {
        self.ledger.fork(from, to);
    }

    fn profile(&self) -> Profile {
        self.working.spent
    }

    fn kv(&self) -> KvUsage {
        let usage = self.ledger.usage();
        let block = self.memory.block_bytes();
        KvUsage {
            tokens: usage.tokens,
            sequences: usage.sequences,
            bytes: usage.blocks_touched * block,
            bytes_max: usage.blocks_max.saturating_mul(block),
            cached_bytes: usage.blocks_cached * block,
            hit_tokens: usage.hit_tokens,
        }
    }
}

impl Memory {
    fn grow(&mut self, blocks: usize) {
        match self {
            Self::Half(pages) => pages.grow(blocks),
            Self::Full(pages) => pages.grow(blocks),
        }
    }

    fn copy(&mut self, from: usize, to: usize, positions: usize) {
        match self {
            Self::Half(pages) => pages.copy(from, to, positions),
            Self::Full(pages) => pages.copy(from, to, positions),
        }
    }

    fn block_bytes(&self) -> usize {
        match self {
            Self::Half(pages) => pages.page_bytes(),
            Self::Full(pages) => pages.page_bytes(),
        }
    }
}

/// The tokens of all rows but the `adopted` first ones of each.
fn flatten(rows: &[Row<'_>], adopted: &[usize]) -> Vec<Fed> {
    let mut fed = Vec::with_capacity(rows.iter().map(|row| row.tokens.len()).sum());
    for (sequence, (row, &adopted)) in rows.iter().zip(adopted).enumerate() {
        let unwanted = row.tokens.len() - row.draws.len();
        fed.extend(row.tokens.iter().enumerate().skip(adopted).map(|(index, &token)| Fed {
            token,
            position: row.from + index,
            sequence,
            wanted: index >= unwanted,
        }));
    }
    fed
}
