//! The training loop.

use anyhow::Result;
use candle_core::Var;
use candle_core::backprop::GradStore;

use crate::data::Batches;
use crate::model::{Model, Packed};
use crate::optimizer::Optimizer;
use crate::progress::Progress;

/// When to stop, and what the learning-rate schedule runs along.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// This many tokens: the same weights every time.
    Tokens(u64),
    /// This many minutes of wall-clock time.
    Minutes(f64),
}

/// How the learning rate changes while training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// For random weights: a plateau, and a linear fall over the last third.
    Scratch,
    /// For trained weights: half as high, falling all the way.
    Further,
}

/// Trains `model` in place until `budget` is used up.
pub(crate) fn train(model: &Model, batches: &mut Batches, budget: Budget, schedule: Schedule) -> Result<()> {
    let variables: Vec<Var> =
        model.matrices().into_iter().map(|(var, _)| var).chain(model.others()).collect();
    let mut optimizer = Optimizer::new(model)?;
    let mut progress = Progress::new(budget, model.parameters());
    for step in 1_u32.. {
        let done = progress.fraction();
        if done >= 1.0 {
            break;
        }
        let batch = batches.next_batch()?;
        let (loss, grads) = gradients(model, &variables, &batch)?;
        optimizer.step(grads, schedule.rate(step, done))?;
        progress.advance(batch.iter().map(|pack| pack.tokens.len() as u64).sum(), loss);
    }
    progress.finish();
    Ok(())
}

impl Schedule {
    /// The learning rate of update `step` when `done` of the budget is used, as a part of the highest one.
    ///
    /// The first updates are smaller because the optimiser's averages are still empty.
    fn rate(self, step: u32, done: f64) -> f64 {
        let rise = (f64::from(step) / 60.0).min(1.0);
        match self {
            Self::Scratch => rise * ((1.0 - done) / 0.35).min(1.0),
            Self::Further => rise * 0.5 * (1.0 - done),
        }
    }
}

/// The mean loss over all rows that count in `batch`, and its gradients.
fn gradients(model: &Model, variables: &[Var], batch: &[Packed]) -> Result<(f64, GradStore)> {
    let rows: usize = batch.iter().map(|pack| pack.rows.len()).sum();
    let scale = 1.0 / rows as f64;
    let mut total = 0.0;
    let mut sum: Option<GradStore> = None;
    for pack in batch {
        let loss = (model.loss(pack)? * scale)?;
        total += f64::from(loss.to_scalar::<f32>()?);
        let mut grads = loss.backward()?;
        for variable in variables {
            let Some(grad) = grads.remove(variable) else { continue };
            // A gradient remembers how it was computed, and with that the whole forward pass, until detached.
            let grad = match sum.as_ref().and_then(|sum| sum.get(variable)) {
                Some(before) => (grad.detach() + before)?,
                None => grad.detach(),
            };
            grads.insert(variable, grad);
        }
        sum = Some(grads);
    }
    Ok((total, sum.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use tinypair::models::SMALL;
    use tokenizers::Tokenizer;

    use super::*;
    use crate::attention::Heads;
    use crate::model::ModelShape;

    #[test]
    fn a_few_updates_bring_the_loss_down() {
        let tokenizer = Tokenizer::from_bytes(SMALL.file("tokenizer.json").unwrap()).unwrap();
        let heads = Heads { query: 2, key_value: 1 };
        let shape = ModelShape { vocab: 672, hidden: 32, layers: 1, heads, feed_forward: 32 };
        let model = Model::new(shape, 1).unwrap();
        let batch = Batches::new(2, tokenizer.clone()).next_batch().unwrap();
        let loss = || model.loss(&batch[0]).unwrap().to_scalar::<f32>().unwrap();
        let before = loss();
        train(&model, &mut Batches::new(1, tokenizer), Budget::Tokens(150_000), Schedule::Scratch).unwrap();
        let after = loss();
        assert!(after < 0.98 * before, "{before} became {after}");
    }

    #[test]
    fn the_learning_rate_rises_holds_and_falls_to_nothing() {
        assert!(Schedule::Scratch.rate(1, 0.0) < 0.02);
        assert_eq!(Schedule::Scratch.rate(60, 0.3), 1.0);
        assert!(Schedule::Scratch.rate(1000, 0.99) < 0.03);
        assert!(Schedule::Further.rate(1000, 0.99) < 0.03);
    }
}
