//! From a checkpoint's files to an engine and its tokenizer.
//!
//! The order is the order of cost: tensor headers, config, tokenizer, and the weights only when all of them fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::config::{CONFIG, Config};
use crate::cpu::{self, Read};
use crate::weights::{self, Layout, Needed};
use crate::{CpuEngine, Device, Engine, EngineError, KvType, ModelFiles, ModelSpec, Tokenizer, WeightType};

/// A model that is ready to be stepped.
pub struct Loaded<E = CpuEngine> {
    /// The model.
    pub engine: E,
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

/// How a model is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Threads that compute, at least 1.
    pub threads: usize,
    /// How keys and values are kept.
    pub kv: KvType,
    /// Most bytes that keys and values may take; allocated as they are needed, on a GPU at once.
    pub kv_bytes: u64,
    /// Whether journeys that begin alike share the KV of their beginning.
    pub share_prefixes: bool,
}

impl Default for LoadOptions {
    /// One thread, 1 GiB of KV, prefixes shared.
    fn default() -> Self {
        Self { threads: 1, kv: KvType::Auto, kv_bytes: 1 << 30, share_prefixes: true }
    }
}

/// Loads a model under a name, to run on the processor. Weights stay as precise as they are stored; `progress` is called
/// before the first tensor and after each.
///
/// # Errors
/// [`EngineError`] of the class *the model's files*, naming the file and the key or tensor.
pub fn load(
    name: &str,
    files: &ModelFiles,
    options: LoadOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, EngineError> {
    load_with(name, files, progress, |spec, (config, layout), read| {
        cpu::load(spec, config, layout, options, read)
    })
}

/// As [`load`], to run on any device. On a GPU weights are converted to bf16, quantised ones too.
///
/// # Errors
/// As [`load`]; [`EngineError::NoCuda`] if the binary was built without, [`EngineError::Device`] if there is no such
/// device or it has too little memory.
pub fn load_on(
    device: Device,
    name: &str,
    files: &ModelFiles,
    options: LoadOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded<Box<dyn Engine>>, EngineError> {
    load_with(name, files, progress, |spec, model, read| build_on(device, spec, model, options, read))
}

/// Loads tensors into the engine of a device.
pub(crate) fn build_on(
    device: Device,
    spec: ModelSpec,
    (config, layout): (&Config, Layout),
    options: LoadOptions,
    read: Read<'_>,
) -> Result<Box<dyn Engine>, EngineError> {
    match device.check_built()? {
        #[cfg(feature = "cuda")]
        Device::Cuda(ordinal) => {
            let place = crate::gpu::Place::cuda(ordinal)?;
            Ok(Box::new(crate::gpu::load(spec, (config, layout), options, place, read)?))
        }
        _ => Ok(Box::new(cpu::load(spec, config, layout, options, read)?)),
    }
}

/// Loads the tokenizer, and the tensors as `build` wants them.
pub(crate) fn load_with<E>(
    name: &str,
    files: &ModelFiles,
    progress: &mut dyn FnMut(Progress),
    build: impl FnOnce(ModelSpec, (&Config, Layout), Read<'_>) -> Result<E, EngineError>,
) -> Result<Loaded<E>, EngineError> {
    let mut checkpoint = Checkpoint::open(files)?;
    let config = Config::read(files, &mut checkpoint)?;
    let layout = checkpoint.layout();
    let (spec, total_bytes) = survey(name, &config, layout, |tensor| checkpoint.check(tensor))?;
    let tokenizer = Tokenizer::load(files)?;
    let ids = tokenizer.vocabulary().len();
    if ids > config.vocabulary {
        let problem = format!("is {}, but the tokenizer has {ids} token ids", config.vocabulary);
        let file = checkpoint.gguf().map_or(CONFIG, |metadata| metadata.file()).to_owned();
        return Err(EngineError::Config { file, key: "vocab_size".to_owned(), problem });
    }
    let mut done_bytes = 0;
    progress(Progress { done_bytes, total_bytes });
    let engine = build(spec, (&config, layout), &mut |needed| {
        let raw = checkpoint.read(needed)?;
        done_bytes += raw.bytes.len() as u64;
        progress(Progress { done_bytes, total_bytes });
        Ok(raw)
    })?;
    Ok(Loaded { engine, tokenizer: Arc::new(tokenizer) })
}

/// Reads the config and the headers of the tensors, and checks that they fit; no weights are read.
///
/// # Errors
/// As [`load`], apart from what only reading weights and the tokenizer can find.
pub fn inspect(files: &ModelFiles) -> Result<ModelSpec, EngineError> {
    let mut checkpoint = Checkpoint::open(files)?;
    let config = Config::read(files, &mut checkpoint)?;
    let layout = checkpoint.layout();
    Ok(survey(&files.name(), &config, layout, |tensor| checkpoint.check(tensor))?.0)
}

/// Checks every tensor of the model, by how it is stored and its bytes; returns the model's spec and the bytes of its
/// weights in the checkpoint.
pub(crate) fn survey<C>(
    name: &str,
    config: &Config,
    layout: Layout,
    check: C,
) -> Result<(ModelSpec, u64), EngineError>
where
    C: Fn(&Needed) -> Result<(WeightType, u64), EngineError>,
{
    let mut stored: BTreeMap<WeightType, u64> = BTreeMap::new();
    let (mut parameters, mut weight_bytes) = (0, 0);
    for tensor in weights::all(config, layout) {
        let (dtype, bytes) = check(&tensor)?;
        *stored.entry(dtype).or_default() += bytes;
        parameters += tensor.parameters();
        weight_bytes += cpu::bytes(&tensor, dtype);
    }
    let most = stored.iter().max_by_key(|(_, bytes)| **bytes);
    let dtype = most.map_or(WeightType::F32, |(dtype, _)| *dtype);
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
        eos: config.eos.clone(),
        dtype,
    };
    Ok((spec, stored.values().sum()))
}
