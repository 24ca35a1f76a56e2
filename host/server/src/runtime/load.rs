//! From a configuration to loaded models and checked routes.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use engine::{
    CoreSharing, Cores, Device, Engine, EngineError, HeadError, Interpreter, LoadOptions, Loaded, Mismatch,
    ModelFiles, SimDevice, Tokenizer,
};
use policy::{ModelInfo, PolicyError};
use scheduler::conductor::Bounds;

use super::catalog::{Catalog, Deciding, Model, ModelIx, Route};
use super::heads;
use super::pulled::PulledError;
use super::split::SplitError;
use super::subserver::Powered;
use crate::config::{self, Config};
use crate::models::{MemoryError, Need, SourceError, available_memory, check_memory, kv_budget};

/// Who is told how far loading has come.
pub trait LoadProgress {
    /// Bytes of a model's weights read so far.
    fn model(&mut self, name: &str, done_bytes: u64, total_bytes: u64);
    /// A route and its policy are ready.
    fn route(&mut self, name: &str);
}

/// Nobody is told.
impl LoadProgress for () {
    fn model(&mut self, _name: &str, _done_bytes: u64, _total_bytes: u64) {}
    fn route(&mut self, _name: &str) {}
}

/// Why the server cannot start. The message names the model, route or policy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A model's files cannot be found.
    #[error("models.{model:?}.files: {source}")]
    Source {
        /// Model in the configuration.
        model: String,
        /// Why.
        source: Box<SourceError>,
    },
    /// The models do not fit into memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A model does not load.
    #[error("models.{model:?}: {source}")]
    Model {
        /// Model in the configuration.
        model: String,
        /// Why.
        source: Box<EngineError>,
    },
    /// Two models of a route do not speak the same tokens.
    #[error(
        "routes.{route:?}: {first:?} and {second:?} have different tokenizers: {mismatch}. Take models of one tokenizer, or \
         set `translate = true` for the route"
    )]
    Tokenizers {
        /// Route in the configuration.
        route: String,
        /// Entry model.
        first: String,
        /// The other.
        second: String,
        /// The first difference.
        mismatch: Box<Mismatch>,
    },
    /// `builtin:NAME` names nothing.
    #[error("routes.{route:?}.policy: there is no built-in policy {name:?}; there are {known}")]
    NoSuchBuiltin {
        /// Route in the configuration.
        route: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The sandbox cannot be set up.
    #[error("sandbox: {0}")]
    Sandbox(#[source] Box<PolicyError>),
    /// A policy does not load.
    #[error("routes.{route:?}.policy: {source}")]
    Policy {
        /// Route in the configuration.
        route: String,
        /// Why.
        source: Box<PolicyError>,
    },
    /// A policy does not come from its registry, or may not serve.
    #[error("{key}: {policy}: {source}")]
    Pulled {
        /// The key that names it.
        key: String,
        /// What it says.
        policy: String,
        /// Why.
        source: Box<PulledError>,
    },
    /// A policy loads but does not fit its route.
    #[error("routes.{route:?}: {problem}")]
    Unfit {
        /// Route in the configuration.
        route: String,
        /// What does not fit.
        problem: String,
    },
    /// `embedded:NAME` names no head.
    #[error("models.{model}.heads: the binary holds no head {head:?}; it holds {known}")]
    NoSuchHead {
        /// The model.
        model: String,
        /// What was asked for.
        head: String,
        /// What there is.
        known: String,
    },
    /// A head does not load.
    #[error("models.{model}.heads.{head}: {source}")]
    Head {
        /// The model.
        model: String,
        /// The head.
        head: String,
        /// Why.
        #[source]
        source: Box<HeadError>,
    },
    /// An experiment on a route does not fit it any more.
    #[error("experiments.{experiment}.{source}")]
    Split {
        /// The experiment.
        experiment: String,
        /// Why.
        #[source]
        source: SplitError,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Loads models, whenever some are added.
pub(super) struct Loader {
    /// What all models on the processor compute with. Equal parts are of the number of models at the start.
    cores: Arc<Cores>,
    sharing: CoreSharing,
    simulated: BTreeMap<u16, Arc<SimDevice>>,
}

/// A model whose subserver has not begun.
pub(super) struct Fresh {
    pub(super) written: config::Model,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) heads: BTreeMap<String, Range<usize>>,
    pub(super) powered: Powered,
}

impl Loader {
    pub(super) fn new(config: &Config) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let sharing = config.server.cores;
        let cores = Arc::new(Cores::new(threads, sharing, config.models.len()));
        Self { cores, sharing, simulated: BTreeMap::new() }
    }

    /// Loads these models; those that are there already have their memory.
    ///
    /// # Errors
    /// [`StartError`].
    pub(super) fn load(
        &mut self,
        models: &BTreeMap<&String, &config::Model>,
        server: &config::Server,
        progress: &mut dyn LoadProgress,
    ) -> Result<Vec<Fresh>, StartError> {
        let found = find(models, server)?;
        found.into_iter().map(|found| self.load_one(found, progress)).collect()
    }

    fn load_one(&mut self, found: Found<'_>, progress: &mut dyn LoadProgress) -> Result<Fresh, StartError> {
        let Found { name, model, files, kv_bytes } = found;
        let options = LoadOptions { kv_bytes, ..options(model, &self.cores) };
        let loaded = load(name, (model, &files), options, &mut self.simulated, progress);
        let Loaded { mut engine, tokenizer } = loaded
            .map_err(|source| StartError::Model { model: name.to_owned(), source: Box::new(source) })?;
        for note in tokenizer.template_notes() {
            tracing::info!(model = name, note, "of the chat template");
        }
        // Threads that were asked for by number are not cut to an equal part.
        if model.threads.is_none() || self.sharing != CoreSharing::Split {
            engine.share_cores(&self.cores);
        }
        let heads = heads::attach(name, model, &mut *engine)?;
        let on_cores = model.sim.is_none() && model.device == Device::Cpu;
        let (name, device, meter) = (name.to_owned(), device(model), Arc::default());
        let engine = Interpreter::new(engine);
        let powered = Powered { name, engine, device, on_cores, limits: model.limits, meter };
        Ok(Fresh { written: model.clone(), tokenizer, heads, powered })
    }
}

/// A model's files, and its part of the memory.
struct Found<'a> {
    name: &'a str,
    model: &'a config::Model,
    files: ModelFiles,
    /// Most bytes of keys and values.
    kv_bytes: u64,
}

/// Finds the files of all models, shares memory among them, and refuses models that cannot all be in it before it is spent
/// on one of them.
fn find<'a>(
    models: &BTreeMap<&'a String, &'a config::Model>,
    server: &config::Server,
) -> Result<Vec<Found<'a>>, StartError> {
    let mut found = Vec::with_capacity(models.len());
    let mut needs = Vec::with_capacity(models.len());
    let journeys = server.journeys_max.get() as u64;
    for (&name, &model) in models {
        let files = model
            .source
            .files()
            .map_err(|source| StartError::Source { model: name.clone(), source: Box::new(source) })?;
        let spec = engine::inspect(&files)
            .map_err(|source| StartError::Model { model: name.clone(), source: Box::new(source) })?;
        let need = Need::new(name, &spec, model.kv, (model.kv_bytes(), journeys));
        // A GPU has memory of its own, and says when it is full; what a simulated model holds is only counted.
        let kv_bytes = match (&model.sim, model.device) {
            (Some(_), _) => need.named.unwrap_or(need.most),
            (None, Device::Cuda(_)) => need.named.unwrap_or(GPU_KV_BYTES),
            (None, Device::Cpu) => {
                needs.push((found.len(), need));
                0
            }
        };
        found.push(Found { name, model, files, kv_bytes });
    }
    let available = available_memory();
    let (places, needs): (Vec<usize>, Vec<Need>) = needs.into_iter().unzip();
    if server.memory_check
        && let Some(available) = available
    {
        check_memory(&needs, available)?;
    }
    for (place, kv_bytes) in places.into_iter().zip(kv_budget(&needs, available.unwrap_or(UNKNOWN_BYTES))) {
        found[place].kv_bytes = kv_bytes;
    }
    Ok(found)
}

/// Loads one model, or makes one that only takes time.
fn load(
    name: &str,
    (model, files): (&config::Model, &ModelFiles),
    options: LoadOptions,
    simulated: &mut BTreeMap<u16, Arc<SimDevice>>,
    progress: &mut dyn LoadProgress,
) -> Result<Loaded<Box<dyn Engine>>, EngineError> {
    if let Some(sim) = &model.sim {
        let device = simulated.entry(sim.device).or_default();
        return engine::simulate((name, files), options, sim.settings(), device);
    }
    let heard = &mut |read: engine::Progress| progress.model(name, read.done_bytes, read.total_bytes);
    engine::load_on(model.device, name, files, options, heard)
}

/// Devices by number, each kind in its own third: the processor's cores are one, each GPU is one, each simulated one.
fn device(model: &config::Model) -> usize {
    match (&model.sim, model.device) {
        (Some(sim), _) => 3 * usize::from(sim.device) + 2,
        (None, Device::Cuda(index)) => 3 * index + 1,
        (None, Device::Cpu) => 0,
    }
}

fn options(model: &config::Model, cores: &Cores) -> LoadOptions {
    LoadOptions {
        threads: model.threads.map_or_else(|| cores.threads_max(), NonZeroUsize::get),
        kv: model.kv,
        ..LoadOptions::default()
    }
}

/// A route of these models.
pub(super) fn assemble(
    name: &str,
    catalog: &Catalog,
    roles: Vec<ModelIx>,
    fallback: Option<journey::Role>,
    deciding: Deciding,
) -> Route {
    let by_role: Vec<Arc<Model>> = roles.iter().map(|role| Arc::clone(&catalog.models[role])).collect();
    warn_of_templates(name, &by_role);
    let info = |model: &Arc<Model>| ModelInfo {
        name: model.name.clone(),
        vocabulary: model.spec.vocabulary as u32,
        context: model.spec.context as u32,
    };
    Route {
        name: name.to_owned(),
        model_names: by_role.iter().map(|model| model.name.clone()).collect(),
        fallback,
        context: by_role.iter().map(|model| model.spec.context).min().unwrap_or(0),
        eos: ends(name, &by_role).into(),
        tokenizer: Arc::clone(&by_role[0].tokenizer),
        lexicons: vec![None; by_role.len()],
        heads: by_role.iter().map(|model| model.heads.clone()).collect(),
        model_infos: by_role.iter().map(info).collect(),
        models: roles,
        by_role,
        bounds: Bounds::default(),
        deciding,
        written: None,
    }
}

/// Tokens that end an answer: those that any of its models ends with, as a client sees one answer whoever made its last token.
fn ends(route: &str, by_role: &[Arc<Model>]) -> Vec<u32> {
    let mut all: Vec<u32> = Vec::new();
    for Model { name, spec, .. } in by_role.iter().map(|model| &**model) {
        let others = all.iter().any(|token| !spec.eos.contains(token));
        let more: Vec<u32> = spec.eos.iter().copied().filter(|token| !all.contains(token)).collect();
        if !all.is_empty() && (others || !more.is_empty()) {
            tracing::warn!(route, model = name, ends = ?spec.eos, others = ?all, "models end with different tokens; any of them ends an answer");
        }
        all.extend(more);
    }
    all
}

/// The chat templates of a route's models need not be the same; the entry model's is used for those that read its tokens.
fn warn_of_templates(route: &str, by_role: &[Arc<Model>]) {
    let entry = &by_role[0];
    for other in by_role[1..].iter().filter(|other| !entry.tokenizer.has_template_of(&other.tokenizer)) {
        let (entry, other) = (&entry.name, &other.name);
        tracing::warn!(route, entry, other, "the chat templates differ; the entry model's is used for both");
    }
}

/// KV on a GPU where the configuration does not say it.
const GPU_KV_BYTES: u64 = 1 << 30;

/// Taken as available where nobody can say what is.
const UNKNOWN_BYTES: u64 = 4 << 30;
