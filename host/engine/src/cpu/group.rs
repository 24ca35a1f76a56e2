//! Matrices that share their inputs, multiplied as one phase.

use std::cell::RefCell;

use super::math::{gelu_tanh, silu};
use super::matrix::Matrix;
use super::memory::Region;
use super::product::{Inputs, Outputs, TILES, product};
use super::rows::{Block, CodedRows, code_row};
use super::rowwise::{Hands, Rows};
use super::simd::{Isa, LANES, Work, dispatch, load_up_to, store_up_to};
use super::team::{ColumnBlock, Columns};
use crate::config::Activation;

/// Matrices over the same inputs; their outputs lie side by side.
pub(super) struct Group {
    matrices: Vec<Matrix>,
    units: Vec<Unit>,
    /// Columns at which units begin and end.
    cuts: Vec<usize>,
    /// Added to the outputs.
    bias: Option<Vec<f32>>,
}

/// What one thread does at a time.
#[derive(Clone, Copy)]
struct Unit {
    matrix: usize,
    first: usize,
    tiles: usize,
}

/// What happens to the outputs.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Ending {
    /// They replace what was there.
    Store,
    /// They are added to it.
    Add,
}

/// What a product runs on.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    /// The threads.
    pub(super) hands: Hands<'a>,
    /// The weights.
    pub(super) region: &'a Region,
}

impl Group {
    /// Groups matrices; `bias` is as long as all their outputs.
    pub(super) fn new(matrices: Vec<Matrix>, bias: Option<Vec<f32>>) -> Self {
        let mut units = Vec::new();
        let mut cuts = vec![0];
        let mut column = 0;
        for (index, matrix) in matrices.iter().enumerate() {
            let step = if matrix.outputs >= WIDE { 2 * TILES } else { TILES };
            for first in (0..matrix.tiles()).step_by(step) {
                let tiles = step.min(matrix.tiles() - first);
                units.push(Unit { matrix: index, first, tiles });
                cuts.push(column + matrix.outputs.min((first + tiles) * LANES));
            }
            column += matrix.outputs;
        }
        Self { matrices, units, cuts, bias }
    }

    /// Whether some matrix takes coded rows.
    pub(super) fn takes_codes(&self) -> bool {
        self.matrices.iter().any(Matrix::takes_codes)
    }

    /// The only matrix of a group of one, as an embedding is read.
    pub(super) fn first(&self) -> &Matrix {
        &self.matrices[0]
    }

    /// The products, into `out`, which has as many rows.
    pub(super) fn forward(&self, on: Machine<'_>, x: Inputs<'_>, ending: Ending, out: &mut Rows) {
        let columns = Columns::new(&mut out.all, out.stride, &self.cuts);
        on.hands.team.each(self.grain(x.rows), columns, |index, block| {
            let Unit { matrix, first, tiles } = self.units[index];
            let bias = self.bias.as_ref().map(|bias| &bias[self.cuts[index]..self.cuts[index + 1]]);
            let matrix = (on.region, &self.matrices[matrix]);
            with_space(x.rows * tiles, |lanes| {
                dispatch(on.hands.level, Tiles { matrix, first, x, out: Outputs { lanes, tiles } });
                dispatch(on.hands.level, Finish { lanes, tiles, block, ending, bias });
            });
        });
    }

    /// `activation(gate) * up` of a group of these two, into `out`, and coded where there are `codes` for it.
    pub(super) fn gated(
        &self,
        on: Machine<'_>,
        x: Inputs<'_>,
        activation: Activation,
        (out, codes): (&mut Rows, Option<&mut CodedRows>),
    ) {
        let cuts = &self.cuts[..=self.units.len() / 2];
        let columns = Columns::new(&mut out.all, out.stride, cuts);
        let grain = self.grain(x.rows);
        let work = |index: usize, block, codes| {
            let Unit { first, tiles, .. } = self.units[index];
            with_space(2 * x.rows * tiles, |space| {
                let (gate, up) = space.split_at_mut(x.rows * tiles);
                for (matrix, lanes) in self.matrices.iter().zip([&mut *gate, &mut *up]) {
                    let out = Outputs { lanes, tiles };
                    dispatch(on.hands.level, Tiles { matrix: (on.region, matrix), first, x, out });
                }
                dispatch(on.hands.level, FinishGated { gate, up, tiles, block, codes, activation });
            });
        };
        match codes {
            Some(codes) => {
                codes.resize(x.rows, out.width);
                let (words, blocks) = codes.columns(cuts);
                let parts = (columns, words, blocks);
                on.hands.team.each(grain, parts, |index, (block, words, blocks)| {
                    work(index, block, Some((words, blocks)));
                });
            }
            None => on.hands.team.each(grain, columns, |index, block| work(index, block, None)),
        }
    }

    /// How many units are worth handing to another thread.
    fn grain(&self, rows: usize) -> usize {
        let unit = self.matrices[0].inputs * 2 * LANES * rows.max(1);
        GRAIN_PRODUCTS.div_ceil(unit.max(1))
    }
}

/// The outputs of some tiles before what happens to them.
struct Tiles<'a> {
    matrix: (&'a Region, &'a Matrix),
    first: usize,
    x: Inputs<'a>,
    out: Outputs<'a>,
}

impl Work for Tiles<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(mut self, isa: I) {
        product(isa, self.matrix, self.first, self.x, &mut self.out);
    }
}

/// Stores or adds outputs.
struct Finish<'a> {
    lanes: &'a [[f32; LANES]],
    tiles: usize,
    block: ColumnBlock<'a, f32>,
    ending: Ending,
    bias: Option<&'a [f32]>,
}

impl Work for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(mut self, isa: I) {
        for (row, tiles) in self.lanes.chunks_exact(self.tiles).enumerate() {
            let into = self.block.row(row);
            for (tile, (values, into)) in tiles.iter().zip(into.chunks_mut(LANES)).enumerate() {
                let mut values = isa.load(values);
                if let Some(bias) = self.bias {
                    values = isa.add(values, load_up_to(isa, &bias[tile * LANES..], 0.0));
                }
                if self.ending == Ending::Add {
                    values = isa.add(values, load_up_to(isa, into, 0.0));
                }
                store_up_to(isa, values, into);
            }
        }
    }
}

/// Stores `activation(gate) * up`, and codes it while it is in the cache.
struct FinishGated<'a> {
    gate: &'a [[f32; LANES]],
    up: &'a [[f32; LANES]],
    tiles: usize,
    block: ColumnBlock<'a, f32>,
    codes: Option<(ColumnBlock<'a, i32>, ColumnBlock<'a, Block>)>,
    activation: Activation,
}

impl Work for FinishGated<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(mut self, isa: I) {
        let rows = self.gate.chunks_exact(self.tiles).zip(self.up.chunks_exact(self.tiles));
        for (row, (gate, up)) in rows.enumerate() {
            let into = self.block.row(row);
            for ((gate, up), into) in gate.iter().zip(up).zip(into.chunks_mut(LANES)) {
                let gate = isa.load(gate);
                let open = match self.activation {
                    Activation::Silu => silu(isa, gate),
                    Activation::GeluTanh => gelu_tanh(isa, gate),
                };
                store_up_to(isa, isa.mul(open, isa.load(up)), into);
            }
            if let Some((words, blocks)) = &mut self.codes {
                code_row(isa, into, words.row(row), blocks.row(row));
            }
        }
    }
}

thread_local! {
    /// Room for the outputs of one unit.
    static SPACE: RefCell<Vec<[f32; LANES]>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with room for `count` vectors, whatever they hold.
fn with_space(count: usize, work: impl FnOnce(&mut [[f32; LANES]])) {
    SPACE.with_borrow_mut(|space| {
        if space.len() < count {
            space.resize(count, [0.0; LANES]);
        }
        work(&mut space[..count]);
    });
}

/// Outputs from which on a unit has four tiles: enough units are left to share.
const WIDE: usize = 8192;

/// Products that take about as long as waking another thread.
const GRAIN_PRODUCTS: usize = 1 << 16;
