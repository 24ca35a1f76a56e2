//! The device memory that keys and values are in.
//!
//! For each layer one tensor of keys and one of values, (kv_heads, blocks, PAGE * head_dim): a row's blocks, taken in
//! order along the second dimension, are its keys (kv_heads, positions, head_dim) without another copy. One block more
//! than the book-keeping knows stays zero, to fill up shorter rows of a group.
//!
//! What a row reads and has not written, masked or not, is zero or of a row with the same beginning: a block that a row
//! begins is cleared, and a copied one is zero behind the copied positions. A masked position has no weight, but no
//! weight times what is not a number is not a number, so another row's must not be there.

use candle_core::{DType, Device, Tensor};

use super::fault;
use super::plan::Write;
use crate::EngineError;
use crate::batch::Storage;
use crate::cpu::KvShape;
use crate::paging::{BlockCopy, PAGE};

/// Pages of one engine, all allocated at once: what another program takes meanwhile could not be had back.
pub(super) struct Pages {
    shape: KvShape,
    dtype: DType,
    blocks: usize,
    layers: Vec<Kept>,
}

struct Kept {
    keys: Tensor,
    values: Tensor,
}

impl Pages {
    /// Zeros.
    pub(super) fn new(
        shape: KvShape,
        blocks: usize,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Self> {
        let numbers = (shape.kv_heads, blocks + 1, PAGE * shape.head_dim);
        let zeros = || Tensor::zeros(numbers, dtype, device);
        let kept = |_| Ok(Kept { keys: zeros()?, values: zeros()? });
        let layers = (0..shape.layers).map(kept).collect::<candle_core::Result<_>>()?;
        Ok(Self { shape, dtype, blocks, layers })
    }

    /// Bytes of a block over all layers.
    pub(super) fn bytes(shape: KvShape, dtype: DType) -> usize {
        2 * shape.layers * shape.kv_heads * shape.head_dim * PAGE * dtype.size_in_bytes()
    }

    /// Most blocks of a shape: the kernels count the numbers of a tensor in 32 bits.
    pub(super) fn blocks_max(shape: KvShape) -> usize {
        u32::MAX as usize / (shape.kv_heads * shape.head_dim * PAGE) - 1
    }

    /// The block that is always zero.
    pub(super) fn zero(&self) -> u32 {
        self.blocks as u32
    }

    /// Keeps keys and values, both (kv_heads, tokens, head_dim), of a step's tokens in one layer.
    pub(super) fn write(
        &self,
        layer: usize,
        writes: &[Write],
        (keys, values): (&Tensor, &Tensor),
    ) -> candle_core::Result<()> {
        let KvShape { kv_heads, head_dim, .. } = self.shape;
        let kept = &self.layers[layer];
        for (kept, new) in [(&kept.keys, keys), (&kept.values, values)] {
            let new = new.to_dtype(self.dtype)?;
            let places = kept.reshape((kv_heads, (self.blocks + 1) * PAGE, head_dim))?;
            for write in writes {
                match write {
                    Write::Clear { blocks, zeros } => kept.scatter_set(blocks, zeros, 1)?,
                    Write::Tokens { start, count, places: at } => {
                        places.scatter_set(at, &new.narrow(1, *start, *count)?.contiguous()?, 1)?;
                    }
                    Write::Blocks { start, count, blocks } => {
                        let new = new.narrow(1, *start, count * PAGE)?.contiguous()?;
                        kept.scatter_set(blocks, &new.reshape((kv_heads, *count, PAGE * head_dim))?, 1)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keys and values of rows whose blocks, as many for each of them, are `blocks`: both
    /// (kv_heads * rows, positions, head_dim).
    pub(super) fn read(
        &self,
        layer: usize,
        blocks: &Tensor,
        rows: usize,
    ) -> candle_core::Result<(Tensor, Tensor)> {
        let KvShape { kv_heads, head_dim, .. } = self.shape;
        let positions = blocks.dim(0)? / rows * PAGE;
        let read =
            |kept: &Tensor| kept.index_select(blocks, 1)?.reshape((kv_heads * rows, positions, head_dim));
        let kept = &self.layers[layer];
        Ok((read(&kept.keys)?, read(&kept.values)?))
    }

    fn copied(&self, kept: &Tensor, copy: &BlockCopy) -> candle_core::Result<()> {
        let numbers = copy.positions * self.shape.head_dim;
        let from = kept.narrow(1, copy.from.index(), 1)?.narrow(2, 0, numbers)?;
        let from = from.pad_with_zeros(2, 0, PAGE * self.shape.head_dim - numbers)?;
        kept.slice_set(&from.contiguous()?, 1, copy.to.index())
    }
}

impl Storage for Pages {
    fn grow(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }

    fn copy(&mut self, copy: BlockCopy) -> Result<(), EngineError> {
        let mut all = self.layers.iter().flat_map(|kept| [&kept.keys, &kept.values]);
        all.try_for_each(|kept| self.copied(kept, &copy)).map_err(fault("copying a KV block"))
    }

    fn block_bytes(&self) -> usize {
        Self::bytes(self.shape, self.dtype)
    }
}
