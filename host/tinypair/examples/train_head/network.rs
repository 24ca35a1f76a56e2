//! The network of the head and its training: a few linear layers with ReLU between them, Adam, cross-entropy.
//!
//! Plain loops in one order, so a seed gives the same weights wherever the arithmetic is IEEE's. Small enough that
//! nothing faster is needed. Inputs are brought to mean 0 and deviation 1 for training, and that is folded into the
//! first layer afterwards, so that the graph has no node for it.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use crate::label::Example;

/// The layers, first to last.
pub(crate) struct Network {
    /// The last one has a single output.
    pub(crate) layers: Vec<Layer>,
}

/// A linear layer.
pub(crate) struct Layer {
    /// The weights of the first input, then those of the second, and so on.
    pub(crate) weights: Adam,
    /// One for each output.
    pub(crate) bias: Adam,
    /// Numbers read.
    pub(crate) inputs: usize,
    /// Numbers given.
    pub(crate) outputs: usize,
}

/// Parameters with what Adam remembers of them.
pub(crate) struct Adam {
    /// The parameters.
    pub(crate) values: Vec<f32>,
    gradient: Vec<f32>,
    mean: Vec<f32>,
    square: Vec<f32>,
}

/// Trains on which tokens are useful.
pub(crate) fn train(examples: &[Example], seed: u64) -> Network {
    let mut rng = StdRng::seed_from_u64(seed);
    let scaling = Scaling::of(examples);
    let rows: Vec<Vec<f32>> = examples.iter().map(|example| scaling.apply(&example.scores)).collect();
    let mut network = Network::new(rows[0].len(), &mut rng);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let updates = EPOCHS * rows.len().div_ceil(BATCH);
    let mut update = 0;
    for _ in 0..EPOCHS {
        order.shuffle(&mut rng);
        for batch in order.chunks(BATCH) {
            for &index in batch {
                let example = &examples[index];
                let target = if example.is_useful { 1.0 } else { 0.0 };
                network.learn(&rows[index], target, example.weight / BATCH as f32);
            }
            update += 1;
            let left = 1.0 - update as f32 / updates as f32;
            network.update(RATE * left, update);
        }
    }
    scaling.fold_into(&mut network.layers[0]);
    network
}

impl Network {
    fn new(inputs: usize, rng: &mut StdRng) -> Self {
        let widths = [&[inputs], &WIDTHS[..], &[1]].concat();
        Self { layers: widths.windows(2).map(|pair| Layer::new(pair[0], pair[1], rng)).collect() }
    }

    /// The score of a row of inputs, before the sigmoid.
    #[cfg(test)]
    pub(crate) fn logit(&self, row: &[f32]) -> f32 {
        self.forward(row).pop().map_or(0.0, |last| last[0])
    }

    /// What every layer gives, after ReLU for all but the last.
    fn forward(&self, row: &[f32]) -> Vec<Vec<f32>> {
        let mut given: Vec<Vec<f32>> = Vec::with_capacity(self.layers.len());
        for (depth, layer) in self.layers.iter().enumerate() {
            let mut output = layer.apply(given.last().map_or(row, Vec::as_slice));
            if depth + 1 < self.layers.len() {
                output.iter_mut().for_each(|x| *x = x.max(0.0));
            }
            given.push(output);
        }
        given
    }

    /// Adds the gradient of `weight` times the cross-entropy of one row.
    fn learn(&mut self, row: &[f32], target: f32, weight: f32) {
        let given = self.forward(row);
        let probability = sigmoid(given[given.len() - 1][0]);
        let mut slope = vec![weight * (probability - target)];
        for (depth, layer) in self.layers.iter_mut().enumerate().rev() {
            let Some(before) = depth.checked_sub(1) else {
                layer.learn(row, &slope);
                return;
            };
            layer.learn(&given[before], &slope);
            slope = layer.slope_before(&given[before], &slope);
        }
    }

    fn update(&mut self, rate: f32, count: usize) {
        for layer in &mut self.layers {
            layer.weights.update(rate, count, DECAY);
            layer.bias.update(rate, count, 0.0);
        }
    }
}

impl Layer {
    fn new(inputs: usize, outputs: usize, rng: &mut StdRng) -> Self {
        // Kaiming's uniform initialisation for ReLU.
        let bound = (6.0 / inputs as f32).sqrt();
        let weights = (0..inputs * outputs).map(|_| rng.random_range(-bound..bound)).collect();
        Self { weights: Adam::new(weights), bias: Adam::new(vec![0.0; outputs]), inputs, outputs }
    }

    fn apply(&self, row: &[f32]) -> Vec<f32> {
        let mut output = self.bias.values.clone();
        for (x, weights) in row.iter().zip(self.weights.values.chunks_exact(self.outputs)) {
            for (output, weight) in output.iter_mut().zip(weights) {
                *output += x * weight;
            }
        }
        output
    }

    fn learn(&mut self, row: &[f32], slope: &[f32]) {
        for (x, gradient) in row.iter().zip(self.weights.gradient.chunks_exact_mut(self.outputs)) {
            for (gradient, slope) in gradient.iter_mut().zip(slope) {
                *gradient += x * slope;
            }
        }
        for (gradient, slope) in self.bias.gradient.iter_mut().zip(slope) {
            *gradient += slope;
        }
    }

    /// The slope of what the layer read, which ReLU had cut at zero.
    fn slope_before(&self, read: &[f32], slope: &[f32]) -> Vec<f32> {
        let weights = self.weights.values.chunks_exact(self.outputs);
        let through = |weights: &[f32]| weights.iter().zip(slope).map(|(w, s)| w * s).sum::<f32>();
        read.iter().zip(weights).map(|(&x, weights)| if x > 0.0 { through(weights) } else { 0.0 }).collect()
    }
}

impl Adam {
    fn new(values: Vec<f32>) -> Self {
        let zeros = vec![0.0; values.len()];
        Self { values, gradient: zeros.clone(), mean: zeros.clone(), square: zeros }
    }

    /// One step of AdamW, the `count`th; the gradient is used up.
    fn update(&mut self, rate: f32, count: usize, decay: f32) {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let (first, second) = (1.0 - MEMORY.0.powi(count), 1.0 - MEMORY.1.powi(count));
        let remembered = self.mean.iter_mut().zip(&mut self.square);
        for ((value, gradient), (mean, square)) in
            self.values.iter_mut().zip(&mut self.gradient).zip(remembered)
        {
            *mean += (1.0 - MEMORY.0) * (*gradient - *mean);
            *square += (1.0 - MEMORY.1) * (*gradient * *gradient - *square);
            let step = (*mean / first) / ((*square / second).sqrt() + 1e-8);
            *value -= rate * (step + decay * *value);
            *gradient = 0.0;
        }
    }
}

/// Mean and deviation of every input.
struct Scaling {
    means: Vec<f32>,
    deviations: Vec<f32>,
}

impl Scaling {
    fn of(examples: &[Example]) -> Self {
        let (mut means, mut deviations) = (Vec::new(), Vec::new());
        let total: f64 = examples.iter().map(|example| f64::from(example.weight)).sum();
        for input in 0..examples[0].scores.len() {
            let average = |f: &dyn Fn(f64) -> f64| {
                let one = |e: &Example| f64::from(e.weight) * f(f64::from(e.scores[input]));
                examples.iter().map(one).sum::<f64>() / total
            };
            let mean = average(&|x| x);
            means.push(mean as f32);
            // An input that hardly moves stays small instead of being blown up.
            deviations.push(average(&|x| (x - mean).powi(2)).sqrt().max(1e-3) as f32);
        }
        Self { means, deviations }
    }

    fn apply(&self, row: &[f32]) -> Vec<f32> {
        let scales = self.means.iter().zip(&self.deviations);
        row.iter().zip(scales).map(|(x, (mean, deviation))| (x - mean) / deviation).collect()
    }

    /// Makes a layer that was trained on scaled inputs one of plain inputs.
    fn fold_into(&self, layer: &mut Layer) {
        let weights = layer.weights.values.chunks_exact_mut(layer.outputs);
        for (weights, (mean, deviation)) in weights.zip(self.means.iter().zip(&self.deviations)) {
            for (weight, bias) in weights.iter_mut().zip(&mut layer.bias.values) {
                *weight /= deviation;
                *bias -= *weight * mean;
            }
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Outputs of the inner layers.
const WIDTHS: [usize; 2] = [64, 24];
/// Rounds over the examples.
const EPOCHS: usize = 12;
/// Examples for one update.
const BATCH: usize = 128;
/// Learning rate at the start; it falls to zero in a straight line.
const RATE: f32 = 2e-3;
/// How much of a weight each update takes away, in units of the learning rate.
const DECAY: f32 = 0.02;
/// How much Adam remembers of the slope and of its square.
const MEMORY: (f32, f32) = (0.9, 0.99);

#[cfg(test)]
mod tests {
    use journey::Signals;

    use super::*;

    #[test]
    fn it_learns_what_no_line_separates() {
        let mut rng = StdRng::seed_from_u64(3);
        let mut example = || {
            let scores = vec![rng.random_range(-1.0..1.0), 50.0 + rng.random_range(-1.0..1.0)];
            let is_useful = scores[0] * (scores[1] - 50.0) > 0.0;
            Example { scores, signals: Signals::default(), differs: is_useful, is_useful, weight: 1.0 }
        };
        let examples: Vec<Example> = (0..4_000).map(|_| example()).collect();
        let network = train(&examples[..3_000], 1);
        let right = |one: &&Example| (network.logit(&one.scores) > 0.0) == one.is_useful;
        let right = examples[3_000..].iter().filter(right).count();
        assert!(right > 930, "{right} of 1000");
    }
}
