//! Causal attention over packed sequences, with rotary positions, as one differentiable candle operation.
//!
//! Sequences of different lengths lie one after another in the rows of one matrix, so no row is padding. The scores
//! of four queries at a time stay in the first-level cache, and the backward pass computes them again instead of
//! storing them.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use crate::lanes::{self, Lanes};
use crate::ops::{read, slice_of};
use crate::rotary::{HEAD_DIM, Rotary};

/// How the heads of a layer are arranged in the columns of its query-key-value matrix: queries, then keys, then
/// values, each head `HEAD_DIM` wide. Every key-value head serves the same number of query heads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heads {
    /// Query heads.
    pub(crate) query: usize,
    /// Key-value heads.
    pub(crate) key_value: usize,
}

impl Heads {
    /// Columns of the query-key-value matrix.
    pub(crate) fn packed_width(self) -> usize {
        (self.query + 2 * self.key_value) * HEAD_DIM
    }

    /// Columns of the attention's result.
    pub(crate) fn query_width(self) -> usize {
        self.query * HEAD_DIM
    }
}

/// Attention from a packed query-key-value matrix to the concatenated heads.
#[derive(Clone, Debug)]
pub(crate) struct Attention {
    /// The arrangement of the columns.
    pub(crate) heads: Heads,
    /// First row of each sequence, and the row after the last one.
    pub(crate) starts: Arc<[usize]>,
    /// Rotations for every position that occurs.
    pub(crate) rotary: Arc<Rotary>,
}

impl CustomOp1 for Attention {
    fn name(&self) -> &'static str {
        "packed-causal-attention"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let packed = slice_of(storage, layout)?;
        let rows = layout.dims()[0];
        let mut out = vec![0.0; rows * self.heads.query_width()];
        lanes::wide(
            #[inline(always)]
            || self.forward(packed, &mut out),
        );
        Ok((CpuStorage::F32(out), Shape::from((rows, self.heads.query_width()))))
    }

    fn bwd(&self, packed: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let mut out = vec![0.0; packed.elem_count()];
        read(packed, |packed| {
            read(grad, |grad| {
                lanes::wide(
                    #[inline(always)]
                    || self.backward(packed, grad, &mut out),
                );
            })
        })??;
        Tensor::from_vec(out, packed.shape(), packed.device()).map(Some)
    }
}

impl Attention {
    #[inline(always)]
    fn forward(&self, packed: &[f32], out: &mut [f32]) {
        let mut keys = KeyValues::default();
        let mut scores = Scores::default();
        for bounds in self.starts.windows(2) {
            let sequence = bounds[0]..bounds[1];
            for head in 0..self.heads.query {
                if head % self.group() == 0 {
                    keys.load(self, packed, sequence.clone(), head / self.group());
                }
                for first in (0..sequence.len()).step_by(QUERIES) {
                    let queries = self.queries(packed, &sequence, head, first);
                    scores.softmax(&queries, &keys, first);
                    let block = scores.weighted(&keys.values);
                    for (row, result) in (sequence.start + first..sequence.end).zip(block) {
                        let at = row * self.heads.query_width() + head * HEAD_DIM;
                        out[at..at + HEAD_DIM].copy_from_slice(&*result);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn backward(&self, packed: &[f32], grad: &[f32], out: &mut [f32]) {
        let mut keys = KeyValues::default();
        let mut grads = KeyValueGrads::default();
        let (mut scores, mut score_grads) = (Scores::default(), Scores::default());
        for bounds in self.starts.windows(2) {
            let sequence = bounds[0]..bounds[1];
            for head in 0..self.heads.query {
                if head % self.group() == 0 {
                    keys.load(self, packed, sequence.clone(), head / self.group());
                    grads.clear(keys.keys_by_lane.len());
                }
                for first in (0..sequence.len()).step_by(QUERIES) {
                    let queries = self.queries(packed, &sequence, head, first);
                    let result_grads = self.result_grads(grad, &sequence, head, first);
                    scores.softmax(&queries, &keys, first);
                    score_grads.products(&result_grads, &keys.values_by_lane, first);
                    score_grads.through_softmax(&scores);
                    scores.scatter(&result_grads, &mut grads.values);
                    score_grads.scatter(&queries, &mut grads.keys);
                    let query_grads = score_grads.weighted(&keys.keys);
                    self.store_queries(out, &sequence, (head, first), &query_grads);
                }
                if (head + 1) % self.group() == 0 {
                    grads.store(self, out, &sequence, head / self.group());
                }
            }
        }
    }

    /// Query heads per key-value head.
    fn group(&self) -> usize {
        self.heads.query / self.heads.key_value
    }

    /// Four rotated queries, already scaled; rows past the end of the sequence are zero.
    #[inline(always)]
    fn queries(
        &self,
        packed: &[f32],
        sequence: &Range<usize>,
        head: usize,
        first: usize,
    ) -> [Lanes; QUERIES] {
        let mut block = [Lanes::default(); QUERIES];
        for (at, query) in (first..sequence.len()).zip(&mut block) {
            let start = (sequence.start + at) * self.heads.packed_width() + head * HEAD_DIM;
            *query = scaled(self.rotary.rotate(&packed[start..start + HEAD_DIM], at, 1.0), SCALE);
        }
        block
    }

    #[inline(always)]
    fn result_grads(
        &self,
        grad: &[f32],
        sequence: &Range<usize>,
        head: usize,
        first: usize,
    ) -> [Lanes; QUERIES] {
        let mut block = [Lanes::default(); QUERIES];
        for (at, row) in (first..sequence.len()).zip(&mut block) {
            let start = (sequence.start + at) * self.heads.query_width() + head * HEAD_DIM;
            row.copy_from_slice(&grad[start..start + HEAD_DIM]);
        }
        block
    }

    #[inline(always)]
    fn store_queries(
        &self,
        out: &mut [f32],
        sequence: &Range<usize>,
        at: (usize, usize),
        grads: &[Lanes; QUERIES],
    ) {
        let (head, first) = at;
        for (at, grad) in (first..sequence.len()).zip(grads) {
            let start = (sequence.start + at) * self.heads.packed_width() + head * HEAD_DIM;
            let rotated = scaled(self.rotary.rotate(&**grad, at, -1.0), SCALE);
            out[start..start + HEAD_DIM].copy_from_slice(&*rotated);
        }
    }
}

/// The keys and values of one head of one sequence, padded with zeros to whole tiles.
#[derive(Default)]
struct KeyValues {
    /// Rotated keys by position.
    keys: Vec<Lanes>,
    /// Values by position.
    values: Vec<Lanes>,
    /// The same keys with positions in the lanes: `[tile][number][position in tile]`.
    keys_by_lane: Vec<[Lanes; HEAD_DIM]>,
    /// The same values with positions in the lanes.
    values_by_lane: Vec<[Lanes; HEAD_DIM]>,
}

impl KeyValues {
    #[inline(always)]
    fn load(&mut self, op: &Attention, packed: &[f32], sequence: Range<usize>, head: usize) {
        let padded = sequence.len().next_multiple_of(HEAD_DIM);
        self.keys.clear();
        self.values.clear();
        let key_column = (op.heads.query + head) * HEAD_DIM;
        let value_column = key_column + op.heads.key_value * HEAD_DIM;
        for (position, row) in sequence.enumerate() {
            let row = &packed[row * op.heads.packed_width()..];
            self.keys.push(op.rotary.rotate(&row[key_column..key_column + HEAD_DIM], position, 1.0));
            self.values.push(Lanes(std::array::from_fn(|d| row[value_column + d])));
        }
        self.keys.resize(padded, Lanes::default());
        self.values.resize(padded, Lanes::default());
        transpose(&self.keys, &mut self.keys_by_lane);
        transpose(&self.values, &mut self.values_by_lane);
    }
}

/// Gradients of the keys and values of one head of one sequence, positions in the lanes.
#[derive(Default)]
struct KeyValueGrads {
    keys: Vec<[Lanes; HEAD_DIM]>,
    values: Vec<[Lanes; HEAD_DIM]>,
}

impl KeyValueGrads {
    fn clear(&mut self, tiles: usize) {
        for grads in [&mut self.keys, &mut self.values] {
            grads.clear();
            grads.resize(tiles, [Lanes::default(); HEAD_DIM]);
        }
    }

    #[inline(always)]
    fn store(&self, op: &Attention, out: &mut [f32], sequence: &Range<usize>, head: usize) {
        let key_column = (op.heads.query + head) * HEAD_DIM;
        let value_column = key_column + op.heads.key_value * HEAD_DIM;
        for (position, row) in sequence.clone().enumerate() {
            let (tile, lane) = (position / HEAD_DIM, position % HEAD_DIM);
            let row = &mut out[row * op.heads.packed_width()..];
            let key: [f32; HEAD_DIM] = std::array::from_fn(|d| self.keys[tile][d][lane]);
            let key = op.rotary.rotate(&key, position, -1.0);
            row[key_column..key_column + HEAD_DIM].copy_from_slice(&*key);
            for d in 0..HEAD_DIM {
                row[value_column + d] = self.values[tile][d][lane];
            }
        }
    }
}

/// One number per (query of a block, position), positions in the lanes.
#[derive(Default)]
struct Scores {
    tiles: Vec<[Lanes; QUERIES]>,
}

impl Scores {
    /// Attention weights of a block of queries, of which the first stands at position `first`.
    #[inline(always)]
    fn softmax(&mut self, queries: &[Lanes; QUERIES], keys: &KeyValues, first: usize) {
        self.products(queries, &keys.keys_by_lane, first);
        for query in 0..QUERIES {
            self.mask_after(query, first + query);
            let mut high = Lanes([f32::NEG_INFINITY; HEAD_DIM]);
            for tile in &self.tiles {
                for lane in 0..HEAD_DIM {
                    let score = tile[query][lane];
                    high[lane] = if score > high[lane] { score } else { high[lane] };
                }
            }
            let high = lanes::max(&*high);
            let mut sums = Lanes::default();
            for tile in &mut self.tiles {
                for lane in 0..HEAD_DIM {
                    tile[query][lane] = lanes::exp(tile[query][lane] - high);
                    sums[lane] += tile[query][lane];
                }
            }
            let scale = 1.0 / lanes::sum(sums);
            self.tiles.iter_mut().for_each(|tile| tile[query] = scaled(tile[query], scale));
        }
    }

    /// The product of each row of `block` with each position up to the last query's tile.
    #[inline(always)]
    fn products(&mut self, block: &[Lanes; QUERIES], by_lane: &[[Lanes; HEAD_DIM]], first: usize) {
        let tiles = (first + QUERIES).div_ceil(HEAD_DIM);
        self.tiles.clear();
        let block = *block;
        for tile in &by_lane[..tiles] {
            let mut sums = [Lanes::default(); QUERIES];
            for (d, numbers) in tile.iter().take(unrolled_by_one()).enumerate() {
                for query in 0..QUERIES {
                    for lane in 0..HEAD_DIM {
                        sums[query][lane] = block[query][d].mul_add(numbers[lane], sums[query][lane]);
                    }
                }
            }
            self.tiles.push(sums);
        }
    }

    /// The later positions of one query's last tile get no weight.
    #[inline(always)]
    fn mask_after(&mut self, query: usize, position: usize) {
        let last = self.tiles.len() - 1;
        for lane in 0..HEAD_DIM {
            if last * HEAD_DIM + lane > position {
                self.tiles[last][query][lane] = f32::NEG_INFINITY;
            }
        }
    }

    /// Turns gradients of weights into gradients of scores: `w * (g - sum(w * g))`.
    #[inline(always)]
    fn through_softmax(&mut self, weights: &Self) {
        let mut sums = [Lanes::default(); QUERIES];
        for (grad, weight) in self.tiles.iter().zip(&weights.tiles) {
            for query in 0..QUERIES {
                for lane in 0..HEAD_DIM {
                    sums[query][lane] = weight[query][lane].mul_add(grad[query][lane], sums[query][lane]);
                }
            }
        }
        let sums = sums.map(lanes::sum);
        for (grad, weight) in self.tiles.iter_mut().zip(&weights.tiles) {
            for query in 0..QUERIES {
                for lane in 0..HEAD_DIM {
                    grad[query][lane] = weight[query][lane] * (grad[query][lane] - sums[query]);
                }
            }
        }
    }

    /// For each query, the sum of `rows` weighted by its scores.
    #[inline(always)]
    fn weighted(&self, rows: &[Lanes]) -> [Lanes; QUERIES] {
        let mut sums = [Lanes::default(); QUERIES];
        for (tile, rows) in self.tiles.iter().zip(rows.as_chunks::<HEAD_DIM>().0) {
            for (lane, row) in rows.iter().take(unrolled_by_one()).enumerate() {
                for query in 0..QUERIES {
                    for d in 0..HEAD_DIM {
                        sums[query][d] = tile[query][lane].mul_add(row[d], sums[query][d]);
                    }
                }
            }
        }
        sums
    }

    /// Adds to each position's numbers the rows of `block` weighted by its scores.
    #[inline(always)]
    fn scatter(&self, block: &[Lanes; QUERIES], by_lane: &mut [[Lanes; HEAD_DIM]]) {
        for (scores, tile) in self.tiles.iter().zip(by_lane) {
            // Copies, so that the compiler knows that nothing else changes with them.
            let (block, scores) = (*block, *scores);
            for (d, numbers) in tile.iter_mut().take(unrolled_by_one()).enumerate() {
                let mut sums = *numbers;
                for query in 0..QUERIES {
                    for lane in 0..HEAD_DIM {
                        sums[lane] = block[query][d].mul_add(scores[query][lane], sums[lane]);
                    }
                }
                *numbers = sums;
            }
        }
    }
}

#[inline(always)]
fn scaled(lanes: Lanes, scale: f32) -> Lanes {
    Lanes(lanes.0.map(|x| x * scale))
}

/// `HEAD_DIM`, as a number the compiler cannot see.
///
/// Where every trip count of nested loops is known, it unrolls all of them and then picks the wrong one to vectorise,
/// at a tenth of the speed.
#[inline(always)]
fn unrolled_by_one() -> usize {
    std::hint::black_box(HEAD_DIM)
}

#[inline(always)]
fn transpose(rows: &[Lanes], tiles: &mut Vec<[Lanes; HEAD_DIM]>) {
    tiles.clear();
    for rows in rows.as_chunks::<HEAD_DIM>().0 {
        tiles.push(std::array::from_fn(|d| Lanes(std::array::from_fn(|lane| rows[lane][d]))));
    }
}

/// Queries handled together, so that each key and value is loaded once for all of them.
const QUERIES: usize = 4;

/// One over the square root of the head's width.
const SCALE: f32 = 0.25;
