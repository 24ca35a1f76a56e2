//! Where models come from, and whether they fit: `embedded:NAME`, a path, or `hf:ORG/NAME` in the Hugging Face cache.
//!
//! `source` is what a configuration and the command line accept, `hub` which files of a hub repository a model needs,
//! `pull` brings them, `memory` says what models need and what the machine has.

mod hub;
mod memory;
mod pull;
mod source;

pub use hub::{HubError, HubFile, HubModel};
pub use memory::{MemoryError, Need, available_memory, check_memory, kv_budget};
pub use pull::{PullError, PullProgress, pull};
pub use source::{ModelSource, SourceError};
