//! From a checkpoint's files to an engine and its tokenizer.
//!
//! The order is the order of cost: config, tensor headers, tokenizer, and the weights only when all of them fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::config::{CONFIG, Config};
use crate::decoder::Decoder;
use crate::kv::KvShape;
use crate::weights::{self, Needed};
use crate::{CandleEngine, EngineError, ModelFiles, ModelSpec, Tokenizer, WeightType};

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

/// Loads a model under a name. Weights become f32 in memory; `progress` is called before the first tensor and after
/// each.
///
/// # Errors
/// [`EngineError`] of the class *the model's files*, naming the file and the key or tensor.
pub fn load(
    name: &str,
    files: &ModelFiles,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, EngineError> {
    let config = Config::read(files)?;
    let mut checkpoint = Checkpoint::open(files)?;
    let (spec, total_bytes) = survey(name, &config, &checkpoint)?;
    let tokenizer = Tokenizer::load(files)?;
    let ids = tokenizer.vocabulary().len();
    if ids > config.vocabulary {
        let problem = format!("is {}, but tokenizer.json has {ids} token ids", config.vocabulary);
        return Err(EngineError::Config { file: CONFIG.to_owned(), key: "vocab_size".to_owned(), problem });
    }
    let mut done_bytes = 0;
    progress(Progress { done_bytes, total_bytes });
    let decoder = Decoder::build(&config, &mut |Needed { name, shape }| {
        let weights = checkpoint.read(name, shape)?;
        done_bytes += checkpoint.check(name, shape)?.1;
        progress(Progress { done_bytes, total_bytes });
        Ok(weights)
    })?;
    Ok(Loaded { engine: CandleEngine::new(spec, decoder), tokenizer: Arc::new(tokenizer) })
}

/// Reads the config and the headers of the tensors, and checks that they fit; no weights are read.
///
/// # Errors
/// As [`load`], apart from what only reading weights and the tokenizer can find.
pub fn inspect(files: &ModelFiles) -> Result<ModelSpec, EngineError> {
    let config = Config::read(files)?;
    let checkpoint = Checkpoint::open(files)?;
    Ok(survey(&files.name(), &config, &checkpoint)?.0)
}

/// Checks every tensor of the model; returns its spec and the bytes of its weights in the checkpoint.
fn survey(name: &str, config: &Config, checkpoint: &Checkpoint) -> Result<(ModelSpec, u64), EngineError> {
    let mut stored: BTreeMap<WeightType, u64> = BTreeMap::new();
    let (mut parameters, mut weight_bytes) = (0, 0);
    for tensor in weights::all(config) {
        let (dtype, bytes) = checkpoint.check(&tensor.name, &tensor.shape)?;
        *stored.entry(dtype).or_default() += bytes;
        parameters += tensor.parameters();
        weight_bytes += tensor.bytes();
    }
    let most = stored.iter().max_by_key(|(_, bytes)| **bytes);
    let kv = KvShape { layers: config.layers, kv_heads: config.kv_heads, head_dim: config.head_dim };
    let spec = ModelSpec {
        name: name.to_owned(),
        architecture: config.architecture.clone(),
        vocabulary: config.vocabulary,
        context: config.context,
        hidden: config.hidden,
        intermediate: config.intermediate,
        layers: config.layers,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        parameters,
        weight_bytes,
        kv_bytes_per_token: kv.bytes_per_token(),
        eos: config.eos.clone(),
        dtype: most.map_or(WeightType::F32, |(dtype, _)| *dtype),
    };
    Ok((spec, stored.values().sum()))
}
