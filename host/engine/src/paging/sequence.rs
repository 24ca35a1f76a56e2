//! One journey's positions: in which blocks they are, and which tokens they hold.
//!
//! A step first reserves: the sequence is cut, takes over what the prefix index has of the new tokens, and gets room
//! for the rest; once that is written, a commit makes it part of the sequence. A block that anyone else sees is never
//! written; a sequence that must go on inside of one copies its part of it first. Appending a token touches the last
//! block only.

use super::PAGE;
use super::pool::BlockId;
use super::prefix::{Found, Parent};
use super::stock::{Exhausted, Stock};

/// The block table of one journey.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// The tenant's salt, set while the sequence is empty; it shares prefixes with sequences of the same salt only.
    pub(super) salt: u64,
    /// Block of each [`PAGE`] positions, reserved ones included.
    blocks: Vec<BlockId>,
    /// Token of each position, reserved ones included.
    tokens: Vec<u32>,
    /// Positions that are written.
    len: usize,
    /// Leading blocks that are full and in the prefix index. They stay there as long as the sequence has them, so the
    /// index is looked up and added to from here on only.
    anchored: usize,
    /// When it was parked, if it is; the ledger's order of eviction.
    pub(super) parked: Option<u64>,
}

/// The beginning of a block that must be copied before the step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockCopy {
    /// Where it is.
    pub(crate) from: BlockId,
    /// Where it goes.
    pub(crate) to: BlockId,
    /// How many positions from the start of the block, 1 to [`PAGE`] − 1, in all layers.
    pub(crate) positions: usize,
}

/// What remains of a sequence that is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing, except what was published before.
    Nothing,
    /// All its positions, as a prefix for later journeys of the same salt, until their memory is needed.
    Prefix,
}

impl Sequence {
    /// Shares all written positions with a new sequence. O(blocks).
    pub(super) fn fork(&self, stock: &mut Stock) -> Self {
        let blocks = self.blocks[..self.len.div_ceil(PAGE)].to_vec();
        blocks.iter().for_each(|&block| stock.hold(block));
        Self { blocks, tokens: self.tokens().to_vec(), parked: None, ..*self }
    }

    /// Gives up what is reserved, and what is written from `len` on. O(blocks given up · log n).
    pub(super) fn cut(&mut self, stock: &mut Stock, len: usize) {
        let len = len.min(self.len);
        // The last block first: what continues a block loses its user before it does.
        while self.blocks.len() > len.div_ceil(PAGE) {
            self.blocks.pop().into_iter().for_each(|block| stock.let_go(block));
        }
        self.tokens.truncate(len);
        self.len = len;
        self.anchored = self.anchored.min(len / PAGE);
    }

    /// Sets down which tokens come next, and takes over the positions of at most `adopt_max` of them that are in the
    /// prefix index; returns how many. Nothing is reserved yet.
    ///
    /// O(tokens), and where the index is looked up O(blocks taken over · log n). It is looked up while the whole
    /// sequence so far, but for its last partial block, is in it: a journey that has gone on by itself does not meet
    /// another's text again.
    pub(super) fn extend(&mut self, stock: &mut Stock, tokens: &[u32], adopt_max: usize) -> usize {
        let from = self.len;
        self.tokens.extend_from_slice(tokens);
        if adopt_max == 0 || self.anchored != from / PAGE {
            return 0;
        }
        let start = self.anchored * PAGE;
        let text = &self.tokens[start..from + adopt_max.min(tokens.len())];
        let found = stock.find(self.parent(self.anchored), text);
        if start + found.len <= from {
            return 0;
        }
        self.adopt(stock, found);
        self.len - from
    }

    /// Blocks that [`Sequence::grow`] needs to have. O(1).
    pub(super) fn missing(&self, stock: &Stock) -> usize {
        let copy = self.must_copy(stock).filter(|&block| !stock.can_withdraw(block));
        self.tokens.len().div_ceil(PAGE) - self.blocks.len() + usize::from(copy.is_some())
    }

    /// Takes room for all tokens that were set down. O(new blocks · log n).
    ///
    /// # Errors
    /// When the stock is exhausted; a cut then gives back what was taken so far.
    pub(super) fn grow(&mut self, stock: &mut Stock) -> Result<Option<BlockCopy>, Exhausted> {
        let shared = self.must_copy(stock);
        while self.blocks.len() < self.tokens.len().div_ceil(PAGE) {
            self.blocks.push(stock.take()?);
        }
        let Some(from) = shared else { return Ok(None) };
        match stock.take() {
            Ok(to) => {
                stock.let_go(from);
                self.blocks[self.len / PAGE] = to;
                Ok(Some(BlockCopy { from, to, positions: self.len % PAGE }))
            }
            // With no memory for a copy, what is only kept is written over.
            Err(exhausted) => {
                if stock.withdraw(from) {
                    Ok(None)
                } else {
                    Err(exhausted)
                }
            }
        }
    }

    /// What was reserved is written. O(1).
    pub(super) fn commit(&mut self) {
        self.len = self.tokens.len();
    }

    /// Puts the full blocks into the prefix index, from where it was left. O(new blocks · log n).
    pub(super) fn publish(&mut self, stock: &mut Stock) {
        while self.anchored < self.len / PAGE {
            self.publish_next(stock, PAGE);
            self.anchored += 1;
        }
    }

    /// Gives all blocks up, having put them into the prefix index if they are to be kept. O(blocks · log n).
    pub(super) fn release(&mut self, stock: &mut Stock, keep: Keep) {
        if keep == Keep::Prefix {
            self.publish(stock);
            let rest = self.len % PAGE;
            if rest > 0 {
                self.publish_next(stock, rest);
            }
        }
        self.cut(stock, 0);
    }

    /// Blocks of the positions, reserved ones included.
    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Tokens of the written positions.
    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens[..self.len]
    }

    /// Positions that are written.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Puts the first block that is not anchored, with `count` tokens, into the prefix index.
    fn publish_next(&mut self, stock: &mut Stock, count: usize) {
        let at = self.anchored;
        let tokens = &self.tokens[at * PAGE..][..count];
        self.blocks[at] = stock.publish(self.parent(at), tokens, self.blocks[at]);
    }

    /// Takes over blocks that continue the anchored ones, in place of a partial one of its own.
    fn adopt(&mut self, stock: &mut Stock, found: Found) {
        found.blocks.iter().for_each(|&block| stock.hold(block));
        let own = self.blocks.drain(self.anchored..);
        own.for_each(|block| stock.let_go(block));
        self.len = self.anchored * PAGE + found.len;
        self.anchored = self.len / PAGE;
        self.blocks.extend(found.blocks);
    }

    /// The block of the next position, if it has positions already and somebody else sees it. Nothing is reserved.
    fn must_copy(&self, stock: &Stock) -> Option<BlockId> {
        let goes_on_inside = self.len < self.tokens.len() && !self.len.is_multiple_of(PAGE);
        let block = goes_on_inside.then(|| self.blocks[self.len / PAGE]);
        block.filter(|&block| !stock.is_writable(block))
    }

    /// What the block at an index of the table continues; the blocks before it are anchored.
    fn parent(&self, at: usize) -> Parent {
        at.checked_sub(1).map_or(Parent::Root(self.salt), |before| Parent::Block(self.blocks[before]))
    }
}
