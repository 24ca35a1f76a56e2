//! Rows of activations as the quantised products read them.

use super::simd::{Isa, LANES};
use super::team::{Chunks, Columns};

/// Rows of 8-bit codes in blocks of [`BLOCK`], each block with a scale of its own: x = scale * code.
#[derive(Default)]
pub(crate) struct CodedRows {
    /// (rows, width / 4): four codes to a word, as the products take them.
    words: Vec<i32>,
    /// (rows, width / BLOCK).
    blocks: Vec<Block>,
    /// Numbers in a row.
    width: usize,
}

/// What the products need to know of a block beside its codes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Block {
    /// Value of one step of the codes.
    pub(crate) scale: f32,
    /// `scale` times the sum of the codes.
    pub(crate) scaled_sum: f32,
    /// Sums of the codes of the first and of the second half.
    pub(crate) sums: [i32; 2],
}

impl CodedRows {
    /// Makes room for rows; what was there is lost.
    pub(crate) fn resize(&mut self, rows: usize, width: usize) {
        debug_assert!(width.is_multiple_of(BLOCK));
        self.width = width;
        self.words.resize(rows * width / 4, 0);
        self.blocks.resize(rows * width / BLOCK, Block::default());
    }

    /// Row by row, to be written.
    pub(crate) fn split(&mut self) -> (Chunks<'_, i32>, Chunks<'_, Block>) {
        self.pieces(self.width)
    }

    /// Pieces of `width` numbers, of which rows are whole multiples, to be written.
    pub(crate) fn pieces(&mut self, width: usize) -> (Chunks<'_, i32>, Chunks<'_, Block>) {
        debug_assert!(width.is_multiple_of(BLOCK) && self.width.is_multiple_of(width));
        (Chunks::new(&mut self.words, width / 4), Chunks::new(&mut self.blocks, width / BLOCK))
    }

    /// Some columns over all rows, cut at multiples of [`BLOCK`], to be written.
    pub(crate) fn columns<'a>(&'a mut self, cuts: &'a [usize]) -> (Columns<'a, i32>, Columns<'a, Block>) {
        let width = self.width;
        let words = Columns::packed(&mut self.words, width / 4, cuts, 4);
        (words, Columns::packed(&mut self.blocks, width / BLOCK, cuts, BLOCK))
    }

    /// One row, to be written.
    #[cfg(test)]
    pub(crate) fn row_mut(&mut self, row: usize) -> (&mut [i32], &mut [Block]) {
        let (words, blocks) = (self.width / 4, self.width / BLOCK);
        (&mut self.words[row * words..][..words], &mut self.blocks[row * blocks..][..blocks])
    }

    /// The words of row `row`.
    #[inline(always)]
    pub(crate) fn words(&self, row: usize) -> &[i32] {
        &self.words[row * (self.width / 4)..][..self.width / 4]
    }

    /// The blocks of row `row`.
    #[inline(always)]
    pub(crate) fn blocks(&self, row: usize) -> &[Block] {
        &self.blocks[row * (self.width / BLOCK)..][..self.width / BLOCK]
    }
}

/// Codes one row: in each block the largest number becomes 127, the others are rounded to nearest even.
#[inline(always)]
pub(crate) fn code_row<I: Isa>(isa: I, x: &[f32], words: &mut [i32], blocks: &mut [Block]) {
    let (x, _) = x.as_chunks::<BLOCK>();
    let (words, _) = words.as_chunks_mut::<{ BLOCK / 4 }>();
    for ((x, words), block) in x.iter().zip(words).zip(blocks) {
        let (halves, _) = x.as_chunks::<LANES>();
        let (a, b) = (isa.load(&halves[0]), isa.load(&halves[1]));
        let largest = isa.largest(isa.max(isa.abs(a), isa.abs(b)));
        let scale = largest / 127.0;
        let inverse = isa.splat(if scale > 0.0 { 1.0 / scale } else { 0.0 });
        let (a, b) = (isa.round(isa.mul(a, inverse)), isa.round(isa.mul(b, inverse)));
        let codes: &mut [i8; BLOCK] = bytemuck::cast_mut(words);
        let (codes, _) = codes.as_chunks_mut::<LANES>();
        isa.store_bytes(a, &mut codes[0]);
        isa.store_bytes(b, &mut codes[1]);
        let sums = [isa.sum_int(a), isa.sum_int(b)];
        *block = Block { scale, scaled_sum: scale * (sums[0] + sums[1]) as f32, sums };
    }
}

/// Numbers that share a scale.
pub(crate) const BLOCK: usize = 32;
