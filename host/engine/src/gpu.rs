//! Decoding on a GPU: one forward pass in tensor operations, for every architecture that the processor's engine has.
//!
//! Written on candle's tensors and generic over its device, so that the tests run these very operations on the
//! processor; only how a CUDA device is opened is left to a machine that has one. Rows, KV blocks, prefixes and
//! eviction are the same book-keeping as in the other engine; here is arithmetic and storage only.
//!
//! What is computed in: bf16 on CUDA, f32 in the tests. Norms and softmax are in f32 inside, logits are f32. Weights are
//! converted to that type when they are loaded, quantised ones too: they take the memory of bf16.
//!
//! What is promised: a row's logits depend on its tokens up to rounding. The libraries under the tensors choose their
//! kernels by the shape of a batch, so the last bits of a row may differ between batches, and between one chunking of a
//! prompt and another. Where two tokens are that close, greedy decoding may take either.
//!
//! A step costs one copy of indices to the device, the operations, and one copy of results back. From the outside in:
//! `engine` → `plan` (which token goes where) → `decoder`, `attention`, `pages` → `distribution` (sampling and
//! signals), with `build` and `weights` for loading.

mod attention;
mod build;
mod decoder;
mod distribution;
mod engine;
mod pages;
mod plan;
#[cfg(test)]
mod tests;
mod upload;

use candle_core::{DType, Device};

use crate::config::Config;
use crate::cpu::Read;
use crate::weights::Layout;
use crate::{EngineError, LoadOptions, ModelSpec};

pub(crate) use engine::GpuEngine;

/// Where an engine computes, and in what.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The device.
    pub(crate) device: Device,
    /// Type of weights and activations.
    pub(crate) compute: DType,
}

impl Place {
    /// A CUDA device, by its number.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(ordinal: usize) -> Result<Self, EngineError> {
        // A stream of its own, so that models on one device overlap.
        let device = Device::new_cuda_with_stream(ordinal).map_err(fault("opening the CUDA device"))?;
        if let Device::Cuda(cuda) = &device {
            stop_tracking(cuda);
        }
        Ok(Self { device, compute: DType::BF16 })
    }
}

/// Without this every operation records and awaits an event for each of its tensors, which costs as much as the launch.
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "the library cannot know that a device's tensors stay on its one stream")]
fn stop_tracking(cuda: &candle_core::CudaDevice) {
    // SAFETY: events order the use of a tensor on several streams. This device has one stream, and no tensor of it
    // leaves the engine that opened it.
    unsafe { cuda.disable_event_tracking() };
}

/// Loads a model's tensors into an engine.
pub(crate) fn load(
    spec: ModelSpec,
    (config, layout): (&Config, Layout),
    options: LoadOptions,
    place: Place,
    read: Read<'_>,
) -> Result<GpuEngine, EngineError> {
    let decoder = build::build((config, layout), &place, read)?;
    GpuEngine::new(spec, decoder, place, options)
}

/// What the device refused to do.
fn fault(doing: &'static str) -> impl FnOnce(candle_core::Error) -> EngineError {
    move |source| EngineError::Device { doing, source: Box::new(source) }
}
