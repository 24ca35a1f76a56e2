//! Blocks of KV memory as numbers: who holds each one and which are free.
//!
//! Separate from the prefix index and the sequences, which both hold blocks, so that counting is in one place and
//! exact. It knows neither tokens nor journeys, and owns no memory: the storage is indexed by [`BlockId`].

/// A block of KV memory: [`PAGE`](crate::paging::PAGE) positions over all layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(u32);

/// All blocks of one engine.
#[derive(Debug)]
pub(super) struct Pool {
    /// By block; as long as the highest block that was ever handed out.
    blocks: Vec<Block>,
    /// Blocks that nobody holds; the one given back last is handed out first, as it may still be in a cache.
    free: Vec<BlockId>,
    /// Most blocks there may ever be.
    blocks_max: usize,
    /// Blocks in more than one sequence.
    shared: usize,
    /// Blocks in the prefix index and in no sequence.
    cached: usize,
}

/// Who holds a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Block {
    /// Sequences that have it in their table.
    users: u32,
    /// Whether the prefix index has it.
    indexed: bool,
}

impl BlockId {
    /// The block's place in the storage, counted in blocks.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Block {
    fn is_free(self) -> bool {
        self.users == 0 && !self.indexed
    }

    fn is_shared(self) -> bool {
        self.users > 1
    }

    fn is_cached(self) -> bool {
        self.users == 0 && self.indexed
    }
}

impl Pool {
    /// A pool in which every block is free. No more than `u32::MAX` blocks are ever handed out.
    pub(super) fn new(blocks_max: usize) -> Self {
        let blocks_max = blocks_max.min(u32::MAX as usize);
        Self { blocks: Vec::new(), free: Vec::new(), blocks_max, shared: 0, cached: 0 }
    }

    /// Hands out a free block to one sequence, or nothing when all blocks are held. O(1).
    pub(super) fn take(&mut self) -> Option<BlockId> {
        let block = self.free.pop().or_else(|| self.fresh())?;
        self.blocks[block.index()].users = 1;
        Some(block)
    }

    /// One more sequence has the block in its table; returns how many do now. O(1).
    pub(super) fn hold(&mut self, block: BlockId) -> u32 {
        self.change(block, |state| state.users += 1).users
    }

    /// A sequence gives the block up; returns how many still have it. It is free when that is none and it is not
    /// indexed. O(1).
    ///
    /// # Panics
    /// When no sequence has the block: a double free, which would hand one block to two journeys.
    pub(super) fn let_go(&mut self, block: BlockId) -> u32 {
        let fewer = |users: u32| users.checked_sub(1).expect("a block is given up by one who has it");
        self.change(block, |state| state.users = fewer(state.users)).users
    }

    /// The prefix index has the block from now on. O(1).
    pub(super) fn index(&mut self, block: BlockId) {
        self.change(block, |state| state.indexed = true);
    }

    /// The prefix index gives the block up; it is free when no sequence has it. O(1).
    pub(super) fn unindex(&mut self, block: BlockId) {
        self.change(block, |state| state.indexed = false);
    }

    /// Whether writing to the block is seen by its one sequence only. O(1).
    pub(super) fn is_writable(&self, block: BlockId) -> bool {
        self.blocks[block.index()] == Block { users: 1, indexed: false }
    }

    /// Whether exactly one sequence has the block, in the index or not. O(1).
    pub(super) fn is_private(&self, block: BlockId) -> bool {
        self.blocks[block.index()].users == 1
    }

    /// Whether the prefix index has the block. O(1).
    pub(super) fn is_indexed(&self, block: BlockId) -> bool {
        self.blocks[block.index()].indexed
    }

    /// Blocks that [`Pool::take`] can hand out.
    pub(super) fn available(&self) -> usize {
        self.blocks_max - self.blocks.len() + self.free.len()
    }

    /// Most blocks there may ever be.
    pub(super) fn blocks_max(&self) -> usize {
        self.blocks_max
    }

    /// Blocks that were ever handed out; all block numbers are below it, so it is the size that storage needs.
    pub(super) fn touched(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks in at least one sequence.
    pub(super) fn used(&self) -> usize {
        self.blocks.len() - self.free.len() - self.cached
    }

    /// Blocks in more than one sequence.
    pub(super) fn shared(&self) -> usize {
        self.shared
    }

    /// Blocks in the prefix index and in no sequence.
    pub(super) fn cached(&self) -> usize {
        self.cached
    }

    fn fresh(&mut self) -> Option<BlockId> {
        if self.blocks.len() == self.blocks_max {
            return None;
        }
        let block = BlockId(u32::try_from(self.blocks.len()).ok()?);
        self.blocks.push(Block::default());
        Some(block)
    }

    /// Changes who holds a block and keeps the counts and the free list in step with it.
    fn change(&mut self, block: BlockId, by: impl FnOnce(&mut Block)) -> Block {
        let state = &mut self.blocks[block.index()];
        let before = *state;
        by(state);
        let after = *state;
        self.shared = self.shared + usize::from(after.is_shared()) - usize::from(before.is_shared());
        self.cached = self.cached + usize::from(after.is_cached()) - usize::from(before.is_cached());
        if after.is_free() && !before.is_free() {
            self.free.push(block);
        }
        after
    }
}

#[cfg(test)]
impl Pool {
    /// Counts everything anew, given how many sequences have each block and whether the index has it.
    pub(super) fn audit(&self, holders: impl Fn(BlockId) -> (u32, bool)) {
        let ids = (0..).map(BlockId).take(self.blocks.len());
        let expected: Vec<Block> =
            ids.map(holders).map(|(users, indexed)| Block { users, indexed }).collect();
        assert_eq!(self.blocks, expected, "holders");
        let count = |of: fn(Block) -> bool| expected.iter().filter(|block| of(**block)).count();
        assert_eq!((self.shared, self.cached), (count(Block::is_shared), count(Block::is_cached)));
        let mut free = self.free.clone();
        free.sort();
        free.dedup();
        assert_eq!(free.len(), self.free.len(), "a block is free once");
        assert!(free.iter().all(|block| expected[block.index()].is_free()), "only what nobody holds is free");
        assert_eq!(free.len(), count(Block::is_free), "what nobody holds is free");
        assert!(self.blocks.len() <= self.blocks_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_pool_says_so_until_a_block_is_given_up() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        assert_ne!(a, b);
        assert_eq!((pool.take(), pool.available(), pool.used()), (None, 0, 2));
        assert_eq!(pool.let_go(a), 0);
        assert_eq!(pool.take(), Some(a));
        assert_eq!(pool.touched(), 2);
    }

    #[test]
    fn a_block_is_free_when_its_last_holder_leaves() {
        let mut pool = Pool::new(1);
        let block = pool.take().unwrap();
        assert!(pool.is_writable(block));
        pool.hold(block);
        pool.index(block);
        assert_eq!((pool.shared(), pool.cached(), pool.is_writable(block)), (1, 0, false));
        assert_eq!(pool.let_go(block), 1);
        assert!(!pool.is_writable(block), "the index would see it");
        assert_eq!(pool.let_go(block), 0);
        assert_eq!((pool.shared(), pool.cached(), pool.available()), (0, 1, 0));
        pool.unindex(block);
        assert_eq!((pool.cached(), pool.available()), (0, 1));
    }

    #[test]
    #[should_panic(expected = "given up by one who has it")]
    fn a_double_free_does_not_pass() {
        let mut pool = Pool::new(1);
        let block = pool.take().unwrap();
        pool.let_go(block);
        pool.let_go(block);
    }
}
