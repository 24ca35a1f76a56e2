//! The numeric kernels whose order of summation is ours.
//!
//! A library's matrix product picks its blocking by the shape of the batch, so a row's result changes in its last
//! bits with its neighbours. Here every output is one sum over k, in the order of k, from zero: lanes and register
//! blocks run over *outputs* and rows, never over k. Attention runs over positions in their order. So the number of
//! rows, their place in the batch and the number of threads cannot be seen in any result, and the same source gives
//! the same bits on every CPU with IEEE arithmetic (there is no fused multiply-add to be had or not).
//!
//! Each kernel is a candle custom op for CPU storage; on other devices candle reports that this build has none.

mod attention;
mod exp;
mod linear;
mod rope;

pub(crate) use attention::Attention;
pub(crate) use linear::Linear;
pub(crate) use rope::RopeFrequencies;

use candle_core::{CpuStorage, Layout, Result, bail};

/// The elements of a contiguous f32 tensor on the CPU.
pub(crate) fn elements<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let all = storage.as_slice::<f32>()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&all[start..end]),
        None => bail!("the kernel needs a contiguous tensor, got {layout:?}"),
    }
}
