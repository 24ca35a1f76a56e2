//! Models that decode: everything between a checkpoint on disk and a sampled token.
//!
//! A server holds one [`Engine`] per model and calls [`Engine::step`] with a ragged batch: rows of several journeys,
//! each with the tokens it has not fed yet. The concrete engine here is [`CpuEngine`]; [`load`] makes it from a
//! Hugging Face checkpoint, together with the model's [`Tokenizer`]. Nothing here knows about routing, policies,
//! clients or time.
//!
//! A row's result is bit-identical in any batch and in any chunking of its tokens; see `cpu` for why.
//!
//! Reading order follows a model and then a step: `files` → `gguf` → `config` → `encoding` → `checkpoint` →
//! `weights` → `load` → `tokenizer` → `step` → `batch`, `paging` → `cpu` (the engine) → `signals`, `sampler`.

mod batch;
mod checkpoint;
mod config;
mod cpu;
mod encoding;
mod error;
mod files;
mod gguf;
mod load;
#[cfg(test)]
mod oracle;
mod paging;
mod sampler;
mod signals;
mod spec;
mod step;
mod tokenizer;
mod weights;

pub use cpu::{CoreSharing, Cores, CpuEngine, KvType, Peaks, measure_peaks};
pub use encoding::WeightType;
pub use error::EngineError;
pub use files::ModelFiles;
pub use load::{LoadOptions, Loaded, Progress, inspect, load};
pub use spec::ModelSpec;
pub use step::{Engine, KvUsage, Profile, Row};
pub use tokenizer::{ChatMessage, Fingerprint, Mismatch, Tokenizer, compare_tokenizers};
