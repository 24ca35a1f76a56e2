//! Models that decode: everything between a checkpoint on disk and a sampled token.
//!
//! A server holds one [`Engine`] per model and calls [`Engine::step`] with a ragged batch: rows of several journeys,
//! each with the tokens it has not fed yet. The concrete engine here is [`CandleEngine`]; [`load`] makes it from a
//! Hugging Face checkpoint, together with the model's [`Tokenizer`]. Nothing here knows about routing, policies,
//! clients or time.
//!
//! A row's result is bit-identical in any batch and in any chunking of its tokens; see `kernels` for why.
//!
//! Reading order follows a model and then a step: `files` → `config` → `checkpoint` → `load` → `tokenizer` →
//! `candle` (the engine) → `weights`, `decoder` → `kernels`, `kv` → `signals`, `sampler`.

mod candle;
mod checkpoint;
mod config;
mod decoder;
mod error;
mod files;
mod kernels;
mod kv;
mod load;
mod sampler;
mod signals;
mod spec;
mod step;
mod tokenizer;
mod weights;

pub use candle::CandleEngine;
pub use error::EngineError;
pub use files::ModelFiles;
pub use load::{Loaded, Progress, inspect, load};
pub use spec::{ModelSpec, WeightType};
pub use step::{Engine, KvUsage, Row};
pub use tokenizer::{ChatMessage, Fingerprint, Mismatch, Tokenizer, compare_tokenizers};
