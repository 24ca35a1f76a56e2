//! Rotary position embedding, each row at its own position.
//!
//! candle's own op takes the positions of a batch as tensors to be gathered first, and enters its thread pool on
//! every call, which costs a decode step more than the rotation itself.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, bail};

use super::elements;

/// How fast each pair of elements turns; fixed by the model.
pub(crate) struct RopeFrequencies(Vec<f32>);

impl RopeFrequencies {
    /// theta^(-2i / head_dim) for each pair i, in radians per position.
    pub(crate) fn new(head_dim: usize, theta: f64) -> Self {
        let frequency = |i: usize| 1.0 / (theta as f32).powf((2 * i) as f32 / head_dim as f32);
        Self((0..head_dim / 2).map(frequency).collect())
    }

    /// The rotations of some rows, one position each. Angles are taken in f32, as the models' reference does, so that
    /// far positions turn by the same angle as in training.
    pub(crate) fn at(&self, positions: impl Iterator<Item = usize>) -> Rope {
        let angles = positions.flat_map(|position| self.0.iter().map(move |f| position as f32 * f));
        Rope { rotations: angles.map(|angle| [angle.cos(), angle.sin()]).collect(), half: self.0.len() }
    }
}

/// Rotates x of shape (rows, heads * head_dim): element i of a head pairs with i + head_dim / 2.
pub(crate) struct Rope {
    /// (rows, head_dim / 2), cosine and sine side by side.
    rotations: Vec<[f32; 2]>,
    half: usize,
}

impl CustomOp1 for Rope {
    fn name(&self) -> &'static str {
        "rope at positions"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, width) = layout.shape().dims2()?;
        let half = self.half;
        if half == 0 || rows * half != self.rotations.len() || !width.is_multiple_of(2 * half) {
            bail!("rope of {rows} rows of {width} with {} rotations", self.rotations.len());
        }
        let mut rotated = elements(x, layout)?.to_vec();
        for (row, rotations) in rotated.chunks_exact_mut(width).zip(self.rotations.chunks_exact(half)) {
            for head in row.chunks_exact_mut(2 * half) {
                let (first, second) = head.split_at_mut(half);
                for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(rotations) {
                    (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                }
            }
        }
        Ok((CpuStorage::F32(rotated), layout.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Tensor};

    #[test]
    fn rotates_as_candle_does() {
        let (rows, heads, dim, theta) = (5, 3, 8, 10_000.0);
        let x: Vec<f32> = (0..rows * heads * dim).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
        let x = Tensor::from_vec(x, (rows, heads * dim), &Device::Cpu).unwrap();
        let rope = RopeFrequencies::new(dim, theta).at([0, 3, 15, 7, 7].into_iter());
        let ours = x.apply_op1_no_bwd(&rope).unwrap();

        let part = |which: usize| rope.rotations.iter().map(|rotation| rotation[which]).collect::<Vec<f32>>();
        let part = |which| Tensor::from_vec(part(which), (rows, dim / 2), &Device::Cpu).unwrap();
        let x = x.reshape((1, rows, heads, dim)).unwrap();
        let theirs = candle_nn::rotary_emb::rope_thd(&x, &part(0), &part(1)).unwrap();
        let flat = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (ours, theirs) in flat(ours).into_iter().zip(flat(theirs)) {
            assert!((ours - theirs).abs() < 1e-6, "{ours} against {theirs}");
        }
    }
}
