//! Which blocks of KV memory hold which positions of which journey.
//!
//! Pure book-keeping, separate from the memory and the kernels so that it can be tested exactly: no tensor, no thread,
//! no clock. A block is [`PAGE`] positions over all layers; the storage is indexed by [`BlockId`].
//! Journeys that begin alike share blocks, those that have ended leave theirs for later ones, and those that are away
//! may lose theirs: none of it changes a token, as KV of the same tokens is the same bits whoever computed it.
//!
//! Reading order: `pool` (blocks) → `prefix` (kept texts) → `stock` (both as one) → `sequence` (a journey) → here.

mod pool;
mod prefix;
mod sequence;
mod stock;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use std::collections::BTreeMap;

use journey::JourneyId;

pub(crate) use pool::BlockId;
pub(crate) use sequence::{BlockCopy, Keep};

use sequence::Sequence;
use stock::Stock;

/// The KV of one engine, by journey. In the complexities, n is the number of blocks or of journeys.
#[derive(Debug)]
pub(crate) struct KvLedger {
    stock: Stock,
    /// Journeys that hold or have reserved at least one position.
    sequences: BTreeMap<JourneyId, Sequence>,
    /// Journeys that are away, those that left first in front.
    parked: BTreeMap<u64, JourneyId>,
    /// Counts parkings.
    now: u64,
    /// Positions held, over all journeys.
    tokens: usize,
    /// As in [`Usage`].
    queried_tokens: u64,
    /// As in [`Usage`].
    hit_tokens: u64,
}

/// What a journey is about to be fed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feed<'a> {
    /// Whose tokens.
    pub(crate) journey: JourneyId,
    /// The tenant's: prefixes are shared only between journeys of the same salt. That of a journey is that of
    /// its feed at position 0; others are not looked at.
    pub(crate) salt: u64,
    /// Position of the first token; what the journey holds beyond it is dropped.
    pub(crate) from: usize,
    /// Tokens at positions `from..from + tokens.len()`.
    pub(crate) tokens: &'a [u32],
    /// How many of `tokens`, counted from the first, may be taken from the prefix index instead of being computed. A
    /// row that samples must compute its last one.
    pub(crate) adopt_max: usize,
}

/// Room for a feed. The journey's table leads to it until the commit or a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// How many of the fed tokens, counted from the first, have their KV already: what is to be computed begins at
    /// position `from + adopted`.
    pub(crate) adopted: usize,
    /// To be made before the next call of the ledger that takes or gives blocks.
    pub(crate) copy: Option<BlockCopy>,
}

/// Why nothing was reserved. The journey holds what it held up to `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The feed begins beyond what is held: a fault of the caller, or the journey was parked and has been evicted.
    #[error("feeding from position {from}, but the KV holds {held} positions; feed from there")]
    Gap {
        /// Where the feed begins.
        from: usize,
        /// Positions held.
        held: usize,
    },
    /// All other blocks are in sequences that are not parked.
    #[error("feeding needs {needed} more KV blocks and {obtainable} can be had; release or park a journey")]
    NoRoom {
        /// Blocks needed beyond those held.
        needed: usize,
        /// Blocks that are free or can be freed.
        obtainable: usize,
    },
}

/// What is held now; all but the first three and the last count blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Positions held, over all journeys; shared ones count for each.
    pub(crate) tokens: usize,
    /// Journeys that hold something.
    pub(crate) sequences: usize,
    /// Those of them that are parked.
    pub(crate) parked: usize,
    /// Most there may ever be.
    pub(crate) blocks_max: usize,
    /// Ever handed out: all ids are below it, so storage needs no more.
    pub(crate) blocks_touched: usize,
    /// In at least one sequence.
    pub(crate) blocks_used: usize,
    /// In more than one sequence.
    pub(crate) blocks_shared: usize,
    /// Kept for later journeys only; the rest of `blocks_max`, beside these and the used ones, is free.
    pub(crate) blocks_cached: usize,
    /// Positions that were looked up in the prefix index, since the start.
    pub(crate) queried_tokens: u64,
    /// Positions that were taken from the prefix index instead of being computed, since the start.
    pub(crate) hit_tokens: u64,
}

impl KvLedger {
    /// A ledger of at most `blocks_max` blocks. Their numbers are given out from zero upwards, used ones again before
    /// a new one, so storage may be allocated at once or as [`Usage::blocks_touched`] grows.
    pub(crate) fn new(blocks_max: usize) -> Self {
        Self {
            stock: Stock::new(blocks_max),
            sequences: BTreeMap::new(),
            parked: BTreeMap::new(),
            now: 0,
            tokens: 0,
            queried_tokens: 0,
            hit_tokens: 0,
        }
    }

    /// Cuts the journey to `from`, takes over what is kept of the tokens, and takes room for the rest. To get room,
    /// kept prefixes are evicted first, then parked journeys, those that left first in front.
    ///
    /// The journey is resumed. Others of the same step must have been resumed before, or they may be evicted here.
    /// O(log n) for one token; for more, O(tokens + new blocks · log n).
    ///
    /// # Errors
    /// [`Refused`]; nothing is reserved then, and the journey is cut to `from`.
    pub(crate) fn reserve(&mut self, feed: &Feed<'_>) -> Result<Reservation, Refused> {
        self.resume(feed.journey);
        self.with(feed.journey, |ledger, sequence| {
            let reserved = ledger.fill(sequence, feed);
            if reserved.is_err() {
                sequence.cut(&mut ledger.stock, feed.from);
            }
            reserved
        })
    }

    /// What the journey had reserved is written now, and held. O(log n).
    pub(crate) fn commit(&mut self, journey: JourneyId) {
        self.with(journey, |_, sequence| sequence.commit());
    }

    /// Cuts a journey to `len` positions and drops what it had reserved: to roll a failed step back, to its `from`.
    /// O(log n + blocks given up · log n).
    pub(crate) fn cut(&mut self, journey: JourneyId, len: usize) {
        self.with(journey, |ledger, sequence| sequence.cut(&mut ledger.stock, len));
    }

    /// Lets later journeys of the same salt share what this one holds, up to its last full block. Only what is new
    /// since the last time is looked at: O(log n + new blocks · log n).
    pub(crate) fn publish(&mut self, journey: JourneyId) {
        self.with(journey, |ledger, sequence| sequence.publish(&mut ledger.stock));
    }

    /// Drops a journey. O(blocks · log n).
    pub(crate) fn release(&mut self, journey: JourneyId, keep: Keep) {
        self.with(journey, |ledger, sequence| sequence.release(&mut ledger.stock, keep));
    }

    /// Makes `to` hold what `from` holds, in the same blocks, and drops what `to` held. What `from` has reserved is not
    /// shared. O(blocks).
    pub(crate) fn fork(&mut self, from: JourneyId, to: JourneyId) {
        if from == to {
            return;
        }
        self.release(to, Keep::Nothing);
        if let Some(sequence) = self.sequences.get(&from) {
            let fork = sequence.fork(&mut self.stock);
            self.put(to, fork);
        }
    }

    /// The journey is away: it keeps its KV until the memory is needed, and then loses all of it. O(log n).
    pub(crate) fn park(&mut self, journey: JourneyId) {
        self.resume(journey);
        let Some(sequence) = self.sequences.get_mut(&journey) else { return };
        sequence.parked = Some(self.now);
        self.parked.insert(self.now, journey);
        self.now += 1;
    }

    /// The journey is back: its KV is not evicted any more. Returns the positions that it still holds. O(log n).
    pub(crate) fn resume(&mut self, journey: JourneyId) -> usize {
        let Some(sequence) = self.sequences.get_mut(&journey) else { return 0 };
        if let Some(since) = sequence.parked.take() {
            self.parked.remove(&since);
        }
        sequence.len()
    }

    /// Positions that a journey holds, without reserved ones. O(log n).
    pub(crate) fn held(&self, journey: JourneyId) -> usize {
        self.sequences.get(&journey).map_or(0, Sequence::len)
    }

    /// The blocks of a journey's positions, reserved ones included: position p is in block p / PAGE at p % PAGE. What
    /// lies beyond them in the last block may be another journey's. O(log n).
    pub(crate) fn table(&self, journey: JourneyId) -> &[BlockId] {
        self.sequences.get(&journey).map_or(&[], Sequence::blocks)
    }

    /// What is held now; between a step's reservations and its commits, with what is reserved. O(1).
    pub(crate) fn usage(&self) -> Usage {
        let pool = self.stock.pool();
        Usage {
            tokens: self.tokens,
            sequences: self.sequences.len(),
            parked: self.parked.len(),
            blocks_max: pool.blocks_max(),
            blocks_touched: pool.touched(),
            blocks_used: pool.used(),
            blocks_shared: pool.shared(),
            blocks_cached: pool.cached(),
            queried_tokens: self.queried_tokens,
            hit_tokens: self.hit_tokens,
        }
    }

    /// Does what [`KvLedger::reserve`] says, for a sequence that is out of the ledger and so cannot be evicted.
    fn fill(&mut self, sequence: &mut Sequence, feed: &Feed<'_>) -> Result<Reservation, Refused> {
        let held = sequence.len();
        if feed.from > held {
            return Err(Refused::Gap { from: feed.from, held });
        }
        sequence.cut(&mut self.stock, feed.from);
        if feed.from == 0 {
            sequence.salt = feed.salt;
        }
        let adopted = sequence.extend(&mut self.stock, feed.tokens, feed.adopt_max);
        self.make_room(sequence);
        let (needed, obtainable) = (sequence.missing(&self.stock), self.stock.obtainable());
        if needed > obtainable {
            return Err(Refused::NoRoom { needed, obtainable });
        }
        let copy = sequence.grow(&mut self.stock);
        let copy = copy.map_err(|_| Refused::NoRoom { needed, obtainable })?;
        self.queried_tokens += feed.adopt_max as u64;
        self.hit_tokens += adopted as u64;
        Ok(Reservation { adopted, copy })
    }

    /// Evicts parked journeys until a sequence can grow; none if all of them together are not enough. Their blocks
    /// become kept prefixes, so that one who returns finds again what has not been needed.
    fn make_room(&mut self, sequence: &Sequence) {
        let lack = |stock: &Stock| sequence.missing(stock).saturating_sub(stock.obtainable());
        let lacking = lack(&self.stock);
        if lacking == 0 || lacking > self.parked_blocks() {
            return;
        }
        while lack(&self.stock) > 0 {
            let Some((_, journey)) = self.parked.pop_first() else { return };
            self.release(journey, Keep::Prefix);
        }
    }

    /// Blocks in tables of parked journeys; some may be in use elsewhere too.
    fn parked_blocks(&self) -> usize {
        let parked = self.parked.values().filter_map(|journey| self.sequences.get(journey));
        parked.map(|sequence| sequence.blocks().len()).sum()
    }

    /// Runs `change` on a journey's sequence, taken out of the ledger; that of an unknown one is empty.
    fn with<R>(&mut self, journey: JourneyId, change: impl FnOnce(&mut Self, &mut Sequence) -> R) -> R {
        let mut sequence = self.sequences.remove(&journey).unwrap_or_default();
        self.tokens -= sequence.len();
        let result = change(self, &mut sequence);
        self.put(journey, sequence);
        result
    }

    /// Puts a sequence back; an empty one is dropped.
    fn put(&mut self, journey: JourneyId, sequence: Sequence) {
        self.tokens += sequence.len();
        if !sequence.blocks().is_empty() {
            self.sequences.insert(journey, sequence);
        } else if let Some(since) = sequence.parked {
            self.parked.remove(&since);
        }
    }
}

/// Positions in a block.
pub(crate) const PAGE: usize = 16;

#[cfg(test)]
impl KvLedger {
    /// Gives up all kept prefixes that no journey uses. O(n log n).
    pub(crate) fn clear_prefixes(&mut self) {
        self.stock.clear();
    }

    /// The tokens at the positions that a journey holds. O(log n).
    pub(crate) fn tokens(&self, journey: JourneyId) -> &[u32] {
        self.sequences.get(&journey).map_or(&[], Sequence::tokens)
    }

    /// The blocks and kept prefixes, to look at.
    fn stock(&self) -> &Stock {
        &self.stock
    }
}
