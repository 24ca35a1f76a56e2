//! The model to train: its shape, its weights and the loss of a packed batch.
//!
//! Weights are kept as `[inputs, outputs]`, the transpose of the checkpoint's layout, so that candle's gradient of a
//! product needs no strided pass. Matrices that read the same input are stored side by side as one.

use std::sync::Arc;

use candle_core::{D, Device, Result, Tensor, Var};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::attention::{Attention, Heads};
use crate::ops::{CrossEntropy, RmsNorm, SwiGlu};
use crate::rotary::{HEAD_DIM, Rotary};

/// Everything that fixes the architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelShape {
    /// Tokens in the vocabulary.
    pub(crate) vocab: usize,
    /// Width of the residual stream.
    pub(crate) hidden: usize,
    /// Decoder layers.
    pub(crate) layers: usize,
    /// Attention heads.
    pub(crate) heads: Heads,
    /// Width of the gated layer.
    pub(crate) feed_forward: usize,
}

impl ModelShape {
    /// The shape of the model called `small`.
    pub(crate) fn small(vocab: usize) -> Self {
        Self { vocab, hidden: 64, layers: 3, heads: Heads { query: 4, key_value: 2 }, feed_forward: 160 }
    }

    /// The shape of the model called `large`.
    pub(crate) fn large(vocab: usize) -> Self {
        Self { vocab, hidden: 128, layers: 6, heads: Heads { query: 8, key_value: 4 }, feed_forward: 352 }
    }
}

/// Longest sequence the models are made for.
pub(crate) const POSITIONS: usize = 1024;
/// Base of the rotary angles.
pub(crate) const ROPE_THETA: f32 = 10_000.0;
/// Added to the mean square in every norm.
pub(crate) const NORM_EPS: f32 = 1e-5;

/// One decoder layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Norm before attention.
    pub(crate) attention_norm: Var,
    /// Queries, keys and values side by side.
    pub(crate) qkv: Var,
    /// Back to the residual stream.
    pub(crate) output: Var,
    /// Norm before the gated layer.
    pub(crate) mlp_norm: Var,
    /// Gate and up side by side.
    pub(crate) gate_up: Var,
    /// Back to the residual stream.
    pub(crate) down: Var,
}

/// A model and its weights.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// The architecture.
    pub(crate) shape: ModelShape,
    /// `[vocabulary, hidden]`, used at both ends.
    pub(crate) embedding: Var,
    /// In order from the input.
    pub(crate) layers: Vec<Layer>,
    /// Norm before the logits.
    pub(crate) final_norm: Var,
    /// Rotations for every position.
    pub(crate) rotary: Arc<Rotary>,
}

/// Whole sequences laid one after another.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    /// The tokens of every sequence.
    pub(crate) tokens: Vec<u32>,
    /// First row of each sequence, and the row after the last.
    pub(crate) starts: Vec<usize>,
    /// Rows whose next token the model must learn.
    pub(crate) rows: Vec<u32>,
    /// Those next tokens.
    pub(crate) targets: Vec<u32>,
}

impl Model {
    /// Random weights drawn from `seed`.
    pub(crate) fn new(shape: ModelShape, seed: u64) -> Result<Self> {
        let mut init = Init { rng: StdRng::seed_from_u64(seed) };
        let (hidden, ff) = (shape.hidden, shape.feed_forward);
        let into = 0.6 / (hidden as f32).sqrt();
        let back = 0.02 / (2.0 * shape.layers as f32).sqrt();
        let embedding = init.normal(shape.vocab, hidden, if hidden >= 128 { 0.02 } else { 0.04 })?;
        let layers = (0..shape.layers)
            .map(|_| {
                Ok(Layer {
                    attention_norm: ones(hidden)?,
                    qkv: init.normal(hidden, shape.heads.packed_width(), into)?,
                    output: init.normal(shape.heads.query_width(), hidden, back)?,
                    mlp_norm: ones(hidden)?,
                    gate_up: init.normal(hidden, 2 * ff, into)?,
                    down: init.normal(ff, hidden, back)?,
                })
            })
            .collect::<Result<_>>()?;
        let rotary = Arc::new(Rotary::new(POSITIONS, ROPE_THETA));
        Ok(Self { shape, embedding, layers, final_norm: ones(hidden)?, rotary })
    }

    /// The summed loss over the rows of `batch` that count.
    pub(crate) fn loss(&self, batch: &Packed) -> Result<Tensor> {
        let device = Device::Cpu;
        let tokens = Tensor::from_slice(&batch.tokens, batch.tokens.len(), &device)?;
        let rows = Tensor::from_slice(&batch.rows, batch.rows.len(), &device)?;
        let starts: Arc<[usize]> = batch.starts.as_slice().into();
        let mut x = self.embedding.index_select(&tokens, 0)?;
        for (at, layer) in self.layers.iter().enumerate() {
            let heads = self.shape.heads;
            let attention = Attention { heads, starts: starts.clone(), rotary: self.rotary.clone() };
            let mut mixed = norm(&x, &layer.attention_norm)?.matmul(&layer.qkv)?.apply_op1(attention)?;
            if at + 1 == self.layers.len() {
                // Past the last attention a row no longer sees the others, so the rest need not be computed.
                (x, mixed) = (x.index_select(&rows, 0)?, mixed.index_select(&rows, 0)?);
            }
            x = (x + mixed.matmul(&layer.output)?)?;
            let gated = norm(&x, &layer.mlp_norm)?.matmul(&layer.gate_up)?.apply_op1(SwiGlu)?;
            x = (x + gated.matmul(&layer.down)?)?;
        }
        let logits = norm(&x, &self.final_norm)?.matmul(&self.embedding.t()?)?;
        logits.apply_op1(CrossEntropy { targets: batch.targets.as_slice().into() })
    }

    /// The matrices of all layers, each with the widths of the matrices stored side by side in it.
    pub(crate) fn matrices(&self) -> Vec<(Var, Vec<usize>)> {
        let ModelShape { hidden, heads, feed_forward, .. } = self.shape;
        let kv = heads.key_value * HEAD_DIM;
        let of_layer = |layer: &Layer| {
            [
                (layer.qkv.clone(), vec![heads.query_width(), kv, kv]),
                (layer.output.clone(), vec![hidden]),
                (layer.gate_up.clone(), vec![feed_forward, feed_forward]),
                (layer.down.clone(), vec![hidden]),
            ]
        };
        self.layers.iter().flat_map(of_layer).collect()
    }

    /// The embedding and the norms.
    pub(crate) fn others(&self) -> Vec<Var> {
        let norms =
            self.layers.iter().flat_map(|layer| [layer.attention_norm.clone(), layer.mlp_norm.clone()]);
        [self.embedding.clone(), self.final_norm.clone()].into_iter().chain(norms).collect()
    }

    /// How many numbers the model has.
    pub(crate) fn parameters(&self) -> usize {
        let matrices = self.matrices().into_iter().map(|(var, _)| var);
        matrices.chain(self.others()).map(|var| var.elem_count()).sum()
    }
}

/// `x` normalised over its last dimension.
pub(crate) fn norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    debug_assert_eq!(x.dim(D::Minus1)?, weight.elem_count());
    x.apply_op2(weight, RmsNorm { eps: NORM_EPS })
}

fn ones(width: usize) -> Result<Var> {
    Var::from_tensor(&Tensor::ones(width, candle_core::DType::F32, &Device::Cpu)?)
}

/// Normal numbers from a seeded generator (candle's own cannot be seeded on the CPU).
struct Init {
    rng: StdRng,
}

impl Init {
    fn normal(&mut self, rows: usize, columns: usize, deviation: f32) -> Result<Var> {
        let values: Vec<f32> = (0..rows * columns).map(|_| self.draw() * deviation).collect();
        Var::from_tensor(&Tensor::from_vec(values, (rows, columns), &Device::Cpu)?)
    }

    /// One standard normal number (Box-Muller).
    fn draw(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.rng.random::<f32>()).ln()).sqrt();
        radius * (std::f32::consts::TAU * self.rng.random::<f32>()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> (Model, Packed) {
        let heads = Heads { query: 2, key_value: 1 };
        let shape = ModelShape { vocab: 24, hidden: 32, layers: 2, heads, feed_forward: 20 };
        let tokens: Vec<u32> = (0..45).map(|i| (i * 7 + i / 5) % 24).collect();
        let rows: Vec<u32> = (5..22).chain(30..44).collect();
        let targets = rows.iter().map(|row| tokens[*row as usize + 1]).collect();
        (Model::new(shape, 3).unwrap(), Packed { tokens, starts: vec![0, 23, 45], rows, targets })
    }

    fn nudged(var: &Var, at: usize, by: f32) -> Tensor {
        let mut values = var.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        values[at] += by;
        Tensor::from_vec(values, var.shape(), var.device()).unwrap()
    }

    #[test]
    fn gradients_agree_with_finite_differences() {
        let (model, batch) = tiny();
        let grads = model.loss(&batch).unwrap().backward().unwrap();
        let vars: Vec<Var> = model.matrices().into_iter().map(|(var, _)| var).chain(model.others()).collect();
        for (which, var) in vars.iter().enumerate() {
            let grad = grads.get(var).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            let kept = var.copy().unwrap();
            for at in (0..grad.len()).step_by(1 + grad.len() / 7) {
                let loss_at = |by: f32| {
                    var.set(&nudged(var, at, by)).unwrap();
                    let loss = model.loss(&batch).unwrap().to_scalar::<f32>().unwrap();
                    var.set(&kept).unwrap();
                    loss
                };
                // The loss is a sum of about 100 with seven digits, so smaller steps measure its rounding.
                let step = 2e-2;
                let expected = (loss_at(step) - loss_at(-step)) / (2.0 * step);
                let scale = 0.1_f32.max(expected.abs());
                assert!(
                    (grad[at] - expected).abs() < 0.03 * scale,
                    "variable {which}, entry {at}: {} is not {expected}",
                    grad[at]
                );
            }
        }
    }

    #[test]
    fn packing_two_sequences_adds_their_losses() {
        let (model, batch) = tiny();
        let first = Packed {
            tokens: batch.tokens[..23].to_vec(),
            starts: vec![0, 23],
            rows: batch.rows[..17].to_vec(),
            targets: batch.targets[..17].to_vec(),
        };
        let second = Packed {
            tokens: batch.tokens[23..].to_vec(),
            starts: vec![0, 22],
            rows: batch.rows[17..].iter().map(|row| row - 23).collect(),
            targets: batch.targets[17..].to_vec(),
        };
        let loss = |batch: &Packed| model.loss(batch).unwrap().to_scalar::<f32>().unwrap();
        assert!((loss(&first) + loss(&second) - loss(&batch)).abs() < 1e-3);
    }
}
