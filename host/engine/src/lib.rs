//! Models that decode: everything between a checkpoint on disk and a sampled token.
//!
//! A server holds one [`Engine`] per model and calls [`Engine::step`] with a ragged batch: rows of several journeys,
//! each with the tokens it has not fed yet. [`load`] makes the processor's engine, [`CpuEngine`], from a checkpoint, together
//! with the model's [`Tokenizer`]; [`load_on`] makes that of any [`Device`]. Nothing here knows about routing, policies,
//! clients or time.
//!
//! On the processor a row's result is bit-identical in any batch and in any chunking of its tokens; see `cpu` for why. On
//! a GPU (feature `cuda`) it is the same up to rounding; see `gpu`.
//!
//! Reading order follows a model and then a step: `files` → `gguf` → `config` → `encoding` → `checkpoint` →
//! `weights`, `layer` → `load` → `tokenizer` → `step` → `batch`, `paging` → `cpu` or
//! `gpu` (the engines) → `signals`, `sampler` → `heads`. Before an engine stands `interpreter`, for journeys in another
//! model's tokens. Beside it stand `device`, `sim` for steps that only take time, and `random` for models without a
//! checkpoint.

mod batch;
mod checkpoint;
mod config;
mod cpu;
mod device;
mod encoding;
mod error;
mod files;
mod gguf;
#[cfg(any(test, feature = "cuda"))]
mod gpu;
mod heads;
mod interpreter;
mod layer;
mod load;
#[cfg(test)]
mod oracle;
mod paging;
mod random;
mod sampler;
mod signals;
mod sim;
mod spec;
mod step;
mod tokenizer;
mod weights;

pub use cpu::{CoreSharing, Cores, CpuEngine, KvType, Peaks, measure_peaks};
pub use device::{Device, NoDevice};
pub use encoding::WeightType;
pub use error::EngineError;
pub use files::ModelFiles;
pub use heads::{Head, HeadError};
pub use interpreter::{Interpreter, Translation};
pub use load::{LoadOptions, Loaded, Progress, inspect, load, load_on};
pub use random::{NoShape, RandomShape, random};
pub use sim::{SimDevice, SimSettings, simulate};
pub use spec::ModelSpec;
pub use step::{Engine, KvUsage, Profile, Row};
pub use tokenizer::{
    CallForm, Chat, ChatMessage, Fingerprint, Lexicon, Mismatch, Tokenizer, TokenizerInfo, compare_tokenizers,
};
