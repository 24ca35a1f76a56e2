//! The memory that keys and values are in.
//!
//! A page holds [`LANES`] positions of one sequence over all layers and heads: for each layer and key head first the
//! keys as (dim, LANES), so that a page's positions are the lanes of the scores, then the values as (LANES, wide).
//! Which page belongs to whom is not known here.

use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::engine::KvType;
use super::memory::Region;
use super::simd::{Isa, LANES, load_up_to, prefetch};
use crate::EngineError;
use crate::paging::PAGE;

/// How a key or value is kept.
pub(super) trait Element: Pod + Send + Sync {
    /// Reads sixteen.
    fn load<I: Isa>(isa: I, x: &[Self; LANES]) -> I::Floats;
    /// Writes sixteen, rounded to what is kept.
    fn store<I: Isa>(isa: I, x: I::Floats, into: &mut [Self; LANES]);
}

impl Element for f32 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, x: &[Self; LANES]) -> I::Floats {
        isa.load(x)
    }

    #[inline(always)]
    fn store<I: Isa>(isa: I, x: I::Floats, into: &mut [Self; LANES]) {
        isa.store(x, into);
    }
}

impl Element for u16 {
    #[inline(always)]
    fn load<I: Isa>(isa: I, x: &[Self; LANES]) -> I::Floats {
        isa.load_half(x)
    }

    #[inline(always)]
    fn store<I: Isa>(isa: I, x: I::Floats, into: &mut [Self; LANES]) {
        isa.store_half(x, into);
    }
}

const _: () = assert!(PAGE == LANES, "the positions of a page are the lanes of the scores");

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

impl KvShape {
    /// Width of a position's values: whole vectors.
    fn wide(self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Vectors of a head's keys, and of its keys and values together, in a page.
    fn vectors(self) -> (usize, usize) {
        (self.head_dim, self.head_dim + self.wide())
    }

    /// Bytes of one position over all layers.
    pub(crate) fn bytes_per_token(self, kept: KvType) -> u64 {
        (self.page() / LANES * kept.bytes()) as u64
    }

    /// Numbers in a page.
    pub(crate) fn page(self) -> usize {
        self.layers * self.kv_heads * self.vectors().1 * LANES
    }

    /// Where a head's vectors begin in a page.
    fn head(self, layer: usize, head: usize) -> usize {
        (layer * self.kv_heads + head) * self.vectors().1
    }
}

/// Pages of one engine, in slabs of a power of two of them: large enough for huge pages.
pub(super) struct Pages<E> {
    shape: KvShape,
    slabs: Vec<Region>,
    /// Binary logarithm of the pages in a slab.
    slab_bits: u32,
    kept: PhantomData<E>,
}

/// Keys (dim, LANES) and values (LANES, wide) of one head in one layer of a page.
#[derive(Clone, Copy)]
pub(super) struct PageView<'a, E> {
    /// Keys by dimension.
    pub(super) keys: &'a [[E; LANES]],
    /// Values by position, in vectors.
    pub(super) values: &'a [[E; LANES]],
}

impl<E: Element> Pages<E> {
    /// No pages yet.
    pub(super) fn new(shape: KvShape) -> Self {
        let page = (shape.page() * size_of::<E>()).max(1);
        let slab_bits = (SLAB_BYTES / page).max(1).ilog2();
        Self { shape, slabs: Vec::new(), slab_bits, kept: PhantomData }
    }

    /// Makes sure that pages `0..count` exist. Memory of a slab is taken from the system as its pages are written.
    pub(super) fn grow(&mut self, count: usize) -> Result<(), EngineError> {
        let bytes = self.page_bytes() << self.slab_bits;
        while self.slabs.len() << self.slab_bits < count {
            let slab = Region::new(bytes).map_err(|source| EngineError::Memory { bytes, source })?;
            self.slabs.push(slab);
        }
        Ok(())
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.shape.page() * size_of::<E>()
    }

    /// The slab of a page, and which of its bytes are the page's.
    #[inline(always)]
    fn place(&self, page: usize) -> (usize, Range<usize>) {
        let (slab, index) = (page >> self.slab_bits, page & ((1 << self.slab_bits) - 1));
        (slab, index * self.page_bytes()..(index + 1) * self.page_bytes())
    }

    #[inline(always)]
    fn page(&self, page: usize) -> &[[E; LANES]] {
        let (slab, place) = self.place(page);
        cast_slice(self.slabs[slab].part(&place))
    }

    #[inline(always)]
    fn page_mut(&mut self, page: usize) -> &mut [[E; LANES]] {
        let (slab, place) = self.place(page);
        cast_slice_mut(self.slabs[slab].part_mut(&place))
    }

    /// Some pages, to be written at the same time; `wanted` ascends.
    ///
    /// # Panics
    /// If it does not, or a page does not exist.
    pub(super) fn several<'a>(&'a mut self, wanted: &'a [usize]) -> impl Iterator<Item = PageMut<'a, E>> {
        let (shape, bits, bytes) = (self.shape, self.slab_bits, self.page_bytes());
        let (mut slabs, mut slab) = (self.slabs.iter_mut(), 0);
        wanted.chunk_by(move |a, b| a >> bits == b >> bits).flat_map(move |wanted| {
            let (skipped, mut next) = ((wanted[0] >> bits) - slab, wanted[0] >> bits << bits);
            slab += skipped + 1;
            let region = slabs.nth(skipped).expect("the slab exists");
            let mut pages = region.part_mut(&(0..bytes << bits)).chunks_exact_mut(bytes);
            wanted.iter().map(move |&page| {
                assert!(page >= next, "pages ascend");
                let numbers = pages.nth(page - next).expect("a slab has all its pages");
                next = page + 1;
                PageMut { shape, numbers: cast_slice_mut(numbers) }
            })
        })
    }

    /// Copies the first `positions` of a page over another's, in all layers.
    pub(super) fn copy(&mut self, from: usize, to: usize, positions: usize) {
        let (shape, vectors) = (self.shape, self.shape.wide() / LANES);
        let source = self.page(from).to_vec();
        let heads = self.page_mut(to).chunks_mut(shape.vectors().1);
        for (from, to) in source.chunks(shape.vectors().1).zip(heads) {
            for (from, to) in from[..shape.head_dim].iter().zip(&mut to[..shape.head_dim]) {
                to[..positions].copy_from_slice(&from[..positions]);
            }
            let values = shape.head_dim..shape.head_dim + positions * vectors;
            to[values.clone()].copy_from_slice(&from[values]);
        }
    }

    /// Keys and values of one head in one layer.
    #[inline(always)]
    pub(super) fn view(&self, page: usize, layer: usize, head: usize) -> PageView<'_, E> {
        let (of_keys, all) = self.shape.vectors();
        let (keys, values) = self.page(page)[self.shape.head(layer, head)..][..all].split_at(of_keys);
        PageView { keys, values }
    }
}

/// A page to be written.
pub(super) struct PageMut<'a, E> {
    shape: KvShape,
    numbers: &'a mut [[E; LANES]],
}

impl<E: Element> PageMut<'_, E> {
    /// Writes keys and values, both (kv_heads, dim), at a layer's place.
    #[inline(always)]
    pub(super) fn write<I: Isa>(
        &mut self,
        isa: I,
        (layer, place): (usize, usize),
        (keys, values): (&[f32], &[f32]),
    ) {
        let (shape, dim) = (self.shape, self.shape.head_dim);
        let vectors = shape.wide() / LANES;
        for (head, (key, value)) in keys.chunks_exact(dim).zip(values.chunks_exact(dim)).enumerate() {
            let (of_keys, all) = shape.vectors();
            let (keys, values) = self.numbers[shape.head(layer, head)..][..all].split_at_mut(of_keys);
            for (key, lanes) in key.chunks(LANES).zip(keys.chunks_mut(LANES)) {
                let mut kept = [E::zeroed(); LANES];
                E::store(isa, load_up_to(isa, key, 0.0), &mut kept);
                for (lanes, key) in lanes.iter_mut().zip(kept) {
                    lanes[place] = key;
                }
            }
            for (value, into) in value.chunks(LANES).zip(&mut values[place * vectors..]) {
                E::store(isa, load_up_to(isa, value, 0.0), into);
            }
        }
    }

    /// Asks for the keys of a layer, all of which [`PageMut::write`] writes to.
    #[inline(always)]
    pub(super) fn expect<I: Isa>(&self, isa: I, layer: usize) {
        for head in 0..self.shape.kv_heads {
            let keys = &self.numbers[self.shape.head(layer, head)..][..self.shape.head_dim];
            prefetch(isa, keys, 0..size_of_val(keys));
        }
    }
}

/// What a slab has at most, unless a page is larger: four huge pages.
const SLAB_BYTES: usize = 8 << 20;
