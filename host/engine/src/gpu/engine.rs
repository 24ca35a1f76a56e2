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
        let spec = ModelSpec {
            weight_bytes: spec.parameters * number as u64,
            kv_bytes_per_token: (block / crate::paging::PAGE) as u64,
            ..spec
        };
        let planner = Planner::new(&decoder.config, place, (pages.zero(), kept));
        let planner = planner.map_err(fault("preparing the device"))?;
        Ok(Self { spec, decoder, planner, book, pages, spent: Profile::default() })
    }

    /// As [`Engine::step`], and shows the logits of every row that has a draw to `watch`: the index of the row and
    /// `vocabulary` logits.
    pub(super) fn step_watched(
        &mut self,
        rows: &[Row<'_>],
        watch: &mut dyn FnMut(usize, &Tensor),
    ) -> Result<Vec<Option<Sampled>>, EngineError> {
        self.book.check(rows, &self.spec)?;
        let begun = now();
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
    ) -> Result<Vec<Option<Sampled>>, EngineError> {
        let mut sampled = vec![None; rows.len()];
        // All of it may have been found in the prefix cache.
        if fed.is_empty() {
            return Ok(sampled);
        }
        let plan = self.planner.plan(fed, &self.book.tables(rows)).map_err(fault("planning a step"))?;
        let logits = self.decoder.forward(&plan, &self.planner, &self.pages);
        let Some(logits) = logits.map_err(fault("running a step"))? else { return Ok(sampled) };
        let draws: Vec<Draw> = plan.drawn.iter().filter_map(|&row| rows[row].draw).collect();
        let observed = observe(&logits, &draws).map_err(fault("sampling"))?;
        for (&row, observed) in plan.drawn.iter().zip(observed) {
            let journey = rows[row].journey;
            sampled[row] = Some(observed.ok_or(EngineError::NotFinite { journey })?);
        }
        for (index, &row) in plan.drawn.iter().enumerate() {
            watch(row, &logits.get(index).map_err(fault("showing logits"))?);
        }
        Ok(sampled)
    }
}

impl Engine for GpuEngine {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Option<Sampled>>, EngineError> {
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

fn now() -> Instant {
    Instant::now()
}
