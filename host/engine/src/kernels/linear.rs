//! Matrix products `y = x W^T` with W repacked at load.
//!
//! W of shape (outputs, inputs) becomes tiles of [`LANES`] outputs: `tile[k][lane] = W[tile * LANES + lane][k]`. One
//! step of the inner loop then multiplies one input by [`LANES`] weights that lie side by side, and no sum is ever
//! split.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use super::elements;

/// A weight matrix in the kernel's layout.
pub(crate) struct Linear {
    /// Shape (tiles, inputs, LANES); lanes past the last output are zero.
    packed: Tensor,
    outputs: usize,
    inputs: usize,
}

impl Linear {
    /// Repacks a row-major (outputs, inputs) matrix.
    pub(crate) fn pack(weight: &[f32], outputs: usize, inputs: usize) -> Result<Self> {
        if weight.len() != outputs * inputs {
            bail!("{} weights for a matrix of {outputs} x {inputs}", weight.len());
        }
        let tiles = outputs.div_ceil(LANES);
        let mut packed = vec![0.0; tiles * inputs * LANES];
        for (output, row) in weight.chunks_exact(inputs).enumerate() {
            let tile = &mut packed[output / LANES * inputs * LANES..];
            for (lane, &w) in tile[output % LANES..].iter_mut().step_by(LANES).zip(row) {
                *lane = w;
            }
        }
        let packed = Tensor::from_vec(packed, (tiles, inputs, LANES), &candle_core::Device::Cpu)?;
        Ok(Self { packed, outputs, inputs })
    }

    /// Bytes that a packed matrix takes.
    pub(crate) fn bytes(outputs: usize, inputs: usize) -> u64 {
        (outputs.div_ceil(LANES) * LANES * inputs * size_of::<f32>()) as u64
    }

    /// `x W^T` for x of shape (rows, inputs): shape (rows, outputs).
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.apply_op2_no_bwd(&self.packed, &Product { outputs: self.outputs })
    }

    /// Rows of W, as an embedding table is read: shape (ids, inputs).
    pub(crate) fn rows(&self, ids: &Tensor) -> Result<Tensor> {
        ids.apply_op2_no_bwd(&self.packed, &Gather { outputs: self.outputs, inputs: self.inputs })
    }
}

struct Product {
    outputs: usize,
}

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "batch-invariant product"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        w: &CpuStorage,
        w_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = x_layout.shape().dims2()?;
        let (_, weights, _) = w_layout.shape().dims3()?;
        if inputs != weights {
            bail!("a product of {inputs} inputs with a matrix of {weights}");
        }
        let mut y = vec![0.0; rows * self.outputs];
        product(elements(x, x_layout)?, elements(w, w_layout)?, inputs, self.outputs, &mut y);
        Ok((CpuStorage::F32(y), Shape::from((rows, self.outputs))))
    }
}

/// Fills y (rows, outputs) panel by panel. A panel's result is first laid out tile by tile, so that threads that
/// share the tiles write to separate memory.
fn product(x: &[f32], w: &[f32], inputs: usize, outputs: usize, y: &mut [f32]) {
    if inputs == 0 || outputs == 0 {
        return;
    }
    let mut by_tile = Vec::new();
    for (x, y) in x.chunks(PANEL_ROWS * inputs).zip(y.chunks_mut(PANEL_ROWS * outputs)) {
        let rows = x.len() / inputs;
        let tiles = w.len() / (inputs * LANES);
        let blocks = interleave(x, inputs);
        by_tile.resize(tiles * rows * LANES, 0.0);
        let tile = |(w, out): (&[f32], &mut [f32])| tile_product(&blocks, inputs, w, out);
        if rows * w.len() >= PARALLEL_PRODUCTS {
            w.par_chunks(inputs * LANES).zip(by_tile.par_chunks_mut(rows * LANES)).for_each(tile);
        } else {
            w.chunks(inputs * LANES).zip(by_tile.chunks_mut(rows * LANES)).for_each(tile);
        }
        for (tile, out) in by_tile.chunks_exact(rows * LANES).enumerate() {
            let width = LANES.min(outputs - tile * LANES);
            for (row, lanes) in out.chunks_exact(LANES).enumerate() {
                y[row * outputs + tile * LANES..][..width].copy_from_slice(&lanes[..width]);
            }
        }
    }
}

/// Rows in blocks of [`BLOCK_ROWS`], each block as inputs x rows, so that the inner loop reads it in order. Rows that
/// do not fill a block come last, one by one.
fn interleave(x: &[f32], inputs: usize) -> Vec<f32> {
    let mut blocks = Vec::with_capacity(x.len());
    let whole = x.chunks_exact(BLOCK_ROWS * inputs);
    let rest = whole.remainder();
    for block in whole {
        for k in 0..inputs {
            blocks.extend(block[k..].iter().step_by(inputs));
        }
    }
    blocks.extend_from_slice(rest);
    blocks
}

/// One tile of outputs for all rows of a panel: out is (rows, LANES).
fn tile_product(blocks: &[f32], inputs: usize, w: &[f32], out: &mut [f32]) {
    let w = w.as_chunks::<LANES>().0;
    let whole = blocks.chunks_exact(BLOCK_ROWS * inputs);
    let rest = whole.remainder();
    let (out_whole, out_rest) = out.split_at_mut(whole.len() * BLOCK_ROWS * LANES);
    for (block, out) in whole.zip(out_whole.chunks_exact_mut(BLOCK_ROWS * LANES)) {
        block_product::<BLOCK_ROWS>(block, w, out);
    }
    for (row, out) in rest.chunks_exact(inputs).zip(out_rest.chunks_exact_mut(LANES)) {
        block_product::<1>(row, w, out);
    }
}

/// The inner loop: every output is one accumulator that takes its products in the order of k, whatever ROWS is.
#[inline]
fn block_product<const ROWS: usize>(x: &[f32], w: &[[f32; LANES]], out: &mut [f32]) {
    let mut sums = [[0.0f32; LANES]; ROWS];
    for (x, w) in x.as_chunks::<ROWS>().0.iter().zip(w) {
        for (sums, &x) in sums.iter_mut().zip(x) {
            for (sum, &w) in sums.iter_mut().zip(w) {
                *sum += x * w;
            }
        }
    }
    out.copy_from_slice(sums.as_flattened());
}

struct Gather {
    outputs: usize,
    inputs: usize,
}

impl CustomOp2 for Gather {
    fn name(&self) -> &'static str {
        "embedding rows"
    }

    fn cpu_fwd(
        &self,
        ids: &CpuStorage,
        ids_layout: &Layout,
        w: &CpuStorage,
        w_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = ids_layout.contiguous_offsets() else {
            bail!("the ids of an embedding must be contiguous");
        };
        let ids = &ids.as_slice::<u32>()?[start..end];
        let w = elements(w, w_layout)?;
        let mut rows = Vec::with_capacity(ids.len() * self.inputs);
        for &id in ids {
            let id = id as usize;
            if id >= self.outputs {
                bail!("row {id} of an embedding of {} rows", self.outputs);
            }
            let tile = &w[id / LANES * self.inputs * LANES..][..self.inputs * LANES];
            rows.extend(tile[id % LANES..].iter().step_by(LANES));
        }
        Ok((CpuStorage::F32(rows), Shape::from((ids.len(), self.inputs))))
    }
}

/// Outputs side by side in a tile: four SSE registers, two of AVX, one of AVX-512.
const LANES: usize = 16;

/// Rows that share one load of the weights: their accumulators and one tile's weights fit 16 SSE registers.
const BLOCK_ROWS: usize = 2;

/// Rows whose inputs stay in cache while all tiles pass by.
const PANEL_ROWS: usize = 64;

/// Products from which on threads share a panel: below, waking them costs more than it saves (about 0.5 ms).
const PARALLEL_PRODUCTS: usize = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;
    use proptest::prelude::*;

    /// Values with many different exponents, so that a changed order of summation changes the sum.
    fn values(count: usize, seed: u64) -> Vec<f32> {
        let number = |i: usize| journey::random::uniform(seed, i as u64, journey::random::Purpose::Sample, 0);
        (0..count).map(|i| ((number(i) - 0.5) * (number(i + count) * 12.0).exp2()) as f32).collect()
    }

    fn naive(x: &[f32], w: &[f32], inputs: usize) -> Vec<f32> {
        let dot = |x: &[f32], w: &[f32]| x.iter().zip(w).fold(0.0, |sum, (x, w)| sum + x * w);
        x.chunks(inputs).flat_map(|x| w.chunks(inputs).map(move |w| dot(x, w))).collect()
    }

    fn forward(x: &[f32], w: &[f32], inputs: usize) -> Vec<f32> {
        let linear = Linear::pack(w, w.len() / inputs, inputs).unwrap();
        let x = Tensor::from_slice(x, (x.len() / inputs, inputs), &Device::Cpu).unwrap();
        linear.forward(&x).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    proptest! {
        #[test]
        fn every_output_is_the_plain_sum_in_order(
            rows in 1usize..70, inputs in 1usize..40, outputs in 1usize..50, seed: u64
        ) {
            let (x, w) = (values(rows * inputs, seed), values(outputs * inputs, !seed));
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(forward(&x, &w, inputs)), bits(naive(&x, &w, inputs)));
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let (inputs, outputs, rows) = (512, 160, 64);
        assert!(rows * inputs * outputs >= PARALLEL_PRODUCTS);
        let (x, w) = (values(rows * inputs, 1), values(outputs * inputs, 2));
        assert_eq!(forward(&x, &w, inputs), naive(&x, &w, inputs));
    }

    #[test]
    fn rows_of_the_matrix_come_back_as_they_were() {
        let w = values(21 * 5, 3);
        let linear = Linear::pack(&w, 21, 5).unwrap();
        let ids = Tensor::new(&[20u32, 0, 17], &Device::Cpu).unwrap();
        let rows: Vec<Vec<f32>> = linear.rows(&ids).unwrap().to_vec2().unwrap();
        assert_eq!(rows, [&w[100..105], &w[0..5], &w[85..90]]);
        let beyond = Tensor::new(&[21u32], &Device::Cpu).unwrap();
        assert!(linear.rows(&beyond).is_err());
    }
}
