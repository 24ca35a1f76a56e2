//! From a checkpoint's files to an engine and its tokenizer.

use std::sync::Arc;

use crate::{CandleEngine, EngineError, ModelFiles, ModelSpec, Tokenizer};

/// A model that is ready to be stepped.
pub struct Loaded {
    /// The model.
    pub engine: CandleEngine,
    /// Its tokenizer, for any thread.
    pub tokenizer: Arc<Tokenizer>,
}

/// How far loading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of weights read from the checkpoint so far.
    pub done_bytes: u64,
    /// Bytes of weights to read.
    pub total_bytes: u64,
}

/// Loads a model under a name. Weights become f32 in memory; `progress` is called after each tensor.
///
/// # Errors
/// [`EngineError`] of the class *the model's files*, naming the file and the key or tensor.
pub fn load(
    name: &str,
    files: &ModelFiles,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, EngineError> {
    progress(Progress { done_bytes: 0, total_bytes: 0 });
    let mut spec = inspect(files)?;
    name.clone_into(&mut spec.name);
    let tokenizer = Arc::new(Tokenizer::load(files)?);
    Ok(Loaded { engine: CandleEngine::new(spec), tokenizer })
}

/// Reads the config and the headers of the tensors, and checks that they fit; no weights are read.
///
/// # Errors
/// As [`load`], apart from what only reading weights and the tokenizer can find.
pub fn inspect(files: &ModelFiles) -> Result<ModelSpec, EngineError> {
    Err(files.missing("config.json", "config.json"))
}
