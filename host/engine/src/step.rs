//! The interface between a subserver's decode loop and a model.
//!
//! Separate from any engine so that a caller, or a test with an engine of its own, depends on these few types only.

use std::sync::Arc;
use std::time::Duration;

use journey::{Draw, JourneyId, Sampled};

use crate::{Cores, EngineError, Head, ModelSpec};

/// One row of a ragged batch: the tokens of one journey that are to be fed now.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Whose KV the row reads and extends.
    pub journey: JourneyId,
    /// The tenant's: only journeys of the same salt share the KV of a common beginning. A journey's is that of its row
    /// at position 0.
    pub salt: u64,
    /// Position in the sequence of the first token of `tokens`. What the KV holds beyond it is dropped first.
    pub from: usize,
    /// Tokens at positions `from..from + tokens.len()`; never empty.
    pub tokens: &'a [u32],
    /// How to choose the tokens that follow the last so many of `tokens`: none only feeds, one decodes, and one for
    /// each token of a draft verifies the draft in one step.
    pub draws: &'a [Draw<'a>],
}

impl Row<'_> {
    /// The faults that lie in the draws of a row, for a model of `vocabulary` tokens.
    ///
    /// # Errors
    /// [`EngineError::TooManyDraws`], [`EngineError::UnknownToken`], [`EngineError::NothingAllowed`].
    pub(crate) fn check_draws(&self, vocabulary: usize) -> Result<(), EngineError> {
        let Self { journey, tokens, draws, .. } = *self;
        if draws.len() > tokens.len() {
            return Err(EngineError::TooManyDraws { journey, draws: draws.len(), tokens: tokens.len() });
        }
        for draw in draws {
            let adjust = draw.adjust.as_ref();
            // The bias is in ascending order.
            let biased = adjust.and_then(|adjust| adjust.wishes.bias.last()).map(|(token, _)| token);
            let mut named = draw.logprobs_of.iter().chain(biased);
            if let Some(&token) = named.find(|&&token| token as usize >= vocabulary) {
                return Err(EngineError::UnknownToken { journey, token, vocabulary });
            }
            if adjust.is_some_and(|adjust| adjust.restricts() && adjust.allowed(vocabulary).next().is_none())
            {
                return Err(EngineError::NothingAllowed { journey });
            }
        }
        Ok(())
    }
}

/// What an engine's KV holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUsage {
    /// Positions held, over all journeys; shared ones count for each.
    pub tokens: usize,
    /// Journeys that hold at least one position.
    pub sequences: usize,
    /// Bytes allocated for KV, kept for reuse included.
    pub bytes: usize,
    /// Most bytes that KV may take.
    pub bytes_max: usize,
    /// Of the allocated bytes, those that only later journeys with the same beginning may use.
    pub cached_bytes: usize,
    /// Positions that were looked up in the prefix cache, since the start.
    pub queried_tokens: u64,
    /// Positions that were found in the prefix cache instead of being computed, since the start.
    pub hit_tokens: u64,
}

/// Where an engine's time went, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// All steps.
    pub total: Duration,
    /// Products with weights, logits included.
    pub products: Duration,
    /// Attention over the KV.
    pub attention: Duration,
    /// Heads, their own products included.
    pub heads: Duration,
}

/// A model that can be stepped.
pub trait Engine: Send {
    /// The model's shape and limits.
    fn spec(&self) -> &ModelSpec;

    /// Feeds every row and samples after the last tokens of each, one for each of its draws. One result per draw: rows
    /// in order, and the draws of a row in order.
    ///
    /// A journey's KV is first cut to `from`; a journey that is not known begins empty. A result depends on its
    /// journey's tokens up to its position and on its draw alone: not on the other rows, nor on later tokens of its
    /// own, nor on how the tokens were spread over steps. So verifying a draft gives the bits of decoding it.
    ///
    /// Logits of every draw are in memory at once, four bytes for each token of the vocabulary, and what
    /// [`Draw::keep`] asks for is as large again until the caller drops it.
    ///
    /// # Errors
    /// The caller's faults are found before anything is fed, and leave every KV as it was: an empty row
    /// ([`EngineError::EmptyRow`]), two rows of one journey ([`EngineError::RepeatedJourney`]), `from` beyond what
    /// the KV holds ([`EngineError::Gap`]), more positions than the context
    /// ([`EngineError::ContextFull`]), a token that the model does not have, fed, biased or asked about
    /// ([`EngineError::UnknownToken`]), more draws than tokens ([`EngineError::TooManyDraws`]), a draw that no token
    /// is allowed for ([`EngineError::NothingAllowed`]).
    /// [`EngineError::KvFull`] means that the step needs more KV than there is; every row's KV is then cut to its
    /// `from`, and fewer rows may fit.
    /// [`EngineError::NotFinite`] names a journey whose logits or scores are not numbers; after it too every row's KV is cut to
    /// its `from`, so that the other rows can be fed again.
    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError>;

    /// Drops a journey; its KV may serve later journeys with the same beginning until the memory is needed. Unknown
    /// journeys are ignored.
    fn release(&mut self, journey: JourneyId);

    /// The journey is away: its KV stays until the memory is needed, and then goes as a whole. Its next row brings it
    /// back, from position 0 if [`Engine::held`] says that nothing is left.
    fn park(&mut self, journey: JourneyId);

    /// Positions that the KV holds for a journey.
    fn held(&self, journey: JourneyId) -> usize;

    /// Makes `to` hold what `from` holds, sharing its memory, and drops what `to` held.
    fn fork(&mut self, from: JourneyId, to: JourneyId);

    /// From now on the engine's steps ask these cores how many threads they may use. Of no concern to an engine that does
    /// not compute on the processor.
    fn share_cores(&mut self, _cores: &Arc<Cores>) {}

    /// From now on the engine runs these heads, and no others, for every draw that asks for scores. Their scores come
    /// in this order.
    ///
    /// # Errors
    /// [`EngineError::NoHeads`] if this engine runs none, [`EngineError::Head`] if one was made for another model;
    /// the heads are then as before.
    fn attach(&mut self, heads: Vec<Head>) -> Result<(), EngineError> {
        if heads.is_empty() { Ok(()) } else { Err(EngineError::NoHeads { model: self.spec().name.clone() }) }
    }

    /// What the KV holds now.
    fn kv(&self) -> KvUsage;

    /// Where the time went.
    fn profile(&self) -> Profile;
}
