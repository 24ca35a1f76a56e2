//! The blocks and the prefix index as one: what a sequence takes from and gives back to.
//!
//! Separate so that the two cannot disagree: a block that is used for the first time or for the last is pinned or
//! unpinned in the index here and nowhere else. It knows no journeys.

use super::pool::{BlockId, Pool};
use super::prefix::{Found, Parent, PrefixIndex};

/// Blocks, and the prefixes that are kept in them.
#[derive(Debug)]
pub(super) struct Stock {
    pool: Pool,
    prefixes: PrefixIndex,
}

/// All blocks are in use.
#[derive(Debug)]
pub(super) struct Exhausted;

impl Stock {
    /// A stock of free blocks.
    pub(super) fn new(blocks_max: usize) -> Self {
        Self { pool: Pool::new(blocks_max), prefixes: PrefixIndex::default() }
    }

    /// A block for one sequence; a kept prefix makes way when none is free. O(log n).
    ///
    /// # Errors
    /// When [`Stock::obtainable`] is zero.
    pub(super) fn take(&mut self) -> Result<BlockId, Exhausted> {
        if self.pool.available() == 0 {
            self.evict();
        }
        self.pool.take().ok_or(Exhausted)
    }

    /// One more sequence has the block. O(log n).
    pub(super) fn hold(&mut self, block: BlockId) {
        if self.pool.hold(block) == 1 {
            self.prefixes.pin(block);
        }
    }

    /// A sequence gives the block up. O(log n).
    pub(super) fn let_go(&mut self, block: BlockId) {
        if self.pool.let_go(block) == 0 && self.pool.is_indexed(block) {
            self.prefixes.unpin(block);
        }
    }

    /// Keeps a sequence's block, which has `tokens` and continues `parent`. Returns the block that the sequence has
    /// now: a block that is kept already for the same tokens takes the place of its own. O(log n).
    pub(super) fn publish(&mut self, parent: Parent, tokens: &[u32], own: BlockId) -> BlockId {
        let nearest = self.prefixes.nearest(parent, tokens);
        if let Some((kept, _)) = nearest.filter(|&(_, same)| same == tokens.len()) {
            self.hold(kept);
            self.let_go(own);
            return kept;
        }
        // One that was kept for the beginning of these tokens says nothing that the new one does not. It may be the
        // same block, kept by one who was cut before it left.
        if let Some((shorter, _)) = nearest.filter(|&(block, same)| same == self.prefixes.tokens(block).len())
        {
            self.prefixes.remove(shorter);
            self.pool.unindex(shorter);
        }
        debug_assert!(!self.pool.is_indexed(own), "an indexed block is found by its tokens");
        self.prefixes.insert(parent, tokens, own);
        self.pool.index(own);
        own
    }

    /// Gives up a kept prefix so that the one sequence that has the block may write to it; returns whether it may. For
    /// when nothing can be taken: what continued the block is evicted by then. O(log n).
    pub(super) fn withdraw(&mut self, block: BlockId) -> bool {
        let can = self.can_withdraw(block);
        if can {
            self.prefixes.remove(block);
            self.pool.unindex(block);
        }
        can
    }

    /// Gives up all prefixes that are not in use. O(n log n).
    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        while self.evict() {}
    }

    /// The longest beginning of `tokens` below `parent` that is kept. O(blocks found · log n).
    pub(super) fn find(&self, parent: Parent, tokens: &[u32]) -> Found {
        self.prefixes.find(parent, tokens)
    }

    /// Blocks that [`Stock::take`] can give, one after the other. O(1).
    pub(super) fn obtainable(&self) -> usize {
        self.pool.available() + self.prefixes.evictable()
    }

    /// Whether only one sequence sees what is written to the block. O(1).
    pub(super) fn is_writable(&self, block: BlockId) -> bool {
        self.pool.is_writable(block)
    }

    /// Whether a block is in use by one sequence and otherwise only kept, with nothing in use that continues it: it
    /// can be withdrawn once what continues it is evicted. O(1).
    pub(super) fn can_withdraw(&self, block: BlockId) -> bool {
        self.pool.is_private(block) && self.prefixes.pins(block) == 1
    }

    /// The counts of blocks.
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn evict(&mut self) -> bool {
        let leaf = self.prefixes.evict();
        leaf.inspect(|&block| self.pool.unindex(block)).is_some()
    }
}

#[cfg(test)]
impl Stock {
    /// The kept prefixes, to look at.
    pub(super) fn prefixes(&self) -> &PrefixIndex {
        &self.prefixes
    }
}
