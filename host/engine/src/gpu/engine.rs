//! The engine that decodes on a device.
//!
//! It plans a step from its rows and the pages that the book-keeping found for them, runs the decoder and has the tokens
//! sampled where the logits are.

use std::time::Instant;

use candle_core::{DType, Tensor};
use journey::{Draw, JourneyId, Sampled};

use super::decoder::Decoder;
use super::distribution::observe;
use super::pages::Pages;
use super::plan::Planner;
use super::{Place, fault};
use crate::batch::{Fed, KvBook};
use crate::cpu::KvShape;
use crate::{Engine, EngineError, KvType, KvUsage, LoadOptions, ModelSpec, Profile, Row};

/// A decoder on a device, with its KV.
pub(crate) struct GpuEngine {
    spec: ModelSpec,
    decoder: Decoder,
    planner: Planner,
    book: KvBook,
    pages: Pages,
    spent: Profile,
}

impl GpuEngine {
    pub(super) fn new(
        spec: ModelSpec,
        decoder: Decoder,
        place: Place,
        options: LoadOptions,
    ) -> Result<Self, EngineError> {
        let shape = KvShape { layers: spec.layers, kv_heads: spec.kv_heads, head_dim: spec.head_dim };
        let kept = match options.kv {
            KvType::Auto => place.compute,
            KvType::F16 => DType::F16,
            KvType::F32 => DType::F32,
        };
        let block = Pages::bytes(shape, kept);
        let blocks = usize::try_from(options.kv_bytes / block as u64).unwrap_or(usize::MAX);
        let blocks = blocks.min(Pages::blocks_max(shape));
        let pages = Pages::new(shape, blocks, kept, &place.device).map_err(fault("allocating KV"))?;
        let book = KvBook::new((blocks * block) as u64, block as u64, options.share_prefixes);
        let number = place.compute.size_in_bytes();
        let spec = ModelSpec { weight_bytes: spec.parameters * number as u64, ..spec };
        let planner = Planner::new(&decoder.config, place, (pages.zero(), kept));
        let planner = planner.map_err(fault("preparing the device"))?;
        Ok(Self { spec, decoder, planner, book, pages, spent: Profile::default() })
    }

    /// As [`Engine::step`], and shows the logits of every draw to `watch`: the index of its row and `vocabulary`
    /// logits.
    pub(super) fn step_watched(
        &mut self,
        rows: &[Row<'_>],
        watch: &mut dyn FnMut(usize, &Tensor),
    ) -> Result<Vec<Sampled>, EngineError> {
        self.book.check(rows, &self.spec)?;
        let begun = Instant::now();
        let reserved = self.book.reserve(rows, &mut self.pages);
        let result = reserved.and_then(|fed| self.feed(rows, &fed, watch));
        self.book.settle(rows, result.is_err());
        self.spent.total += begun.elapsed();
        result
    }

    fn feed(
        &mut self,
        rows: &[Row<'_>],
        fed: &[Fed],
        watch: &mut dyn FnMut(usize, &Tensor),
    ) -> Result<Vec<Sampled>, EngineError> {
        // All of it may have been found in the prefix cache.
        if fed.is_empty() {
            return Ok(Vec::new());
        }
        let plan = self.planner.plan(fed, &self.book.tables(rows)).map_err(fault("planning a step"))?;
        let logits = self.decoder.forward(&plan, &self.planner, &self.pages);
        let Some(logits) = logits.map_err(fault("running a step"))? else { return Ok(Vec::new()) };
        let all: Vec<&Draw<'_>> = rows.iter().flat_map(|row| row.draws).collect();
        let places = places(rows, &plan.drawn);
        let draws: Vec<&Draw<'_>> = places.iter().map(|&place| all[place]).collect();
        let observed = observe(&logits, &draws).map_err(fault("sampling"))?;
        let mut sampled = vec![None; all.len()];
        for ((&row, place), observed) in plan.drawn.iter().zip(places).zip(observed) {
            let journey = rows[row].journey;
            sampled[place] = Some(observed.ok_or(EngineError::NotFinite { journey })?);
        }
        for (index, &row) in plan.drawn.iter().enumerate() {
            watch(row, &logits.get(index).map_err(fault("showing logits"))?);
        }
        Ok(sampled.into_iter().flatten().collect())
    }
}

/// For each drawn token, given by its row, the place of its draw among those of all rows. A plan may change the order of
/// rows, never that of a row's tokens.
fn places(rows: &[Row<'_>], drawn: &[usize]) -> Vec<usize> {
    let mut next = Vec::with_capacity(rows.len());
    let mut sum = 0;
    for row in rows {
        next.push(sum);
        sum += row.draws.len();
    }
    let place = |&row: &usize| {
        next[row] += 1;
        next[row] - 1
    };
    drawn.iter().map(place).collect()
}

impl Engine for GpuEngine {
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

    fn profile(&self) -> Profile {
        self.spent
    }

    fn kv(&self) -> KvUsage {
        self.book.usage(&self.pages)
    }
}
