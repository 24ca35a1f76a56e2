//! What can be wrong with the files of a head.
//!
//! Separate from the engine's errors: a head is an operator's file, and its errors name the file, the node and the tensor.

use crate::EngineError;

/// Why a head cannot be loaded, or not for this model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// A file cannot be read.
    #[error("reading {file}; a head is a graph in TOML and the safetensors file that it names")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The graph's file is not of the form of a graph.
    #[error("{file} is not the graph of a head; examples/heads/README.md describes its form")]
    Parse {
        /// The file.
        file: String,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A key of the graph has a value that cannot be followed.
    #[error("{file}: {key} {problem}")]
    Key {
        /// The graph's file.
        file: String,
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A node cannot be computed as it is written.
    #[error("{place} {problem}")]
    Node {
        /// The graph's file and the node.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A tensor is not in the weights.
    #[error("{place} names tensor {tensor}, which is not in {weights}")]
    MissingTensor {
        /// The graph's file and the node.
        place: String,
        /// The tensor.
        tensor: String,
        /// The file of the weights.
        weights: String,
    },
    /// A tensor does not fit what its node reads.
    #[error("{place} needs tensor {tensor} of shape {expected}; in {weights} it has {found:?}")]
    Shape {
        /// The graph's file and the node.
        place: String,
        /// The tensor.
        tensor: String,
        /// The file of the weights.
        weights: String,
        /// What would fit, and why.
        expected: String,
        /// Its shape.
        found: Vec<usize>,
    },
    /// The head is another model's.
    #[error("{file} is for a model of {what} {expected}; {model} has {found}")]
    Model {
        /// The graph's file.
        file: String,
        /// What differs.
        what: &'static str,
        /// As the head has it.
        expected: usize,
        /// The model.
        model: String,
        /// As the model has it.
        found: usize,
    },
    /// The weights are damaged, not finite, stored in a way that is not read, or too many for the memory.
    #[error("{file}: reading the weights in {weights}")]
    Weights {
        /// The graph's file.
        file: String,
        /// The file of the weights.
        weights: String,
        /// Which tensor, and why.
        source: Box<EngineError>,
    },
}

impl HeadError {
    /// What is wrong with a node.
    pub(super) fn node(file: &str, node: &str, problem: String) -> Self {
        Self::Node { place: place(file, node), problem }
    }
}

/// A node of a graph, for people.
pub(super) fn place(file: &str, node: &str) -> String {
    format!("{file}: node {node}")
}
