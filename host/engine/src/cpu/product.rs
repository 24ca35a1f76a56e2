//! Products `y = x W^T` of packed matrices, a few tiles for all rows at a time.
//!
//! Every output is one sum over the inputs, in their order. For floats each input adds one fused product. For codes
//! each group of inputs gives an exact integer, which is then scaled and added, fused; its minimum times the sum of
//! the inputs comes after it. How many rows or tiles share the work does not enter.

use std::cell::RefCell;

use bytemuck::{cast_slice, cast_slice_mut};

use super::format::{
    Brain, Bytes, BytesFull, BytesHalves, BytesProduct, FloatFormat, GridFormat, Half, MadePlain, Nibbles,
    NibblesHalves, NibblesHalvesMin, NibblesMin, NibblesProduct, Scale, Single, make_plain,
};
use super::matrix::{Kept, Matrix};
use super::memory::Region;
use super::rows::{BLOCK, Block, CodedRows};
use super::simd::{Isa, LANES, prefetch_early};
use crate::encoding::{Grid, WeightType};

/// The rows of a product, in the forms that its matrices need.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// How many rows.
    pub(super) rows: usize,
    /// Rows of floats, `stride` apart.
    pub(super) floats: &'a [f32],
    /// From one row of floats to the next.
    pub(super) stride: usize,
    /// The same rows as codes; empty if no matrix takes them.
    pub(super) codes: &'a CodedRows,
}

/// Outputs of a few tiles: for each row the tiles' lanes side by side.
pub(super) struct Outputs<'a> {
    /// (rows, tiles).
    pub(super) lanes: &'a mut [[f32; LANES]],
    /// Tiles in a row.
    pub(super) tiles: usize,
}

impl Outputs<'_> {
    /// Keeps the sums of a register block from a row and tile on; returns its rows.
    #[inline(always)]
    fn keep<I: Isa, const R: usize>(
        &mut self,
        isa: I,
        (row, tile): (usize, usize),
        sums: [[I::Floats; TILES]; R],
    ) -> usize {
        for (r, sums) in sums.into_iter().enumerate() {
            for (t, sum) in sums.into_iter().enumerate() {
                isa.store(sum, &mut self.lanes[(row + r) * self.tiles + tile + t]);
            }
        }
        R
    }
}

/// The outputs of tiles from tile `first` on, an even number, for all rows.
#[inline(always)]
pub(super) fn product<I: Isa>(
    isa: I,
    (region, matrix): (&Region, &Matrix),
    first: usize,
    x: Inputs<'_>,
    out: &mut Outputs<'_>,
) {
    let part = (region, matrix, first);
    match matrix.kept {
        Kept::Floats(WeightType::F16) => floats::<I, Half>(isa, part, x, out),
        Kept::Floats(WeightType::Bf16) => floats::<I, Brain>(isa, part, x, out),
        Kept::Floats(_) => floats::<I, Single>(isa, part, x, out),
        Kept::Grid(Grid { bits, group, has_min, .. }, scale) => match (bits, group, has_min, scale) {
            (4, BLOCK, false, Scale::Half) => grid::<I, Nibbles>(isa, part, x, out),
            (4, BLOCK, true, Scale::Half) => grid::<I, NibblesMin>(isa, part, x, out),
            (8, BLOCK, false, Scale::Half) => grid::<I, Bytes>(isa, part, x, out),
            (8, BLOCK, true, Scale::Full) => grid::<I, BytesFull>(isa, part, x, out),
            (4, BLOCK, true, Scale::Product) => grid::<I, NibblesProduct>(isa, part, x, out),
            (8, BLOCK, true, Scale::Product) => grid::<I, BytesProduct>(isa, part, x, out),
            (4, _, false, Scale::Product) => grid::<I, NibblesHalves>(isa, part, x, out),
            (4, _, true, Scale::Product) => grid::<I, NibblesHalvesMin>(isa, part, x, out),
            (8, _, false, Scale::Product) => grid::<I, BytesHalves>(isa, part, x, out),
            (bits, group, has_min, scale) => {
                unreachable!("no kind has {bits} bits, groups of {group}, min {has_min}, scale {scale:?}")
            }
        },
    }
}

type Part<'a> = (&'a Region, &'a Matrix, usize);

/// Goes through the tiles and rows in register blocks of two tiles and up to eight rows. The sixteen sums of one block of
/// inputs fill the registers and hide how long a dot product takes; the sums over blocks wait in the nearest cache, which
/// costs less than taking codes apart for fewer rows.
macro_rules! in_blocks {
    ($block:ident::<$I:ident, $F:ty>, $isa:ident, $first:ident, $w:expr, $x:ident, $out:ident) => {
        for tile in (0..$out.tiles).step_by(TILES) {
            rows_in_blocks!($block::<$I, $F>, $isa, ($first + tile, tile), $w, $x, $out);
        }
    };
}

/// Goes through the rows for two tiles.
macro_rules! rows_in_blocks {
    ($block:ident::<$I:ident, $F:ty>, $isa:ident, $at:expr, $w:expr, $x:ident, $out:ident) => {
        let mut row = 0;
        while row < $x.rows {
            row += match $x.rows - row {
                8.. => $block::<$I, $F, 8>($isa, $w, $at, ($x, row), $out),
                6.. => $block::<$I, $F, 6>($isa, $w, $at, ($x, row), $out),
                4.. => $block::<$I, $F, 4>($isa, $w, $at, ($x, row), $out),
                2.. => $block::<$I, $F, 2>($isa, $w, $at, ($x, row), $out),
                _ => $block::<$I, $F, 1>($isa, $w, $at, ($x, row), $out),
            };
        }
    };
}

#[inline(always)]
fn floats<I: Isa, F: FloatFormat>(
    isa: I,
    (region, matrix, first): Part<'_>,
    x: Inputs<'_>,
    out: &mut Outputs<'_>,
) {
    let w: (&[F::Raw], usize) = (cast_slice(region.part(&matrix.weights)), matrix.inputs);
    in_blocks!(float_block::<I, F>, isa, first, w, x, out);
}

/// R rows by [`TILES`] tiles in registers; returns R.
#[inline(always)]
fn float_block<I: Isa, F: FloatFormat, const R: usize>(
    isa: I,
    (weights, inputs): (&[F::Raw], usize),
    (tile, column): (usize, usize),
    (x, row): (Inputs<'_>, usize),
    out: &mut Outputs<'_>,
) -> usize {
    let mut rows: [&[f32]; R] = [&[]; R];
    for (r, floats) in rows.iter_mut().enumerate() {
        *floats = &x.floats[(row + r) * x.stride..][..inputs];
    }
    let mut tiles: [&[F::Raw]; TILES] = [&[]; TILES];
    for (t, raw) in tiles.iter_mut().enumerate() {
        *raw = &weights[(tile + t) * inputs..][..inputs];
    }
    let mut sums = [[isa.splat(0.0); TILES]; R];
    for k in 0..inputs {
        let mut w = [isa.splat(0.0); TILES];
        for t in 0..TILES {
            w[t] = F::load(isa, &tiles[t][k]);
        }
        for r in 0..R {
            let x = isa.splat(rows[r][k]);
            for t in 0..TILES {
                sums[r][t] = isa.fma(w[t], x, sums[r][t]);
            }
        }
    }
    out.keep(isa, (row, column), sums)
}

#[inline(always)]
fn grid<I: Isa, F: GridFormat>(
    isa: I,
    (region, matrix, first): Part<'_>,
    x: Inputs<'_>,
    out: &mut Outputs<'_>,
) {
    let Kept::Grid(Grid { zero, .. }, _) = matrix.kept else { return };
    let w = Packed::<F> {
        codes: cast_slice(region.part(&matrix.weights)),
        scales: cast_slice(region.part(&matrix.scales)),
        blocks: matrix.inputs / BLOCK,
        zero: i32::from(zero),
    };
    if F::BLOCKS > 1 && x.rows > ROWS {
        // Taken out, as a closure would not be compiled for the instruction set.
        let mut space = SCALES.take();
        with_plain_scales(isa, (&w, first, &mut space), x, out);
        SCALES.set(space);
        return;
    }
    in_blocks!(grid_block::<I, F>, isa, first, &w, x, out);
}

thread_local! {
    /// Room for the plain scales of a register block's tiles.
    static SCALES: RefCell<Vec<[f32; LANES]>> = const { RefCell::new(Vec::new()) };
}

/// As [`grid`] for so many rows that scales are better made plain once than in every register block.
#[inline(always)]
fn with_plain_scales<I: Isa, F: GridFormat>(
    isa: I,
    (w, first, space): (&Packed<'_, F>, usize, &mut Vec<[f32; LANES]>),
    x: Inputs<'_>,
    out: &mut Outputs<'_>,
) {
    let blocks = w.blocks;
    let spans = blocks / F::BLOCKS;
    space.resize(TILES * blocks * size_of::<F::Plain>() / size_of::<[f32; LANES]>(), [0.0; LANES]);
    for tile in (0..out.tiles).step_by(TILES) {
        let plain: &mut [F::Plain] = cast_slice_mut(space);
        for (index, plain) in plain.iter_mut().enumerate() {
            let (span, block) = (index / F::BLOCKS, index % F::BLOCKS);
            let scales = &w.scales[(first + tile) * spans + span];
            if block == 0 {
                prefetch_ahead(isa, scales, TILES * spans);
            }
            make_plain::<I, F>(isa, scales, block, plain);
        }
        let codes = &w.codes[(first + tile) * blocks..];
        let w = Packed::<MadePlain<F>> { codes, scales: plain, blocks, zero: w.zero };
        rows_in_blocks!(grid_block::<I, MadePlain<F>>, isa, (0, tile), &w, x, out);
    }
}

/// A quantised matrix as its kernel sees it.
struct Packed<'a, F: GridFormat> {
    codes: &'a [F::Block],
    scales: &'a [F::Scales],
    /// Blocks in a row.
    blocks: usize,
    zero: i32,
}

/// R rows by [`TILES`] tiles in registers; returns R.
#[inline(always)]
fn grid_block<I: Isa, F: GridFormat, const R: usize>(
    isa: I,
    w: &Packed<'_, F>,
    (tile, column): (usize, usize),
    (x, row): (Inputs<'_>, usize),
    out: &mut Outputs<'_>,
) -> usize {
    // Loops throughout: closures, such as those of `array::from_fn`, are not compiled for the instruction set where they
    // are not inlined, and then the sums go through memory.
    let blocks = w.blocks;
    let spans = blocks / F::BLOCKS;
    // What comes next is asked for by all register blocks of the tiles together, each some of the lines.
    let (turns, turn) = (x.rows.div_ceil(ROWS), row / ROWS);
    let mut until_mine = turn;
    let zero = w.zero - if F::NIBBLES { 0 } else { I::BYTES_ZERO };
    let mut words: [&[[i32; BLOCK / 4]]; R] = [&[]; R];
    let mut about: [&[Block]; R] = [&[]; R];
    for r in 0..R {
        words[r] = &x.codes.words(row + r).as_chunks::<{ BLOCK / 4 }>().0[..blocks];
        about[r] = &x.codes.blocks(row + r)[..blocks];
    }
    let mut codes: [&[F::Block]; TILES] = [&[]; TILES];
    let mut scales: [&[F::Scales]; TILES] = [&[]; TILES];
    for t in 0..TILES {
        codes[t] = &w.codes[(tile + t) * blocks..][..blocks];
        scales[t] = &w.scales[(tile + t) * spans..][..spans];
    }
    let mut sums = [[isa.splat(0.0); TILES]; R];
    for b in 0..blocks {
        let (span, of_span) = (b / F::BLOCKS, b % F::BLOCKS);
        if until_mine == 0 {
            for t in 0..TILES {
                prefetch_ahead(isa, &codes[t][b], ahead(turns, (b, blocks), AHEAD));
                if F::IS_STREAMED && of_span == 0 {
                    prefetch_ahead(isa, &scales[t][span], ahead(turns, (span, spans), AHEAD / F::BLOCKS));
                }
            }
            until_mine = turns;
        }
        until_mine -= 1;
        for group in 0..F::GROUPS {
            let mut whole = [[isa.splat_int(0); TILES]; R];
            if zero != 0 {
                for r in 0..R {
                    whole[r] = [isa.splat_int(-zero * sum_of::<F>(&about[r][b], group)); TILES];
                }
            }
            let steps = if F::NIBBLES { 4 } else { 8 } / F::GROUPS;
            for step in group * steps..(group + 1) * steps {
                for t in 0..TILES {
                    let loaded = isa.codes(F::bytes(&codes[t][b], step));
                    for r in 0..R {
                        whole[r][t] = if F::NIBBLES {
                            let low = isa.dot_nibbles(whole[r][t], isa.low(loaded), words[r][b][2 * step]);
                            isa.dot_nibbles(low, isa.high(loaded), words[r][b][2 * step + 1])
                        } else {
                            isa.dot_bytes(whole[r][t], loaded, words[r][b][step])
                        };
                    }
                }
            }
            let in_span = of_span * F::GROUPS + group;
            for t in 0..TILES {
                let step = F::scale(isa, &scales[t][span], in_span, 0);
                for r in 0..R {
                    let factor = isa.mul(step, isa.splat(about[r][b].scale));
                    sums[r][t] = isa.fma(isa.to_floats(whole[r][t]), factor, sums[r][t]);
                }
                if F::MIN {
                    let min = F::scale(isa, &scales[t][span], in_span, 1);
                    for r in 0..R {
                        let scaled = scaled_sum_of::<F>(&about[r][b], group);
                        sums[r][t] = isa.fma(min, isa.splat(scaled), sums[r][t]);
                    }
                }
            }
        }
    }
    out.keep(isa, (row, column), sums)
}

/// The sum of the codes that share a group of weights.
#[inline(always)]
fn sum_of<F: GridFormat>(about: &Block, group: usize) -> i32 {
    if F::GROUPS == 2 { about.sums[group] } else { about.sums[0] + about.sums[1] }
}

/// As [`sum_of`] of what the codes stand for.
#[inline(always)]
fn scaled_sum_of<F: GridFormat>(about: &Block, group: usize) -> f32 {
    if F::GROUPS == 2 { about.scale * about.sums[group] as f32 } else { about.scaled_sum }
}

/// How many items further what is asked for lies. With one register block over the rows, it is soon: `near` items on,
/// in these tiles or the next ones. With several, the next tiles are a good while away.
#[inline(always)]
fn ahead(turns: usize, (at, of): (usize, usize), near: usize) -> usize {
    match turns {
        1 if at + near < of => near,
        1 => near + (TILES - 1) * of,
        _ => TILES * of,
    }
}

/// Brings what lies `ahead` items further closer. Into the second cache: the first takes so few lines at once that a
/// core would read main memory at little more than half of its speed.
#[inline(always)]
fn prefetch_ahead<I: Isa, T>(isa: I, item: &T, ahead: usize) {
    prefetch_early(isa, item, ahead * size_of::<T>()..(ahead + 1) * size_of::<T>());
}

/// Tiles in a register block, and what matrices are padded to.
pub(super) const TILES: usize = 2;

/// Blocks between what is used and what is asked for: longer than main memory takes, and short of what the second cache
/// would lose again.
const AHEAD: usize = 32;

/// Rows in most register blocks.
const ROWS: usize = 8;

#[cfg(test)]
mod tests;
