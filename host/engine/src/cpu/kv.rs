//! The memory that keys and values are in.
//!
//! A page holds [`LANES`] positions of one sequence over all layers and heads: for each layer and key head first the
//! keys as (dim, LANES), so that a page's positions are the lanes of the scores, then the values as (LANES, wide).
//! Which page belongs to whom is not known here.

use bytemuck::Pod;

use super::engine::KvType;
use super::simd::{Isa, LANES, load_up_to};
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

/// Pages of one engine.
pub(super) struct Pages<E> {
    shape: KvShape,
    pages: Vec<Box<[[E; LANES]]>>,
}

/// Keys (dim, LANES) and values (LANES, wide) of one head in one layer of a page.
#[derive(Clone, Copy)]
pub(super) struct PageView<'a, E> {
    /// Keys by dimension.
    pub(super) keys: &'a [[E; LANES]],
    /// Values by position, in vectors.
    pub(super) values: &'a [[E; LANES]],
}

/// One position: its page and its place there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Index of the page.
    pub(super) page: usize,
    /// Position within it.
    pub(super) place: usize,
}

impl<E: Element> Pages<E> {
    /// No pages yet.
    pub(super) fn new(shape: KvShape) -> Self {
        Self { shape, pages: Vec::new() }
    }

    /// Makes sure that pages `0..count` exist.
    pub(super) fn grow(&mut self, count: usize) {
        let vectors = self.shape.page() / LANES;
        while self.pages.len() < count {
            self.pages.push(vec![[E::zeroed(); LANES]; vectors].into());
        }
    }

    /// Bytes of a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.shape.page() * size_of::<E>()
    }

    /// Writes keys and values, both (kv_heads, dim), of one position in one layer.
    #[inline(always)]
    pub(super) fn write<I: Isa>(&mut self, isa: I, at: Slot, layer: usize, (keys, values): (&[f32], &[f32])) {
        let (shape, dim) = (self.shape, self.shape.head_dim);
        let vectors = shape.wide() / LANES;
        let page = &mut self.pages[at.page];
        for (head, (key, value)) in keys.chunks_exact(dim).zip(values.chunks_exact(dim)).enumerate() {
            let (of_keys, all) = shape.vectors();
            let (keys, values) = page[shape.head(layer, head)..][..all].split_at_mut(of_keys);
            for (key, lanes) in key.chunks(LANES).zip(keys.chunks_mut(LANES)) {
                let mut kept = [E::zeroed(); LANES];
                E::store(isa, load_up_to(isa, key, 0.0), &mut kept);
                for (lanes, key) in lanes.iter_mut().zip(kept) {
                    lanes[at.place] = key;
                }
            }
            for (value, into) in value.chunks(LANES).zip(&mut values[at.place * vectors..]) {
                E::store(isa, load_up_to(isa, value, 0.0), into);
            }
        }
    }

    /// Copies the first `positions` of a page over another's, in all layers.
    pub(super) fn copy(&mut self, from: usize, to: usize, positions: usize) {
        let (shape, vectors) = (self.shape, self.shape.wide() / LANES);
        let source = self.pages[from].clone();
        for (from, to) in source.chunks(shape.vectors().1).zip(self.pages[to].chunks_mut(shape.vectors().1)) {
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
        let (keys, values) = self.pages[page][self.shape.head(layer, head)..][..all].split_at(of_keys);
        PageView { keys, values }
    }
}
