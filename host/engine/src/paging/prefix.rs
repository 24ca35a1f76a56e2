//! Which prefixes of tokens have their KV in memory: a tree of blocks.
//!
//! A node is a block together with the tokens at its positions, and its children continue it; only full blocks are
//! continued. Siblings are kept in the order of their tokens and none is a prefix of another, so the one that agrees
//! longest with a text is a neighbour of where the text would stand: a match ends at any token, and nothing is hashed.
//! Every tenant has a tree of its own.
//!
//! A node that no sequence uses may be evicted, leaves first, the one unused for the longest time first. The index
//! counts no references and frees nothing: what it lets go of is for its owner to give back.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::PAGE;
use super::pool::BlockId;

/// The prefixes that are kept.
#[derive(Debug, Default)]
pub(super) struct PrefixIndex {
    /// Children by what they continue and by their tokens.
    tree: BTreeMap<(Parent, Chunk), BlockId>,
    /// By block; `None` for blocks that are not in the tree.
    nodes: Vec<Option<Node>>,
    /// Leaves without a user, by when they lost their last one: what can be evicted at once, in order.
    idle: BTreeSet<(u64, BlockId)>,
    /// Nodes without a user at or below them: what can be evicted one after the other.
    evictable: usize,
    /// Counts the times at which a node lost its last user.
    now: u64,
}

/// What a block continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Parent {
    /// Nothing: it begins a text of the tenant with this salt.
    Root(u64),
    /// A full block of the index.
    Block(BlockId),
}

/// The longest part of a text that is in the index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Its blocks in order; all but the last one are full.
    pub(super) blocks: Vec<BlockId>,
    /// Its length in tokens. When no multiple of [`PAGE`], what follows in the last block is another text's.
    pub(super) len: usize,
}

#[derive(Debug)]
struct Node {
    parent: Parent,
    chunk: Chunk,
    /// Nodes that continue it.
    children: u32,
    /// 1 if a sequence has the block in its table, and 1 for each child with pins: zero means that nothing at or
    /// below the node is in use.
    pins: u32,
    /// When `pins` became zero.
    idle_since: u64,
}

/// The tokens of a block, 1 to [`PAGE`] of them; ordered as texts are.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    tokens: [u32; PAGE],
    len: usize,
}

impl PrefixIndex {
    /// Adds a block with its tokens below `parent`; a sequence has it in its table. O(log n).
    ///
    /// The block is not in the index, and [`PrefixIndex::nearest`] has found no block that begins with these tokens.
    pub(super) fn insert(&mut self, parent: Parent, tokens: &[u32], block: BlockId) {
        let chunk = Chunk::new(tokens);
        if let Parent::Block(above) = parent {
            self.pin(above);
            self.node(above).children += 1;
        }
        if self.nodes.len() <= block.index() {
            self.nodes.resize_with(block.index() + 1, || None);
        }
        self.nodes[block.index()] = Some(Node { parent, chunk, children: 0, pins: 1, idle_since: 0 });
        self.tree.insert((parent, chunk), block);
    }

    /// Takes a leaf out. O(log n), and O(depth) when it was all that was in use of its text.
    pub(super) fn remove(&mut self, leaf: BlockId) {
        let Some(node) = self.nodes[leaf.index()].take() else { return };
        debug_assert_eq!(node.children, 0, "what has children is needed by them");
        self.tree.remove(&(node.parent, node.chunk));
        if node.pins == 0 {
            self.evictable -= 1;
            self.idle.remove(&(node.idle_since, leaf));
        }
        let Parent::Block(above) = node.parent else { return };
        let parent = self.node(above);
        parent.children -= 1;
        let (is_idle_leaf, since) = (parent.children == 0 && parent.pins == 0, parent.idle_since);
        if is_idle_leaf {
            self.idle.insert((since, above));
        }
        if node.pins > 0 {
            self.unpin(above);
        }
    }

    /// Takes out the leaf that has been without a user for the longest time, if there is one. O(log n).
    pub(super) fn evict(&mut self) -> Option<BlockId> {
        let &(_, leaf) = self.idle.first()?;
        self.remove(leaf);
        Some(leaf)
    }

    /// A block of the index has a first user. O(log n), and O(depth) when nothing of its text was in use.
    pub(super) fn pin(&mut self, block: BlockId) {
        let mut next = Parent::Block(block);
        while let Parent::Block(at) = next {
            let node = self.node(at);
            node.pins += 1;
            if node.pins > 1 {
                return;
            }
            next = node.parent;
            let since = node.idle_since;
            self.idle.remove(&(since, at));
            self.evictable -= 1;
        }
    }

    /// A block of the index has lost its last user. As [`PrefixIndex::pin`].
    pub(super) fn unpin(&mut self, block: BlockId) {
        let mut next = Parent::Block(block);
        while let Parent::Block(at) = next {
            let now = self.now;
            let node = self.node(at);
            node.pins -= 1;
            if node.pins > 0 {
                return;
            }
            next = node.parent;
            node.idle_since = now;
            let is_leaf = node.children == 0;
            if is_leaf {
                self.idle.insert((now, at));
            }
            self.evictable += 1;
            self.now += 1;
        }
    }

    /// The longest beginning of `tokens` below `parent`. O(blocks found · log n).
    pub(super) fn find(&self, mut parent: Parent, tokens: &[u32]) -> Found {
        let mut found = Found::default();
        for chunk in tokens.chunks(PAGE) {
            let Some((block, same)) = self.nearest(parent, chunk) else { break };
            found.blocks.push(block);
            found.len += same;
            if same < PAGE {
                break;
            }
            parent = Parent::Block(block);
        }
        found
    }

    /// The child of `parent` that agrees longest with `tokens` (at most [`PAGE`]), and for how many tokens; at least
    /// one. O(log n).
    pub(super) fn nearest(&self, parent: Parent, tokens: &[u32]) -> Option<(BlockId, usize)> {
        let place = (parent, Chunk::new(tokens));
        let agree = |(&(above, ref chunk), &block): (&(Parent, Chunk), &BlockId)| {
            (above == parent).then(|| (block, common(chunk.tokens(), tokens)))
        };
        let before = self.tree.range(..=&place).next_back().and_then(agree);
        let after = self.tree.range(&place..).next().and_then(agree);
        before.into_iter().chain(after).filter(|&(_, same)| same > 0).max_by_key(|&(_, same)| same)
    }

    /// Tokens of a block in the index. O(1).
    pub(super) fn tokens(&self, block: BlockId) -> &[u32] {
        self.get(block).map_or(&[], |node| node.chunk.tokens())
    }

    /// What keeps a block from being evicted: 1 if a sequence has it, and 1 for each block that continues it and is
    /// kept from it itself. O(1).
    pub(super) fn pins(&self, block: BlockId) -> u32 {
        self.get(block).map_or(0, |node| node.pins)
    }

    /// Blocks that [`PrefixIndex::evict`] can give, one after the other.
    pub(super) fn evictable(&self) -> usize {
        self.evictable
    }

    fn get(&self, block: BlockId) -> Option<&Node> {
        self.nodes.get(block.index())?.as_ref()
    }

    fn node(&mut self, block: BlockId) -> &mut Node {
        self.nodes[block.index()].as_mut().expect("a block that is named as a node is in the index")
    }
}

impl Chunk {
    fn new(tokens: &[u32]) -> Self {
        let mut chunk = Self { tokens: [0; PAGE], len: tokens.len() };
        chunk.tokens[..tokens.len()].copy_from_slice(tokens);
        chunk
    }

    fn tokens(&self) -> &[u32] {
        &self.tokens[..self.len]
    }
}

impl Ord for Chunk {
    fn cmp(&self, other: &Self) -> Ordering {
        self.tokens().cmp(other.tokens())
    }
}

impl PartialOrd for Chunk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Self) -> bool {
        self.tokens() == other.tokens()
    }
}

impl Eq for Chunk {}

/// Tokens with which both begin.
fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
impl PrefixIndex {
    /// All blocks of the index, each with its tenant's salt and the whole text up to its end.
    pub(super) fn texts(&self) -> BTreeMap<BlockId, (u64, Vec<u32>)> {
        let text = |block: BlockId| {
            let mut chunks = Vec::new();
            let mut next = Parent::Block(block);
            while let Parent::Block(at) = next {
                chunks.push(self.tokens(at));
                next = self.nodes[at.index()].as_ref().expect("a parent").parent;
            }
            let Parent::Root(salt) = next else { unreachable!("a text begins at a root") };
            (salt, chunks.into_iter().rev().flatten().copied().collect())
        };
        self.tree.values().map(|&block| (block, text(block))).collect()
    }

    /// Counts everything anew, given which blocks are in a sequence.
    pub(super) fn audit(&self, is_used: impl Fn(BlockId) -> bool) {
        let mut evictable = 0;
        let mut idle = BTreeSet::new();
        for (&(parent, chunk), &block) in &self.tree {
            let node = self.nodes[block.index()].as_ref().expect("a node");
            assert_eq!((node.parent, node.chunk), (parent, chunk));
            let children: Vec<&Node> =
                self.nodes.iter().flatten().filter(|n| n.parent == Parent::Block(block)).collect();
            assert!(children.is_empty() || chunk.len == PAGE, "only full blocks are continued");
            assert_eq!(node.children as usize, children.len());
            let pins = children.iter().filter(|child| child.pins > 0).count() + usize::from(is_used(block));
            assert_eq!(node.pins as usize, pins);
            evictable += usize::from(pins == 0);
            if pins == 0 && children.is_empty() {
                idle.insert((node.idle_since, block));
            }
        }
        assert_eq!(self.nodes.iter().flatten().count(), self.tree.len());
        assert_eq!((self.evictable, &self.idle), (evictable, &idle));
        for (a, b) in self.tree.keys().zip(self.tree.keys().skip(1)) {
            assert!(
                a.0 != b.0 || !b.1.tokens().starts_with(a.1.tokens()),
                "no sibling is a prefix of another"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Pool;
    use super::*;

    const ROOT: Parent = Parent::Root(1);

    /// An index with these chunks below the root, each in use.
    fn index(chunks: &[&[u32]]) -> (PrefixIndex, Vec<BlockId>) {
        let mut pool = Pool::new(16);
        let mut index = PrefixIndex::default();
        let mut blocks: Vec<BlockId> = Vec::new();
        for tokens in chunks {
            let block = pool.take().expect("a block");
            index.insert(ROOT, tokens, block);
            blocks.push(block);
        }
        (index, blocks)
    }

    #[test]
    fn the_longest_match_may_be_on_either_side() {
        let (index, blocks) = index(&[&[1, 2, 3, 9], &[1, 2, 5], &[4]]);
        assert_eq!(index.nearest(ROOT, &[1, 2, 3, 4]), Some((blocks[0], 3)));
        assert_eq!(index.nearest(ROOT, &[1, 2, 5, 0, 0]), Some((blocks[1], 3)));
        assert_eq!(index.nearest(ROOT, &[1]).map(|(_, same)| same), Some(1));
        assert_eq!(index.nearest(ROOT, &[3]), None);
        assert_eq!(index.nearest(Parent::Root(2), &[1, 2]), None, "another tenant's");
    }

    #[test]
    fn a_text_is_followed_over_full_blocks_into_the_last_one() {
        let full: Vec<u32> = (0..16).collect();
        let (mut index, blocks) = index(&[&full]);
        let mut pool = Pool::new(9);
        let (_, below) = (pool.take(), pool.take().expect("a block"));
        index.insert(Parent::Block(blocks[0]), &[7, 8, 9], below);
        let text: Vec<u32> = full.iter().copied().chain([7, 8, 1]).collect();
        assert_eq!(index.find(ROOT, &text), Found { blocks: vec![blocks[0], below], len: 18 });
        assert_eq!(index.find(ROOT, &text[..16]), Found { blocks: vec![blocks[0]], len: 16 });
    }

    #[test]
    fn leaves_go_before_what_they_continue_and_the_longest_unused_first() {
        let full: Vec<u32> = (0..16).collect();
        let (mut index, blocks) = index(&[&[5], &full]);
        let mut pool = Pool::new(9);
        let below = (0..3).map(|_| pool.take()).last().flatten().expect("a block");
        index.insert(Parent::Block(blocks[1]), &[7], below);
        assert_eq!(index.evict(), None, "all are in use");
        index.unpin(blocks[1]);
        assert_eq!((index.evictable(), index.evict()), (0, None), "its child is in use");
        index.unpin(below);
        index.unpin(blocks[0]);
        assert_eq!(index.evictable(), 3);
        index.pin(blocks[0]);
        index.unpin(blocks[0]);
        let gone: Vec<BlockId> = std::iter::from_fn(|| index.evict()).collect();
        assert_eq!(gone, [below, blocks[1], blocks[0]]);
        assert!(index.texts().is_empty());
    }
}
