//! The interface between a subserver's decode loop and a model.
//!
//! Separate from any engine so that a caller, or a test with an engine of its own, depends on these few types only.

use journey::{Draw, JourneyId, Sampled};

use crate::{EngineError, ModelSpec};

/// One row of a ragged batch: the tokens of one journey that are to be fed now.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Whose KV the row reads and extends.
    pub journey: JourneyId,
    /// Position in the sequence of the first token of `tokens`. What the KV holds beyond it is dropped first.
    pub from: usize,
    /// Tokens at positions `from..from + tokens.len()`; never empty.
    pub tokens: &'a [u32],
    /// How to choose the token that follows the last one of `tokens`; `None` only feeds.
    pub draw: Option<Draw>,
}

/// What an engine's KV holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUsage {
    /// Positions held, over all journeys.
    pub tokens: usize,
    /// Journeys that hold at least one position.
    pub sequences: usize,
    /// Bytes allocated for KV, kept for reuse included.
    pub bytes: usize,
}

/// A model that can be stepped.
pub trait Engine: Send {
    /// The model's shape and limits.
    fn spec(&self) -> &ModelSpec;

    /// Feeds every row and samples after the last token of the rows that have a draw. One result per row, in order;
    /// `None` for rows without a draw.
    ///
    /// A journey's KV is first cut to `from`; a journey that is not known begins empty. The result of a row depends
    /// on its journey's tokens and its draw alone: not on the other rows, nor on how the tokens were spread over
    /// earlier steps.
    ///
    /// # Errors
    /// The caller's faults are found before anything is fed, and leave every KV as it was: an empty row
    /// ([`EngineError::EmptyRow`]), two rows of one journey ([`EngineError::RepeatedJourney`]), `from` beyond what
    /// the KV holds ([`EngineError::Gap`]), more positions than the context
    /// ([`EngineError::ContextFull`]), a token that the model does not have ([`EngineError::UnknownToken`]).
    /// [`EngineError::NotFinite`] names a journey whose logits are not numbers, and [`EngineError::Tensor`] is a
    /// failure in the forward pass; after these two every row's KV is cut to its `from`, so that the other rows can
    /// be fed again.
    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Option<Sampled>>, EngineError>;

    /// Drops a journey's KV; its memory is reused. Unknown journeys are ignored.
    fn release(&mut self, journey: JourneyId);

    /// What the KV holds now.
    fn kv(&self) -> KvUsage;
}
