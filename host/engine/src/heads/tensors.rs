//! The weights of a head in their file.
//!
//! Shapes are checked by the header, before a byte of weights is read.

use super::error::place;
use super::{HeadError, Product};
use crate::checkpoint::{Checkpoint, Raw};
use crate::weights::Needed;
use crate::{EngineError, ModelFiles};

/// An open file of weights.
pub(super) struct Tensors {
    /// The graph's file, for errors.
    graph: String,
    /// The file of the weights.
    file: String,
    checkpoint: Checkpoint,
}

impl Tensors {
    /// Opens the file `name`, one of `files` as is the graph that is shown as `graph`.
    pub(super) fn open(files: &ModelFiles, graph: &str, name: &str) -> Result<Self, HeadError> {
        let graph = graph.to_owned();
        if name.is_empty() || name.contains(['/', '\\']) {
            let problem = format!("is {name:?}; it is the name of a file beside this one");
            return Err(HeadError::Key { file: graph, key: "weights", problem });
        }
        let file = files.shown(name);
        let opened = files.open(name).and_then(|blob| blob.map(Checkpoint::open_safetensors).transpose());
        match opened {
            Ok(Some(checkpoint)) => Ok(Self { graph, file, checkpoint }),
            Ok(None) => Err(HeadError::Read { file, source: std::io::ErrorKind::NotFound.into() }),
            Err(source) => Err(HeadError::Weights { file: graph, weights: file, source: Box::new(source) }),
        }
    }

    /// Checks the matrix of a linear node that reads `inputs` numbers, of a source that is called `source`.
    pub(super) fn product(
        &mut self,
        node: &str,
        (weight, bias): (&str, Option<&str>),
        (inputs, source): (usize, &str),
    ) -> Result<Product, HeadError> {
        let found = self.shape(node, weight)?;
        // One row may be stored as a vector.
        let outputs = match found {
            [width] if *width == inputs => 1,
            [outputs, width] if *width == inputs && *outputs > 0 => *outputs,
            _ => {
                let expected = format!("[any, {inputs}], as {source} is {inputs} wide");
                return Err(self.misshapen(node, weight, expected));
            }
        };
        let needed = Needed::new(weight.to_owned(), found);
        let (kind, _) = self.checkpoint.check(&needed).map_err(|source| self.unreadable(source))?;
        let bias = bias.map(|bias| self.vector(node, bias, outputs)).transpose()?;
        Ok(Product { needed, kind, outputs, inputs, bias })
    }

    /// Reads a vector of `width` finite numbers.
    pub(super) fn vector(&mut self, node: &str, tensor: &str, width: usize) -> Result<Vec<f32>, HeadError> {
        let found = self.shape(node, tensor)?;
        if found != [width] {
            return Err(self.misshapen(node, tensor, format!("[{width}]")));
        }
        let needed = Needed::new(tensor.to_owned(), &[width]);
        let read = self.checkpoint.read(&needed).and_then(|raw| raw.finite_floats(&needed));
        read.map_err(|source| self.unreadable(source))
    }

    /// The rows of a matrix that was checked.
    pub(super) fn read(&mut self, needed: &Needed) -> Result<Raw, EngineError> {
        self.checkpoint.read(needed)
    }

    /// The error that says what is wrong with the file itself.
    pub(super) fn unreadable(&self, source: EngineError) -> HeadError {
        let (file, weights) = (self.graph.clone(), self.file.clone());
        HeadError::Weights { file, weights, source: Box::new(source) }
    }

    fn shape(&self, node: &str, tensor: &str) -> Result<&[usize], HeadError> {
        self.checkpoint.shape(tensor).ok_or_else(|| HeadError::MissingTensor {
            place: place(&self.graph, node),
            tensor: tensor.to_owned(),
            weights: self.file.clone(),
        })
    }

    fn misshapen(&self, node: &str, tensor: &str, expected: String) -> HeadError {
        let found = self.checkpoint.shape(tensor).unwrap_or_default().to_vec();
        HeadError::Shape {
            place: place(&self.graph, node),
            tensor: tensor.to_owned(),
            weights: self.file.clone(),
            expected,
            found,
        }
    }
}
