//! Keys and values of the positions that have been fed, by journey.
//!
//! The store belongs to the engine and is passed into the decoder, so layers hold no state and a journey's KV can be
//! cut, kept and dropped without the model. A sequence is a list of pages of [`PAGE`] positions over all layers:
//! growing adds a page and copies nothing; cutting gives whole pages back, which is paid for by the appends that took
//! them.

use std::collections::HashMap;

use journey::JourneyId;

use crate::KvUsage;

/// All KV of one engine.
pub(crate) struct KvStore {
    shape: KvShape,
    sequences: HashMap<JourneyId, Sequence>,
    /// Pages of cut and released sequences, for reuse.
    free: Vec<Page>,
}

/// Sizes of a page, fixed by the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KvShape {
    /// Decoder layers.
    pub(crate) layers: usize,
    /// Key and value heads per layer.
    pub(crate) kv_heads: usize,
    /// Width of one head.
    pub(crate) head_dim: usize,
}

/// Keys and values of [`PAGE`] positions: for each layer and head first the keys as (head_dim, PAGE), so that one key
/// element of all positions lies side by side, then the values as (PAGE, head_dim).
#[derive(Debug)]
struct Page(Box<[f32]>);

/// The KV of one journey.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pages: Vec<Page>,
    len: usize,
}

impl KvStore {
    pub(crate) fn new(shape: KvShape) -> Self {
        Self { shape, sequences: HashMap::new(), free: Vec::new() }
    }

    /// Takes a journey's sequence out, cut to `from` and with room for `count` positions more; an unknown journey's is
    /// empty. A step owns its sequences and puts them back.
    pub(crate) fn take(&mut self, journey: JourneyId, from: usize, count: usize) -> Sequence {
        let mut sequence = self.sequences.remove(&journey).unwrap_or_default();
        self.cut(&mut sequence, from);
        let pages = (from + count).div_ceil(PAGE);
        while sequence.pages.len() < pages {
            let fresh = || Page(vec![0.0; self.shape.page()].into());
            sequence.pages.push(self.free.pop().unwrap_or_else(fresh));
        }
        sequence
    }

    /// Puts a sequence back that now holds `len` positions; what was reserved beyond them is given up.
    pub(crate) fn put(&mut self, journey: JourneyId, mut sequence: Sequence, len: usize) {
        self.cut(&mut sequence, len);
        sequence.len = len;
        if len > 0 {
            self.sequences.insert(journey, sequence);
        }
    }

    /// Drops a journey's sequence.
    pub(crate) fn release(&mut self, journey: JourneyId) {
        if let Some(sequence) = self.sequences.remove(&journey) {
            self.free.extend(sequence.pages);
        }
    }

    /// Positions held for a journey.
    pub(crate) fn held(&self, journey: JourneyId) -> usize {
        self.sequences.get(&journey).map_or(0, |sequence| sequence.len)
    }

    pub(crate) fn usage(&self) -> KvUsage {
        let pages: usize = self.sequences.values().map(|sequence| sequence.pages.len()).sum();
        KvUsage {
            tokens: self.sequences.values().map(|sequence| sequence.len).sum(),
            sequences: self.sequences.len(),
            bytes: (pages + self.free.len()) * self.shape.page() * size_of::<f32>(),
        }
    }

    fn cut(&mut self, sequence: &mut Sequence, len: usize) {
        let pages = len.div_ceil(PAGE).min(sequence.pages.len());
        self.free.extend(sequence.pages.drain(pages..));
        sequence.len = sequence.len.min(len);
    }
}

impl Sequence {
    /// Writes key and value of one position in one layer; `key` and `value` are (kv_heads, head_dim).
    pub(crate) fn write(&mut self, shape: KvShape, at: Place, key: &[f32], value: &[f32]) {
        let dim = shape.head_dim;
        let (page, slot) = (&mut self.pages[at.position / PAGE], at.position % PAGE);
        for (head, (key, value)) in key.chunks_exact(dim).zip(value.chunks_exact(dim)).enumerate() {
            let block = &mut page.0[shape.block(at.layer, head)..][..2 * dim * PAGE];
            let (keys, values) = block.split_at_mut(dim * PAGE);
            for (slots, &k) in keys.chunks_exact_mut(PAGE).zip(key) {
                slots[slot] = k;
            }
            values[slot * dim..][..dim].copy_from_slice(value);
        }
    }

    /// Keys as (head_dim, PAGE) and values as (PAGE, head_dim) of one head in one layer, page by page in the order of
    /// positions. What lies beyond the written positions is arbitrary.
    pub(crate) fn blocks(
        &self,
        shape: KvShape,
        layer: usize,
        head: usize,
    ) -> impl Iterator<Item = (&[f32], &[f32])> {
        let size = shape.head_dim * PAGE;
        self.pages.iter().map(move |page| page.0[shape.block(layer, head)..][..2 * size].split_at(size))
    }
}

/// One position in one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The layer.
    pub(crate) layer: usize,
    /// The position in the sequence.
    pub(crate) position: usize,
}

impl KvShape {
    /// Bytes of one position over all layers.
    pub(crate) fn bytes_per_token(self) -> u64 {
        (self.page() / PAGE * size_of::<f32>()) as u64
    }

    /// Numbers in a page.
    fn page(self) -> usize {
        self.block(self.layers, 0)
    }

    /// Where a head's keys begin in a page.
    fn block(self, layer: usize, head: usize) -> usize {
        (layer * self.kv_heads + head) * 2 * self.head_dim * PAGE
    }
}

/// Positions in a page.
pub(crate) const PAGE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: KvShape = KvShape { layers: 2, kv_heads: 3, head_dim: 4 };

    fn filled(store: &mut KvStore, journey: JourneyId, from: usize, count: usize) {
        let mut sequence = store.take(journey, from, count);
        for position in from..from + count {
            for layer in 0..2 {
                let key: Vec<f32> = (0..12).map(|i| (position * 100 + layer * 50 + i) as f32).collect();
                let value: Vec<f32> = key.iter().map(|k| -k).collect();
                sequence.write(SHAPE, Place { layer, position }, &key, &value);
            }
        }
        store.put(journey, sequence, from + count);
    }

    fn read(store: &mut KvStore, journey: JourneyId) -> Vec<(f32, f32)> {
        let len = store.held(journey);
        let sequence = store.take(journey, len, 0);
        let blocks = sequence.blocks(SHAPE, 1, 2);
        let all = blocks.flat_map(|(k, v)| (0..PAGE).map(|slot| (k[PAGE + slot], v[slot * 4 + 1])));
        let read = all.take(len).collect();
        store.put(journey, sequence, len);
        read
    }

    fn expected(positions: std::ops::Range<usize>) -> Vec<(f32, f32)> {
        positions.map(|position| (position * 100 + 50 + 9) as f32).map(|k| (k, -k)).collect()
    }

    #[test]
    fn positions_survive_growing_and_cutting() {
        let mut store = KvStore::new(SHAPE);
        let journey = JourneyId(7);
        filled(&mut store, journey, 0, 5);
        filled(&mut store, journey, 5, 40);
        assert_eq!(read(&mut store, journey), expected(0..45));
        filled(&mut store, journey, 17, 1);
        assert_eq!(store.held(journey), 18);
        assert_eq!(read(&mut store, journey), expected(0..18));
    }

    #[test]
    fn usage_counts_what_is_held_and_pages_are_reused() {
        let mut store = KvStore::new(SHAPE);
        filled(&mut store, JourneyId(1), 0, 33);
        filled(&mut store, JourneyId(2), 0, 16);
        let page = 2 * 3 * 4 * 2 * PAGE * 4;
        assert_eq!(store.usage(), KvUsage { tokens: 49, sequences: 2, bytes: 4 * page });
        assert_eq!(SHAPE.bytes_per_token(), (page / PAGE) as u64);
        store.release(JourneyId(1));
        store.release(JourneyId(3));
        assert_eq!(store.usage(), KvUsage { tokens: 16, sequences: 1, bytes: 4 * page });
        filled(&mut store, JourneyId(4), 0, 48);
        assert_eq!(store.usage(), KvUsage { tokens: 64, sequences: 2, bytes: 4 * page });
        filled(&mut store, JourneyId(4), 0, 1);
        assert_eq!(store.usage(), KvUsage { tokens: 17, sequences: 2, bytes: 4 * page });
    }
}
