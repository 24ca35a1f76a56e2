//! Muon on the matrices, AdamW on the rest.
//!
//! Muon (Jordan et al., 2024) replaces each matrix's averaged gradient by the nearest orthogonal matrix, found with
//! five Newton-Schulz steps; on models this small it needs about half the tokens AdamW does. Embedding and norms are
//! not matrices in that sense and go to candle's AdamW.

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer as _, ParamsAdamW};

use crate::model::Model;

/// The optimiser of one model, with its running averages.
pub(crate) struct Optimizer {
    muon: Vec<MuonMatrix>,
    others: Vec<Var>,
    adam: AdamW,
}

/// One variable that Muon trains.
struct MuonMatrix {
    var: Var,
    /// Widths of the matrices stored side by side in `var`; each is made orthogonal on its own.
    widths: Vec<usize>,
    /// Running average of the gradients.
    average: Tensor,
}

impl Optimizer {
    /// An optimiser for `model` with empty averages.
    pub(crate) fn new(model: &Model) -> Result<Self> {
        let muon = model
            .matrices()
            .into_iter()
            .map(|(var, widths)| Ok(MuonMatrix { average: var.zeros_like()?, var, widths }))
            .collect::<Result<_>>()?;
        let params = ParamsAdamW { lr: ADAM_RATE, beta1: 0.9, beta2: 0.98, eps: 1e-8, weight_decay: 0.0 };
        Ok(Self { muon, others: model.others(), adam: AdamW::new(model.others(), params)? })
    }

    /// One update; `rate` (0 to 1) scales both learning rates.
    pub(crate) fn step(&mut self, mut grads: GradStore, rate: f64) -> Result<()> {
        for matrix in &mut self.muon {
            if let Some(grad) = grads.remove(&matrix.var) {
                matrix.step(&grad, MUON_RATE * rate)?;
            }
        }
        self.clip_others(&mut grads)?;
        self.adam.set_learning_rate(ADAM_RATE * rate);
        self.adam.step(&grads)
    }

    /// Scales the gradients that AdamW sees down to a total length of one.
    fn clip_others(&self, grads: &mut GradStore) -> Result<()> {
        let mut squares = 0.0;
        for grad in self.others.iter().filter_map(|var| grads.get(var)) {
            squares += grad.sqr()?.sum_all()?.to_scalar::<f32>()?;
        }
        let scale = (1.0 / (squares.sqrt() + 1e-6)).min(1.0);
        for var in &self.others {
            if let Some(grad) = grads.remove(var) {
                grads.insert(var, (grad * f64::from(scale))?);
            }
        }
        Ok(())
    }
}

impl MuonMatrix {
    fn step(&mut self, grad: &Tensor, rate: f64) -> Result<()> {
        self.average = ((&self.average * MOMENTUM)? + (grad * (1.0 - MOMENTUM))?)?;
        // Nesterov: look one averaging step ahead.
        let ahead = ((&self.average * MOMENTUM)? + (grad * (1.0 - MOMENTUM))?)?;
        let inputs = ahead.dim(0)?;
        let mut parts = Vec::with_capacity(self.widths.len());
        let mut column = 0;
        for &outputs in &self.widths {
            let part = ahead.narrow(1, column, outputs)?.contiguous()?;
            // A matrix with more outputs than inputs may grow more per step (the reference's aspect-ratio scale).
            let scale = rate * (outputs as f64 / inputs as f64).max(1.0).sqrt();
            parts.push((orthogonal(&part)? * scale)?);
            column += outputs;
        }
        let update = Tensor::cat(&parts, 1)?;
        self.var.set(&(self.var.as_tensor() - update)?)
    }
}

/// The orthogonal matrix nearest to `matrix`, roughly: every singular value ends between 0.7 and 1.2.
fn orthogonal(matrix: &Tensor) -> Result<Tensor> {
    let (rows, columns) = matrix.dims2()?;
    let tall = rows > columns;
    let matrix = if tall { matrix.t()?.contiguous()? } else { matrix.clone() };
    let length = matrix.sqr()?.sum_all()?.to_scalar::<f32>()?.sqrt();
    let mut x = (matrix / f64::from(length + 1e-7))?;
    for _ in 0..5 {
        let a = x.matmul(&x.t()?)?;
        let b = ((&a * -4.7750)? + (a.matmul(&a)? * 2.0315)?)?;
        x = ((&x * 3.4445)? + b.matmul(&x)?)?;
    }
    if tall { x.t()?.contiguous() } else { Ok(x) }
}

const MUON_RATE: f64 = 0.02;
const MOMENTUM: f64 = 0.95;
const ADAM_RATE: f64 = 3e-3;

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn orthogonalised_columns_have_length_near_one() {
        let values: Vec<f32> = (0..24 * 8).map(|i| ((i * 37 % 101) as f32 / 50.0 - 1.0) * 3.0).collect();
        let matrix = Tensor::from_vec(values, (24, 8), &Device::Cpu).unwrap();
        let x = orthogonal(&matrix).unwrap();
        let gram = x.t().unwrap().matmul(&x).unwrap().to_vec2::<f32>().unwrap();
        for (row, values) in gram.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let expected = if row == column { 1.0 } else { 0.0 };
                assert!((value - expected).abs() < 0.5, "{row} {column} {value}");
            }
        }
    }
}
