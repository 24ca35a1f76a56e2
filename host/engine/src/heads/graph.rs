//! A head's graph once names and shapes are known.
//!
//! Generic over what a matrix is: first where it lies in its file, then as an engine packs it. Values are numbered: the
//! inputs first, then the nodes, each of which reads values before it.

use crate::WeightType;
use crate::weights::Needed;

/// A graph of operations on rows of f32.
pub(crate) struct Graph<P> {
    /// The values that come from the model.
    pub(crate) inputs: Vec<Input>,
    /// Their widths.
    pub(crate) input_widths: Vec<usize>,
    /// The values that are computed, in order.
    pub(crate) nodes: Vec<Node<P>>,
    /// The values that are scores, each one number wide.
    pub(crate) scores: Vec<usize>,
}

/// One computed value.
pub(crate) struct Node<P> {
    /// The values that it is computed from.
    pub(crate) reads: Vec<usize>,
    /// Numbers in a row of it.
    pub(crate) width: usize,
    /// How.
    pub(crate) op: Op<P>,
}

/// What a head can read of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The last hidden state after the final norm, as the output matrix reads it.
    Hidden,
    /// The row of the model's input table for the token that was sampled, without any scaling of the model's.
    TokenEmbedding,
    /// So many of the largest logits, largest first, as the model gave them.
    TopLogits(usize),
    /// Of the distribution at temperature 1, in nats.
    Entropy,
}

/// The closed set of operations.
pub(crate) enum Op<P> {
    /// The values it reads, one after the other.
    Concat,
    /// A matrix and perhaps a bias.
    Linear(P),
    /// `(x - mean) / sqrt(variance + eps) * scale + shift`.
    LayerNorm {
        /// One number for each of the row.
        scale: Vec<f32>,
        /// As many.
        shift: Vec<f32>,
        /// Added to the variance.
        eps: f32,
    },
    /// `x * scale + shift`.
    ScaleShift {
        /// One number for each of the row.
        scale: Vec<f32>,
        /// As many.
        shift: Vec<f32>,
    },
    /// A function of each number.
    Map(Map),
    /// `e^x / sum e^x`.
    Softmax,
    /// The sum of the values it reads.
    Add,
    /// One number of the row.
    Pick(usize),
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    /// `x Phi(x)`, the erf form and not that with tanh.
    Gelu,
    /// `max(x, 0)`.
    Relu,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
}

/// A matrix in its file, with its bias.
pub(crate) struct Product {
    /// Its name and its shape as stored.
    pub(crate) needed: Needed,
    /// How it is stored.
    pub(crate) kind: WeightType,
    /// Its rows.
    pub(crate) outputs: usize,
    /// Its columns.
    pub(crate) inputs: usize,
    /// As long as there are outputs.
    pub(crate) bias: Option<Vec<f32>>,
}

impl Input {
    /// The input that a name in a graph means: `topk-logits(100)` has its number in it.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "hidden" => Some(Self::Hidden),
            "token-embedding" => Some(Self::TokenEmbedding),
            "entropy" => Some(Self::Entropy),
            _ => {
                let count = name.strip_prefix("topk-logits(")?.strip_suffix(')')?;
                count.parse().ok().filter(|&count| count > 0).map(Self::TopLogits)
            }
        }
    }

    /// Numbers in a row of it, for a model of this hidden width.
    pub(crate) fn width(self, hidden: usize) -> usize {
        match self {
            Self::Hidden | Self::TokenEmbedding => hidden,
            Self::TopLogits(count) => count,
            Self::Entropy => 1,
        }
    }
}

impl<P> Graph<P> {
    /// Its matrices.
    pub(crate) fn products(&self) -> impl Iterator<Item = &P> {
        self.nodes.iter().filter_map(|node| match &node.op {
            Op::Linear(product) => Some(product),
            _ => None,
        })
    }

    /// How many of the largest logits it reads.
    pub(crate) fn logits(&self) -> usize {
        let count = |input: &Input| if let Input::TopLogits(count) = input { *count } else { 0 };
        self.inputs.iter().map(count).max().unwrap_or(0)
    }

    /// The same graph of matrices of another kind.
    pub(crate) fn try_map<Q, E>(self, mut map: impl FnMut(P) -> Result<Q, E>) -> Result<Graph<Q>, E> {
        let Self { inputs, input_widths, nodes, scores } = self;
        let node = |Node { reads, width, op }| {
            let op = match op {
                Op::Linear(product) => Op::Linear(map(product)?),
                Op::Concat => Op::Concat,
                Op::LayerNorm { scale, shift, eps } => Op::LayerNorm { scale, shift, eps },
                Op::ScaleShift { scale, shift } => Op::ScaleShift { scale, shift },
                Op::Map(function) => Op::Map(function),
                Op::Softmax => Op::Softmax,
                Op::Add => Op::Add,
                Op::Pick(index) => Op::Pick(index),
            };
            Ok(Node { reads, width, op })
        };
        let nodes = nodes.into_iter().map(node).collect::<Result<_, E>>()?;
        Ok(Graph { inputs, input_widths, nodes, scores })
    }
}

impl Graph<Product> {
    /// Weights that are in no matrix: biases, norms, scales.
    pub(crate) fn vector_parameters(&self) -> u64 {
        let of = |node: &Node<Product>| match &node.op {
            Op::Linear(product) => product.bias.as_ref().map_or(0, Vec::len),
            Op::LayerNorm { scale, shift, .. } | Op::ScaleShift { scale, shift } => scale.len() + shift.len(),
            _ => 0,
        };
        self.nodes.iter().map(|node| of(node) as u64).sum()
    }
}
