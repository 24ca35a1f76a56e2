//! A weight matrix in the layout that the products read.
//!
//! W of shape (outputs, inputs) is cut into tiles of [`LANES`] outputs, one lane for each. A tile lists its inputs in
//! order and for each input, or each four inputs of a quantised matrix, the lanes side by side: one load brings the
//! next weights of sixteen outputs, and no sum is ever split. Quantised weights keep the codes and scales that the
//! checkpoint has; nothing is rounded again.

use std::ops::Range;

use super::format::{Codes, SPAN, Scale};
use super::memory::Region;
use super::product::TILES;
use super::simd::LANES;
use crate::encoding::{self, Grid, WeightType};

/// A packed matrix; its bytes lie in the model's [`Region`].
pub(super) struct Matrix {
    /// Rows of W.
    pub(super) outputs: usize,
    /// Columns of W.
    pub(super) inputs: usize,
    /// How its weights are kept.
    pub(super) kept: Kept,
    /// Where floats or codes are.
    pub(super) weights: Range<usize>,
    /// Where scales and minima are; empty for floats.
    pub(super) scales: Range<usize>,
}

/// How the weights of a matrix are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kept {
    /// As floats, in the checkpoint's own type.
    Floats(WeightType),
    /// As codes on a grid.
    Grid(Grid, Scale),
}

impl Kept {
    /// What is kept of a matrix that the checkpoint stores as `kind`.
    pub(super) fn of(kind: WeightType) -> Self {
        match kind.grid() {
            None => Self::Floats(kind),
            Some(grid) if kind.block() == SPAN => Self::Grid(grid, Scale::Product),
            // Too rare for a kernel of its own.
            Some(grid) if kind == WeightType::Q5_1 => Self::Grid(grid, Scale::Full),
            Some(grid) => Self::Grid(grid, Scale::Half),
        }
    }

    /// Bytes of the weights or codes, and of the scales, of one tile.
    fn tile_bytes(self, inputs: usize) -> (usize, usize) {
        match self {
            Self::Floats(kind) => (inputs * LANES * kind.block_bytes(), 0),
            Self::Grid(grid, scale) => {
                (inputs * LANES * usize::from(grid.bits) / 8, scale.tile_bytes(grid, inputs))
            }
        }
    }
}

impl Matrix {
    /// Bytes in the region of a matrix that the checkpoint stores as `kind`.
    pub(super) fn bytes(kind: WeightType, outputs: usize, inputs: usize) -> usize {
        let (weights, scales) = Kept::of(kind).tile_bytes(inputs);
        let tiles = tiles(outputs);
        Region::padded(tiles * weights) + Region::padded(tiles * scales)
    }

    /// Packs the rows of a matrix as the checkpoint has them, one after the other in `rows`. `None` if a weight or
    /// scale is not a finite number.
    pub(super) fn pack(
        region: &mut Region,
        kind: WeightType,
        (outputs, inputs): (usize, usize),
        rows: &[u8],
    ) -> Option<Self> {
        let kept = Kept::of(kind);
        let (tile_weights, tile_scales) = kept.tile_bytes(inputs);
        let tiles = tiles(outputs);
        let row_bytes = rows.len() / outputs.max(1);
        let (weights, into) = region.take(tiles * tile_weights);
        let scales = match kept {
            Kept::Floats(_) => {
                let element = kind.block_bytes();
                for (output, row) in rows.chunks_exact(row_bytes).enumerate() {
                    if !all_finite(kind, row) {
                        return None;
                    }
                    let tile = &mut into[output / LANES * tile_weights..];
                    let lane = output % LANES * element;
                    for (cell, weight) in tile.chunks_mut(LANES * element).zip(row.chunks_exact(element)) {
                        cell[lane..lane + element].copy_from_slice(weight);
                    }
                }
                0..0
            }
            Kept::Grid(grid, scale) => {
                let mut packer = Packer::new(kind, grid, scale, inputs);
                let mut coded = vec![0; tiles * tile_scales];
                for (output, row) in rows.chunks_exact(row_bytes).enumerate() {
                    let tile = output / LANES;
                    let codes = &mut into[tile * tile_weights..][..tile_weights];
                    let scales = &mut coded[tile * tile_scales..][..tile_scales];
                    if !packer.row(row, output % LANES, codes, scales) {
                        return None;
                    }
                }
                let (range, into) = region.take(tiles * tile_scales);
                into.copy_from_slice(&coded);
                range
            }
        };
        Some(Self { outputs, inputs, kept, weights, scales })
    }

    /// Whether its products take coded rows.
    pub(super) fn takes_codes(&self) -> bool {
        matches!(self.kept, Kept::Grid(..))
    }

    /// How many tiles there are.
    pub(super) fn tiles(&self) -> usize {
        tiles(self.outputs)
    }

    /// Row `output` of W, as an embedding is read.
    pub(super) fn row(&self, region: &Region, output: usize, into: &mut [f32]) {
        let (tile, lane) = (output / LANES, output % LANES);
        let (tile_weights, tile_scales) = self.kept.tile_bytes(self.inputs);
        let weights = &region.part(&self.weights)[tile * tile_weights..][..tile_weights];
        match self.kept {
            Kept::Floats(kind) => {
                let element = kind.block_bytes();
                let lane = lane * element;
                for (cell, into) in weights.chunks_exact(LANES * element).zip(into) {
                    encoding::floats(kind, &cell[lane..lane + element], std::slice::from_mut(into));
                }
            }
            Kept::Grid(grid, scale) => {
                let scales = &region.part(&self.scales)[tile * tile_scales..][..tile_scales];
                for (group, into) in into.chunks_mut(grid.group).enumerate() {
                    let number = |which: usize| scale.read(grid, scales, (group, which, lane));
                    let (step, min) = (number(0), if grid.has_min { number(1) } else { 0.0 });
                    for (i, into) in into.iter_mut().enumerate() {
                        let code = Codes::of(grid).read(weights, lane, group * grid.group + i);
                        // Not fused: the format defines it so.
                        *into = step * (f32::from(code) - f32::from(grid.zero)) + min;
                    }
                }
            }
        }
    }
}

/// Tiles of a matrix, with what fills the last register block.
fn tiles(outputs: usize) -> usize {
    outputs.div_ceil(LANES * TILES) * TILES
}

fn all_finite(kind: WeightType, row: &[u8]) -> bool {
    let mut values = vec![0.0; row.len() / kind.block_bytes()];
    encoding::floats(kind, row, &mut values);
    values.iter().all(|value| value.is_finite())
}

/// Packs rows of one quantised matrix.
struct Packer {
    kind: WeightType,
    grid: Grid,
    scale: Scale,
    codes: Vec<u8>,
    scales: Vec<f32>,
    mins: Vec<f32>,
}

impl Packer {
    fn new(kind: WeightType, grid: Grid, scale: Scale, inputs: usize) -> Self {
        let groups = inputs / grid.group;
        Self { kind, grid, scale, codes: vec![0; inputs], scales: vec![0.0; groups], mins: vec![0.0; groups] }
    }

    /// Packs one row into lane `lane` of a tile. False if a scale is not finite.
    fn row(&mut self, row: &[u8], lane: usize, codes: &mut [u8], scales: &mut [u8]) -> bool {
        encoding::decode_row(self.kind, row, &mut self.codes, &mut self.scales, &mut self.mins);
        if !self.scales.iter().chain(&self.mins).all(|number| number.is_finite()) {
            return false;
        }
        let layout = Codes::of(self.grid);
        for (input, &code) in self.codes.iter().enumerate() {
            layout.write(codes, lane, input, code);
        }
        for (group, (&step, &min)) in self.scales.iter().zip(&self.mins).enumerate() {
            let of_block = &row[group * self.grid.group / self.kind.block() * self.kind.block_bytes()..];
            let (factor, min_factor) = encoding::factors(self.kind, of_block);
            self.scale.write(self.grid, scales, (group, 0, lane), (step, factor));
            if self.grid.has_min {
                self.scale.write(self.grid, scales, (group, 1, lane), (min, min_factor));
            }
        }
        true
    }
}
