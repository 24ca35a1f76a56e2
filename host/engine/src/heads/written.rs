//! The graph of a head as its file says it.
//!
//! Only the form is checked here: which keys there are and of what type. What names mean is for `resolve`.

use serde::Deserialize;

use super::HeadError;

/// A whole file.
#[derive(Debug)]
pub(super) struct Written {
    /// Where it was read from.
    pub(super) file: String,
    /// The safetensors file, beside this one.
    pub(super) weights: String,
    /// Width of the hidden state that the head was trained on.
    pub(super) hidden: Option<usize>,
    /// The nodes that are scores.
    pub(super) scores: Vec<String>,
    /// In the order of computing.
    pub(super) nodes: Vec<WrittenNode>,
}

/// One operation.
#[derive(Debug)]
pub(super) struct WrittenNode {
    /// What later nodes call it.
    pub(super) name: String,
    /// What it does.
    pub(super) op: WrittenOp,
}

/// An operation and what it reads.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum WrittenOp {
    /// One after the other.
    Concat { from: Vec<String> },
    /// `weight x + bias`.
    Linear { from: String, weight: String, bias: Option<String> },
    /// `(x - mean) / sqrt(variance + eps) * weight + bias`.
    LayerNorm { from: String, weight: String, bias: Option<String>, eps: f32 },
    /// `x * scale + shift`: a folded batch norm.
    ScaleShift { from: String, scale: String, shift: String },
    /// `x Phi(x)`.
    Gelu { from: String },
    /// `max(x, 0)`.
    Relu { from: String },
    /// `1 / (1 + e^-x)`.
    Sigmoid { from: String },
    /// `e^x / sum e^x`.
    Softmax { from: String },
    /// The sum of several of one width.
    Add { from: Vec<String> },
    /// One number of several.
    Pick { from: String, index: usize },
}

impl WrittenOp {
    /// The names that it reads.
    pub(super) fn reads(&self) -> &[String] {
        match self {
            Self::Concat { from } | Self::Add { from } => from,
            Self::Linear { from, .. }
            | Self::LayerNorm { from, .. }
            | Self::ScaleShift { from, .. }
            | Self::Gelu { from }
            | Self::Relu { from }
            | Self::Sigmoid { from }
            | Self::Softmax { from }
            | Self::Pick { from, .. } => std::slice::from_ref(from),
        }
    }
}

impl Written {
    /// Parses the text of `file`.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, HeadError> {
        let whole: Whole = toml::from_str(text)
            .map_err(|source| HeadError::Parse { file: file.to_owned(), source: Box::new(source) })?;
        let nodes = whole.nodes.into_iter().enumerate().map(|(index, table)| node(file, index, table));
        Ok(Self {
            file: file.to_owned(),
            weights: whole.weights,
            hidden: whole.hidden,
            scores: whole.scores,
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }
}

/// The file but for its nodes, which are parsed one by one so that an error can name the node.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    weights: String,
    hidden: Option<usize>,
    scores: Vec<String>,
    nodes: Vec<toml::Table>,
}

fn node(file: &str, index: usize, mut table: toml::Table) -> Result<WrittenNode, HeadError> {
    let Some(toml::Value::String(name)) = table.remove("name") else {
        return Err(HeadError::node(file, &format!("number {}", index + 1), "has no name".to_owned()));
    };
    match table.try_into() {
        Ok(op) => Ok(WrittenNode { name, op }),
        Err(error) => Err(HeadError::node(file, &name, format!("is not an operation: {}", error.message()))),
    }
}
