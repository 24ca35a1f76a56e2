//! The small differentiable operations of the model: norm, gate and loss.
//!
//! candle composes these from several passes over memory; fused, each is one pass forward and one backward. Matrix
//! products stay with candle.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Storage, Tensor, bail};

use crate::lanes;

/// `x / rms(x) * weight` over rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RmsNorm {
    /// Added to the mean square.
    pub(crate) eps: f32,
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        xl: &Layout,
        w: &CpuStorage,
        wl: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (slice_of(x, xl)?, slice_of(w, wl)?);
        let mut out = vec![0.0; x.len()];
        lanes::wide(
            #[inline(always)]
            || self.forward(x, weight, &mut out),
        );
        Ok((CpuStorage::F32(out), xl.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        w: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let mut x_grad = vec![0.0; x.elem_count()];
        let mut w_grad = vec![0.0; w.elem_count()];
        let mut run = |x: &[f32], w: &[f32], grad: &[f32]| {
            lanes::wide(
                #[inline(always)]
                || self.backward([x, w, grad], &mut x_grad, &mut w_grad),
            );
        };
        read(x, |x| read(w, |w| read(grad, |grad| run(x, w, grad))))???;
        let x_grad = Tensor::from_vec(x_grad, x.shape(), x.device())?;
        let w_grad = Tensor::from_vec(w_grad, w.shape(), w.device())?;
        Ok((Some(x_grad), Some(w_grad)))
    }
}

impl RmsNorm {
    #[inline(always)]
    fn inverse(&self, row: &[f32]) -> f32 {
        (lanes::sum_with(row, row, |a, b| a * b) / row.len() as f32 + self.eps).sqrt().recip()
    }

    #[inline(always)]
    fn forward(&self, x: &[f32], weight: &[f32], out: &mut [f32]) {
        for (row, out) in x.chunks_exact(weight.len()).zip(out.chunks_exact_mut(weight.len())) {
            let inverse = self.inverse(row);
            for ((out, x), weight) in out.iter_mut().zip(row).zip(weight) {
                *out = x * inverse * weight;
            }
        }
    }

    /// With `r = 1 / rms`: `dx = r * (w * g) - x * r^3 * mean(w * g * x)` and `dw = sum(g * x * r)`.
    #[inline(always)]
    fn backward(&self, [x, weight, grad]: [&[f32]; 3], x_grad: &mut [f32], w_grad: &mut [f32]) {
        let width = weight.len();
        let mut scaled = vec![0.0; width];
        let rows = x.chunks_exact(width).zip(grad.chunks_exact(width));
        for ((row, grad), out) in rows.zip(x_grad.chunks_exact_mut(width)) {
            let inverse = self.inverse(row);
            for ((scaled, grad), weight) in scaled.iter_mut().zip(grad).zip(weight) {
                *scaled = grad * weight;
            }
            let mean = lanes::sum_with(&scaled, row, |a, b| a * b) / width as f32;
            let pull = inverse * inverse * inverse * mean;
            for ((out, scaled), x) in out.iter_mut().zip(&scaled).zip(row) {
                *out = inverse * scaled - pull * x;
            }
            for ((sum, grad), x) in w_grad.iter_mut().zip(grad).zip(row) {
                *sum += grad * x * inverse;
            }
        }
    }
}

/// `silu(gate) * up`, where each row holds the gate's numbers and then those of `up`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SwiGlu;

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let packed = slice_of(storage, layout)?;
        let (rows, width) = (layout.dims()[0], layout.dims()[1] / 2);
        let mut out = vec![0.0; rows * width];
        lanes::wide(
            #[inline(always)]
            || swiglu_forward(packed, width, &mut out),
        );
        Ok((CpuStorage::F32(out), Shape::from((rows, width))))
    }

    fn bwd(&self, packed: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let width = grad.dim(1)?;
        let mut out = vec![0.0; packed.elem_count()];
        let mut run = |packed: &[f32], grad: &[f32]| {
            lanes::wide(
                #[inline(always)]
                || swiglu_backward(packed, grad, width, &mut out),
            );
        };
        read(packed, |packed| read(grad, |grad| run(packed, grad)))??;
        Tensor::from_vec(out, packed.shape(), packed.device()).map(Some)
    }
}

#[inline(always)]
fn swiglu_forward(packed: &[f32], width: usize, out: &mut [f32]) {
    for (row, out) in packed.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
        let (gate, up) = row.split_at(width);
        for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
            *out = gate * up / (1.0 + lanes::exp(-gate));
        }
    }
}

#[inline(always)]
fn swiglu_backward(packed: &[f32], grad: &[f32], width: usize, out: &mut [f32]) {
    let rows = packed.chunks_exact(2 * width).zip(grad.chunks_exact(width));
    for ((row, grad), out) in rows.zip(out.chunks_exact_mut(2 * width)) {
        let (gate, up) = row.split_at(width);
        let (gate_grad, up_grad) = out.split_at_mut(width);
        for at in 0..width {
            let sigmoid = 1.0 / (1.0 + lanes::exp(-gate[at]));
            gate_grad[at] = grad[at] * up[at] * sigmoid * (1.0 + gate[at] * (1.0 - sigmoid));
            up_grad[at] = grad[at] * gate[at] * sigmoid;
        }
    }
}

/// The summed cross-entropy of rows of logits, in nats.
#[derive(Clone, Debug)]
pub(crate) struct CrossEntropy {
    /// The right token of each row.
    pub(crate) targets: Arc<[u32]>,
}

impl CustomOp1 for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let logits = slice_of(storage, layout)?;
        let loss = lanes::wide(
            #[inline(always)]
            || self.forward(logits),
        );
        Ok((CpuStorage::F32(vec![loss]), Shape::from(())))
    }

    fn bwd(&self, logits: &Tensor, _: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let scale = grad.to_scalar::<f32>()?;
        let mut out = vec![0.0; logits.elem_count()];
        read(logits, |logits| {
            lanes::wide(
                #[inline(always)]
                || self.backward(logits, scale, &mut out),
            );
        })?;
        Tensor::from_vec(out, logits.shape(), logits.device()).map(Some)
    }
}

impl CrossEntropy {
    #[inline(always)]
    fn forward(&self, logits: &[f32]) -> f32 {
        let vocab = logits.len() / self.targets.len();
        let mut loss = 0.0;
        for (row, target) in logits.chunks_exact(vocab).zip(self.targets.iter()) {
            let high = lanes::max(row);
            let sum = lanes::sum_with(row, row, |a, _| lanes::exp(a - high));
            loss += sum.ln() + high - row[*target as usize];
        }
        loss
    }

    #[inline(always)]
    fn backward(&self, logits: &[f32], scale: f32, out: &mut [f32]) {
        let vocab = logits.len() / self.targets.len();
        let rows = logits.chunks_exact(vocab).zip(self.targets.iter());
        for ((row, target), out) in rows.zip(out.chunks_exact_mut(vocab)) {
            let high = lanes::max(row);
            for (out, logit) in out.iter_mut().zip(row) {
                *out = lanes::exp(logit - high);
            }
            let each = scale / lanes::sum_with(out, out, |a, _| a);
            out.iter_mut().for_each(|probability| *probability *= each);
            out[*target as usize] -= scale;
        }
    }
}

/// The numbers behind an operation's argument, which the model only ever passes contiguous.
pub(crate) fn slice_of<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("a fused operation got a strided tensor")
    };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Calls `f` with the numbers of `tensor`.
pub(crate) fn read<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { bail!("training runs on the CPU") };
    Ok(f(slice_of(storage, layout)?))
}
