//! Heads by their formulas, in double precision, one row at a time; shares nothing with what it checks.

use super::{HIDDEN, numbers};

/// What a head reads of a draw.
pub(super) struct Seen {
    pub(super) hidden: Vec<f64>,
    pub(super) embedding: Vec<f64>,
    pub(super) logits: Vec<f64>,
    pub(super) entropy: f64,
}

/// A matrix and a bias.
pub(super) struct Matrix {
    weight: Vec<f64>,
    bias: Option<Vec<f64>>,
}

impl Matrix {
    pub(super) fn new(weight: &[f32], bias: Option<&[f32]>) -> Self {
        Self { weight: wide(weight), bias: bias.map(wide) }
    }

    pub(super) fn times(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.weight.chunks_exact(x.len());
        let bias = |row: usize| self.bias.as_ref().map_or(0.0, |bias| bias[row]);
        rows.enumerate()
            .map(|(row, w)| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias(row))
            .collect()
    }
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| f64::from(x)).collect()
}

pub(super) fn scale_shift(x: &[f64], scale: &[f32], shift: &[f32]) -> Vec<f64> {
    let weights = wide(scale).into_iter().zip(wide(shift));
    x.iter().zip(weights).map(|(x, (scale, shift))| x * scale + shift).collect()
}

pub(super) fn layer_norm(x: &[f64], scale: &[f32], shift: &[f32]) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64;
    let normed: Vec<f64> = x.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect();
    scale_shift(&normed, scale, shift)
}

/// x Phi(x), with the integral of the normal density from 0 to x by Simpson's rule.
pub(super) fn gelu(x: f64) -> f64 {
    let steps = 4000;
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let width = x / f64::from(steps);
    let weight = |i: i32| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * f64::from(i % 2) };
    let sum: f64 = (0..=steps).map(|i| weight(i) * density(f64::from(i) * width)).sum();
    x * (0.5 + sum * width / 3.0)
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

pub(super) fn softmax(x: &[f64]) -> Vec<f64> {
    let total: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / total).collect()
}

/// Name, shape and numbers of a tensor.
pub(super) type Owned = (String, Vec<usize>, Vec<f32>);

const LOGITS: usize = 7;
const WIDTH: usize = 18;
const INNER: usize = 36;
const BLOCKS: usize = 2;

/// A head of R2R's shape, small.
pub(super) fn r2r_graph() -> (String, Vec<Owned>) {
    let mut nodes = String::new();
    let mut tensors = Vec::new();
    let mut add = |name: &str, op: &str, from: &str, shapes: &[(&str, Vec<usize>)]| {
        nodes += &format!("[[nodes]]\nname = '{name}'\nop = '{op}'\nfrom = {from}\n");
        for (key, shape) in shapes {
            let tensor = format!("{name}.{key}");
            nodes += &format!("{key} = '{tensor}'\n");
            let count: usize = shape.iter().product();
            let size = 1.5 / (*shape.last().unwrap() as f64).sqrt();
            tensors.push((tensor, shape.clone(), numbers(31 * tensors.len() as u64, count, size)));
        }
        if op == "layer-norm" {
            nodes += "eps = 1e-5\n";
        }
    };
    let linear = |outputs, inputs| [("weight", vec![outputs, inputs]), ("bias", vec![outputs])];
    let norm = || [("weight", vec![WIDTH]), ("bias", vec![WIDTH])];
    add("logits", "linear", "'topk-logits(7)'", &linear(HIDDEN, LOGITS));
    add("all", "concat", "['hidden', 'token-embedding', 'logits']", &[]);
    add("combined", "linear", "'all'", &linear(WIDTH, 3 * HIDDEN));
    add("x0", "linear", "'combined'", &linear(WIDTH, WIDTH));
    for block in 0..BLOCKS {
        add(&format!("norm{block}"), "layer-norm", &format!("'x{block}'"), &norm());
        add(&format!("up{block}"), "linear", &format!("'norm{block}'"), &linear(INNER, WIDTH));
        add(&format!("gelu{block}"), "gelu", &format!("'up{block}'"), &[]);
        add(&format!("down{block}"), "linear", &format!("'gelu{block}'"), &linear(WIDTH, INNER));
        add(&format!("x{}", block + 1), "add", &format!("['x{block}', 'down{block}']"), &[]);
    }
    add("norm", "layer-norm", &format!("'x{BLOCKS}'"), &norm());
    add("out", "linear", "'norm'", &linear(1, WIDTH));
    add("score", "sigmoid", "'out'", &[]);
    (format!("weights = 'router.safetensors'\nhidden = {HIDDEN}\nscores = ['score']\n{nodes}"), tensors)
}

/// What that head says.
pub(super) fn r2r(tensors: &[Owned], seen: &Seen) -> f64 {
    let find = |name: String| &tensors.iter().find(|(known, ..)| *known == name).unwrap().2;
    let linear = |name: &str, x: &[f64]| {
        Matrix::new(find(format!("{name}.weight")), Some(find(format!("{name}.bias")))).times(x)
    };
    let norm =
        |name: &str, x: &[f64]| layer_norm(x, find(format!("{name}.weight")), find(format!("{name}.bias")));
    let logits = linear("logits", &seen.logits);
    let all = [&seen.hidden[..], &seen.embedding, &logits].concat();
    let mut x = linear("x0", &linear("combined", &all));
    for block in 0..BLOCKS {
        let inner = linear(&format!("up{block}"), &norm(&format!("norm{block}"), &x));
        let inner: Vec<f64> = inner.into_iter().map(gelu).collect();
        let down = linear(&format!("down{block}"), &inner);
        x.iter_mut().zip(down).for_each(|(x, down)| *x += down);
    }
    sigmoid(linear("out", &norm("norm", &x))[0])
}
