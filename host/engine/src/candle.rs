//! The engine that runs a Llama decoder on candle tensors.

use journey::{JourneyId, Sampled};

use crate::{Engine, EngineError, KvUsage, ModelSpec, Row};

/// A Llama decoder on candle, with its KV.
pub struct CandleEngine {
    spec: ModelSpec,
}

impl CandleEngine {
    pub(crate) fn new(spec: ModelSpec) -> Self {
        Self { spec }
    }
}

impl Engine for CandleEngine {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Option<Sampled>>, EngineError> {
        Ok(rows.iter().map(|_| None).collect())
    }

    fn release(&mut self, _journey: JourneyId) {}

    fn kv(&self) -> KvUsage {
        KvUsage::default()
    }
}
