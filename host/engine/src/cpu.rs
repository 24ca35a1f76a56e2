//! Decoding on the processor: one forward pass that owns its memory, its threads and its arithmetic.
//!
//! A decode step of a small model is a few hundred operations of some microseconds, so a tensor library's allocation,
//! dispatch and thread pool cost more than the arithmetic, and its matrix products choose their blocking by the shape
//! of the batch, which changes a row's last bits with its neighbours. Here every output is one sum in a fixed order:
//! lanes and register blocks run over outputs and rows, never over inputs; attention runs over positions in their
//! order. So the number of rows, their place in the batch, how tokens were spread over steps and the number of threads
//! cannot be seen in any result, and every instruction set gives the same bits.
//!
//! From the outside in: `engine` → `decoder` → `group`, `rowwise`, `remember`, `rotation`, `attention` → `product` →
//! `matrix`, `format`, `rows`, `kv` → `simd`, `team`, `memory`. `head` runs heads on what the decoder left; `cores` is
//! what several engines share.

mod attention;
mod build;
mod cores;
mod decoder;
mod distribution;
mod engine;
mod format;
mod group;
mod head;
mod kv;
mod math;
mod matrix;
mod memory;
mod peaks;
mod product;
mod remember;
mod rotation;
mod rows;
mod rowwise;
mod simd;
mod team;

pub(crate) use build::{Read, bytes};
pub use cores::{CoreSharing, Cores};
pub(crate) use distribution::{Sums, Survey, Total, best, between};
pub use engine::{CpuEngine, KvType};
pub(crate) use head::Runner;
pub(crate) use kv::KvShape;
pub use peaks::{Peaks, measure_peaks};
pub(crate) use simd::{Level, dispatch};

use crate::config::Config;
use crate::weights::Layout;
use crate::{EngineError, LoadOptions, ModelSpec};

/// Loads a model's tensors into an engine. `spec.weight_bytes` is the sum of [`bytes`].
pub(crate) fn load(
    spec: ModelSpec,
    config: &Config,
    layout: Layout,
    options: LoadOptions,
    read: Read<'_>,
) -> Result<CpuEngine, EngineError> {
    let decoder = build::build(config, layout, spec.weight_bytes, read)?;
    let threads = options.threads;
    let team = team::Team::new(threads).map_err(|source| EngineError::Threads { threads, source })?;
    Ok(CpuEngine::new(spec, decoder, team, options))
}
