//! Heads: small trained networks that score a token as soon as it is sampled.
//!
//! A head is what routers of the R2R or CITER kind are: it reads what the model's last step left behind (the last hidden
//! state, the sampled token's embedding, the largest logits, the entropy) and gives numbers, by which a policy decides.
//! The engine runs it and not the policy: what it reads is large and where the engine is, and all draws of a step go
//! through its weights together.
//!
//! On disk a head is a small graph in TOML beside the safetensors file that it names; `examples/heads/README.md` is the
//! reference of the form. Loading runs no code from the files: the operations are a closed set, and every shape is
//! checked against the model first.
//!
//! What it costs: two floating-point operations for each weight of its matrices and token ([`Head::flops`]), and per step
//! one reading of the weights. R2R's head (56 million weights) takes 0.11 GFLOP a token, about 9 % of a model of 0.6
//! billion weights and 3.6 % of one of 1.5 billion; CITER's for a width of 1,536 (9.4 million) takes 0.02 GFLOP; a row
//! beside the model's own output matrix, as Co-LLM has it, takes 3 kFLOP. `examples/head_cost.rs` measures it.
//!
//! In the order of loading: `written` (the TOML), `tensors`, `resolve` (names and shapes), `graph` (what comes of it).
//! What runs it is the engine's: `cpu::head`.

mod error;
mod graph;
mod resolve;
mod tensors;
#[cfg(test)]
pub(crate) mod tests;
mod written;

use std::io;
use std::path::Path;

pub use error::HeadError;
pub(crate) use graph::{Graph, Input, Map, Node, Op, Product};

use crate::cpu::Runner;
use crate::{EngineError, ModelFiles, ModelSpec};
use resolve::resolve;
use tensors::Tensors;
use written::Written;

/// A head with its weights, ready to be attached to the engine of the model that it was loaded for.
pub struct Head {
    name: String,
    /// The graph's file, for errors.
    file: String,
    scores: Vec<String>,
    /// Width of the hidden state and number of logits of the model.
    fits: [usize; 2],
    parameters: u64,
    flops: u64,
    runner: Runner,
}

impl Head {
    /// Loads a head for a model: the graph at `path`, and the weights that it names from the file beside it. Weights stay
    /// as precise as they are stored (F32, F16 or BF16); sums are in f32.
    ///
    /// # Errors
    /// [`HeadError`], naming the file, the node and the tensor, with the shape that was expected and the one found.
    pub fn load(path: &Path, model: &ModelSpec) -> Result<Self, HeadError> {
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let graph = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Self::load_from(&ModelFiles::Directory(folder), &graph, model)
    }

    /// As [`Head::load`], from files that may be in the binary: `graph` is the name of one of them.
    ///
    /// # Errors
    /// As [`Head::load`].
    pub fn load_from(files: &ModelFiles, graph: &str, model: &ModelSpec) -> Result<Self, HeadError> {
        let file = files.shown(graph);
        let unreadable = |source| HeadError::Read { file: file.clone(), source };
        let bytes = files.bytes(graph).map_err(unreadable)?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let written = Written::parse(&file, text)?;
        let mut tensors = Tensors::open(files, &file, &written.weights)?;
        let resolved = resolve(&written, model, &mut tensors)?;
        let weights = |product: &Product| product.needed.parameters();
        let matrices: u64 = resolved.products().map(weights).sum();
        let parameters = matrices + resolved.vector_parameters();
        let runner = Runner::pack(resolved, &mut |needed| tensors.read(needed))
            .map_err(|source| tensors.unreadable(source))?;
        Ok(Self {
            name: graph.strip_suffix(".toml").unwrap_or(graph).to_owned(),
            file,
            scores: written.scores,
            fits: [model.hidden, model.vocabulary],
            parameters,
            flops: 2 * matrices,
            runner,
        })
    }

    /// The graph's file name without its extension.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its scores are called, in their order.
    #[must_use]
    pub fn scores(&self) -> &[String] {
        &self.scores
    }

    /// Weights, biases included.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.parameters
    }

    /// Floating-point operations of its products for one token.
    #[must_use]
    pub fn flops(&self) -> u64 {
        self.flops
    }

    /// Checks that it was loaded for a model of this shape.
    pub(crate) fn check(&self, model: &ModelSpec) -> Result<(), EngineError> {
        let shape = [("hidden width", model.hidden), ("vocabulary", model.vocabulary)];
        for (expected, (what, found)) in self.fits.into_iter().zip(shape) {
            if expected != found {
                let (file, model) = (self.file.clone(), model.name.clone());
                let source = HeadError::Model { file, what, expected, model, found };
                return Err(EngineError::Head { source: Box::new(source) });
            }
        }
        Ok(())
    }

    /// What runs it.
    pub(crate) fn runner(&mut self) -> &mut Runner {
        &mut self.runner
    }

    /// How many of the largest logits it reads.
    pub(crate) fn logits(&self) -> usize {
        self.runner.logits()
    }
}
