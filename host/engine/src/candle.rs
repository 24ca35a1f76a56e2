//! The engine that runs a Llama decoder on candle tensors.
//!
//! It turns rows into a flat batch, lends the journeys' KV to the decoder, and turns logits into sampled tokens. What
//! a caller can get wrong is checked here, before any KV changes.

use std::collections::HashSet;

use candle_core::Storage;
use journey::{Draw, JourneyId, Sampled};

use crate::decoder::{Batch, Decoder};
use crate::kv::{KvStore, Sequence};
use crate::{Engine, EngineError, KvUsage, ModelSpec, Row, kernels, signals};

/// A Llama decoder on candle, with its KV.
pub struct CandleEngine {
    spec: ModelSpec,
    decoder: Decoder,
    kv: KvStore,
}

impl CandleEngine {
    pub(crate) fn new(spec: ModelSpec, decoder: Decoder) -> Self {
        let kv = KvStore::new(decoder.kv_shape());
        Self { spec, decoder, kv }
    }

    /// As [`Engine::step`], and shows the logits of every row that has a draw to `watch`: the index of the row and
    /// `vocabulary` raw logits. For checks against other implementations.
    ///
    /// # Errors
    /// As [`Engine::step`].
    pub fn step_watched(
        &mut self,
        rows: &[Row<'_>],
        watch: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Vec<Option<Sampled>>, EngineError> {
        self.check(rows)?;
        let mut sequences: Vec<Sequence> =
            rows.iter().map(|row| self.kv.take(row.journey, row.from, row.tokens.len())).collect();
        let result = self.feed(rows, &mut sequences, watch);
        for (row, sequence) in rows.iter().zip(sequences) {
            let fed = if result.is_ok() { row.tokens.len() } else { 0 };
            self.kv.put(row.journey, sequence, row.from + fed);
        }
        result
    }

    fn feed(
        &self,
        rows: &[Row<'_>],
        sequences: &mut [Sequence],
        watch: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Vec<Option<Sampled>>, EngineError> {
        let mut sampled = vec![None; rows.len()];
        let batch = flatten(rows);
        if batch.tokens.is_empty() {
            return Ok(sampled);
        }
        let forward = |source| EngineError::Tensor { doing: "running the decoder", source };
        let Some(logits) = self.decoder.forward(&batch, sequences).map_err(forward)? else {
            return Ok(sampled);
        };
        let (storage, layout) = logits.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else {
            return Err(forward(candle_core::Error::msg("this build samples in main memory only")));
        };
        let logits = kernels::elements(storage, layout).map_err(forward)?;
        let mut logits = logits.chunks_exact(self.spec.vocabulary);
        for (index, (row, draw)) in draws(rows) {
            let Some(logits) = logits.next() else { break };
            watch(index, logits);
            let observed = signals::observe(logits, &draw);
            sampled[index] = Some(observed.ok_or(EngineError::NotFinite { journey: row.journey })?);
        }
        Ok(sampled)
    }

    /// Everything that a caller can get wrong.
    fn check(&self, rows: &[Row<'_>]) -> Result<(), EngineError> {
        let mut seen = HashSet::with_capacity(rows.len());
        for &Row { journey, from, tokens, .. } in rows {
            if tokens.is_empty() {
                return Err(EngineError::EmptyRow { journey });
            }
            if !seen.insert(journey) {
                return Err(EngineError::RepeatedJourney { journey });
            }
            let held = self.kv.held(journey);
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
        }
        Ok(())
    }
}

impl Engine for CandleEngine {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Option<Sampled>>, EngineError> {
        self.step_watched(rows, &mut |_, _| ())
    }

    fn release(&mut self, journey: JourneyId) {
        self.kv.release(journey);
    }

    fn kv(&self) -> KvUsage {
        self.kv.usage()
    }
}

fn flatten(rows: &[Row<'_>]) -> Batch {
    let mut batch = Batch::default();
    for (sequence, row) in rows.iter().enumerate() {
        batch.tokens.extend_from_slice(row.tokens);
        batch.places.extend((row.from..).take(row.tokens.len()).map(|position| (sequence, position)));
        if row.draw.is_some() {
            batch.wanted.push(batch.tokens.len() as u32 - 1);
        }
    }
    batch
}

/// The rows that sample, with their index.
fn draws<'a, 'b>(rows: &'a [Row<'b>]) -> impl Iterator<Item = (usize, (&'a Row<'b>, Draw))> {
    rows.iter().enumerate().filter_map(|(index, row)| Some((index, (row, row.draw?))))
}
