//! What every engine does around its arithmetic: checks the rows of a step, finds KV for them, and settles afterwards.
//!
//! Separate from the engines so that they differ in how they compute and store, and in nothing that a caller can see.
//! What a caller can get wrong is found here, before any KV changes.

use std::collections::HashSet;

use journey::JourneyId;

use crate::paging::{BlockCopy, BlockId, Feed, Keep, KvLedger, PAGE, Refused};
use crate::{EngineError, KvUsage, ModelSpec, Row};

/// The KV of an engine as its rows use it.
pub(crate) struct KvBook {
    ledger: KvLedger,
    share_prefixes: bool,
}

/// The memory that blocks of KV are in.
pub(crate) trait Storage {
    /// Makes sure that blocks `0..count` exist.
    fn grow(&mut self, count: usize) -> Result<(), EngineError>;

    /// Copies the first positions of a block over another's.
    fn copy(&mut self, copy: BlockCopy) -> Result<(), EngineError>;

    /// Bytes of a block.
    fn block_bytes(&self) -> usize;
}

/// One token of a step whose KV is to be computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fed {
    /// Its id.
    pub(crate) token: u32,
    /// Its position.
    pub(crate) position: usize,
    /// Index of its row, and so of its sequence, among the step's.
    pub(crate) sequence: usize,
    /// Whether its logits are wanted.
    pub(crate) wanted: bool,
}

/// The sequences of a step: where position p of sequence s is kept.
pub(crate) struct Tables<'a>(pub(crate) Vec<&'a [BlockId]>);

impl KvBook {
    /// A book of at most `kv_bytes`, in blocks of `block_bytes`.
    pub(crate) fn new(kv_bytes: u64, block_bytes: u64, share_prefixes: bool) -> Self {
        let blocks_max = usize::try_from(kv_bytes / block_bytes).unwrap_or(usize::MAX);
        Self { ledger: KvLedger::new(blocks_max), share_prefixes }
    }

    /// Everything that a caller can get wrong.
    pub(crate) fn check(&mut self, rows: &[Row<'_>], spec: &ModelSpec) -> Result<(), EngineError> {
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
            let (needed, context) = (from + tokens.len(), spec.context);
            if needed > context {
                return Err(EngineError::ContextFull { journey, needed, context });
            }
            let vocabulary = spec.vocabulary;
            if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocabulary) {
                return Err(EngineError::UnknownToken { journey, token, vocabulary });
            }
            row.check_draws(vocabulary)?;
        }
        Ok(())
    }

    /// Takes room for all rows; returns the tokens that are to be computed, row by row.
    pub(crate) fn reserve(
        &mut self,
        rows: &[Row<'_>],
        storage: &mut impl Storage,
    ) -> Result<Vec<Fed>, EngineError> {
        let mut fed = Vec::with_capacity(rows.iter().map(|row| row.tokens.len()).sum());
        for (sequence, &Row { journey, salt, from, tokens, draws }) in rows.iter().enumerate() {
            // What a row samples after must be computed.
            let unwanted = tokens.len() - draws.len();
            let adopt_max = if self.share_prefixes { unwanted } else { 0 };
            let room = self.ledger.reserve(&Feed { journey, salt, from, tokens, adopt_max });
            let room = room.map_err(|refused| match refused {
                Refused::Gap { from, held } => EngineError::Gap { journey, from, held },
                Refused::NoRoom { needed, obtainable } => EngineError::KvFull { journey, needed, obtainable },
            })?;
            storage.grow(self.ledger.usage().blocks_touched)?;
            if let Some(copy) = room.copy {
                storage.copy(copy)?;
            }
            fed.extend(tokens.iter().enumerate().skip(room.adopted).map(|(index, &token)| Fed {
                token,
                position: from + index,
                sequence,
                wanted: index >= unwanted,
            }));
        }
        Ok(fed)
    }

    /// The blocks of every row.
    pub(crate) fn tables(&self, rows: &[Row<'_>]) -> Tables<'_> {
        Tables(rows.iter().map(|row| self.ledger.table(row.journey)).collect())
    }

    /// Ends a step: what was reserved is held now or, if the step failed, given back.
    pub(crate) fn settle(&mut self, rows: &[Row<'_>], failed: bool) {
        for row in rows {
            if failed {
                self.ledger.cut(row.journey, row.from);
                continue;
            }
            self.ledger.commit(row.journey);
            let fills_a_block = (row.from + row.tokens.len()) / PAGE > row.from / PAGE;
            if self.share_prefixes && fills_a_block {
                self.ledger.publish(row.journey);
            }
        }
    }

    /// As [`crate::Engine::release`].
    pub(crate) fn release(&mut self, journey: JourneyId) {
        let keep = if self.share_prefixes { Keep::Prefix } else { Keep::Nothing };
        self.ledger.release(journey, keep);
    }

    /// As [`crate::Engine::park`].
    pub(crate) fn park(&mut self, journey: JourneyId) {
        self.ledger.park(journey);
    }

    /// As [`crate::Engine::held`].
    pub(crate) fn held(&self, journey: JourneyId) -> usize {
        self.ledger.held(journey)
    }

    /// As [`crate::Engine::fork`].
    pub(crate) fn fork(&mut self, from: JourneyId, to: JourneyId) {
        self.ledger.fork(from, to);
    }

    /// As [`crate::Engine::kv`].
    pub(crate) fn usage(&self, storage: &impl Storage) -> KvUsage {
        let (usage, block) = (self.ledger.usage(), storage.block_bytes());
        KvUsage {
            tokens: usage.tokens,
            sequences: usage.sequences,
            bytes: usage.blocks_touched * block,
            bytes_max: usage.blocks_max.saturating_mul(block),
            cached_bytes: usage.blocks_cached * block,
            queried_tokens: usage.queried_tokens,
            hit_tokens: usage.hit_tokens,
        }
    }
}
