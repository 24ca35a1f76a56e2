//! How weights are stored, and what the stored bytes mean.
//!
//! A row of weights is a run of blocks. Plain types hold one number per block; quantised ones hold 32 or 256 small
//! whole numbers, the *codes*, and the scales (and minimums) that turn them into weights. Here a row is taken apart
//! into those parts without rounding, so that a kernel can multiply the codes themselves. Nothing here reads files,
//! and nothing here encodes: no weight is ever quantised again.

mod blocks;
mod k_blocks;

use std::fmt;

use half::{bf16, f16};

/// How a checkpoint stores a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WeightType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
    /// 4 bits, 32 weights to a scale, around zero.
    Q4_0,
    /// 4 bits, 32 weights to a scale and a minimum.
    Q4_1,
    /// 5 bits, 32 weights to a scale, around zero.
    Q5_0,
    /// 5 bits, 32 weights to a scale and a minimum.
    Q5_1,
    /// 8 bits, 32 weights to a scale, around zero.
    Q8_0,
    /// 2 bits in blocks of 256, 16 weights to a scale and a minimum.
    Q2K,
    /// 3 bits in blocks of 256, 16 weights to a scale, around zero.
    Q3K,
    /// 4 bits in blocks of 256, 32 weights to a scale and a minimum.
    Q4K,
    /// 5 bits in blocks of 256, 32 weights to a scale and a minimum.
    Q5K,
    /// 6 bits in blocks of 256, 16 weights to a scale, around zero.
    Q6K,
}

impl WeightType {
    /// Every way to store weights.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// Weights in one block.
    #[must_use]
    pub const fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K => BLOCK_MAX,
        }
    }

    /// Bytes of one block.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => blocks::Q4_0,
            Self::Q4_1 => blocks::Q4_1,
            Self::Q5_0 => blocks::Q5_0,
            Self::Q5_1 => blocks::Q5_1,
            Self::Q8_0 => blocks::Q8_0,
            Self::Q2K => k_blocks::Q2K,
            Self::Q3K => k_blocks::Q3K,
            Self::Q4K => k_blocks::Q4K,
            Self::Q5K => k_blocks::Q5K,
            Self::Q6K => k_blocks::Q6K,
        }
    }

    /// Whether weights are codes with a scale per group rather than plain numbers.
    #[must_use]
    pub const fn is_quantised(self) -> bool {
        self.block() > 1
    }

    /// Bytes of a row of so many weights; `None` if they are no whole number of blocks or beyond any memory.
    pub(crate) fn row_bytes(self, width: usize) -> Option<usize> {
        let whole = width.is_multiple_of(self.block());
        whole.then(|| (width / self.block()).checked_mul(self.block_bytes())).flatten()
    }

    /// Bytes of a tensor, whose last dimension is the width of its rows; `None` as for [`Self::row_bytes`].
    pub(crate) fn tensor_bytes(self, shape: &[usize]) -> Option<u64> {
        let (width, outer) = shape.split_last().map_or((1, &[][..]), |(width, outer)| (*width, outer));
        let row = self.row_bytes(width)? as u64;
        outer.iter().try_fold(row, |bytes, &size| bytes.checked_mul(size as u64))
    }

    /// What the codes of a quantised row mean; `None` for plain numbers.
    pub(crate) fn grid(self) -> Option<Grid> {
        let grid = |group, zero, has_min, bits| Some(Grid { group, zero, has_min, bits });
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => None,
            Self::Q4_0 => grid(32, 8, false, 4),
            Self::Q4_1 | Self::Q4K => grid(32, 0, true, 4),
            Self::Q5_0 => grid(32, 16, false, 8),
            Self::Q5_1 | Self::Q5K => grid(32, 0, true, 8),
            Self::Q8_0 => grid(32, 128, false, 8),
            Self::Q2K => grid(16, 0, true, 4),
            Self::Q3K => grid(16, 4, false, 4),
            Self::Q6K => grid(16, 32, false, 8),
        }
    }
}

impl fmt::Display for WeightType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Q4_0 => "q4_0",
            Self::Q4_1 => "q4_1",
            Self::Q5_0 => "q5_0",
            Self::Q5_1 => "q5_1",
            Self::Q8_0 => "q8_0",
            Self::Q2K => "q2_k",
            Self::Q3K => "q3_k",
            Self::Q4K => "q4_k",
            Self::Q5K => "q5_k",
            Self::Q6K => "q6_k",
        })
    }
}

/// What a quantised row means: `weight[i] = scale[g] * (code[i] - zero) + min[g]` with `g = i / group`.
///
/// In f32, computed in this order, the result is the weight that the format defines, bit for bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Weights that share a scale: 16 or 32. Divides the block.
    pub(crate) group: usize,
    /// The code of zero, or of the minimum.
    pub(crate) zero: u8,
    /// Whether groups have a minimum; without, it is 0.
    pub(crate) has_min: bool,
    /// Bits to keep a code in: 4 if all are below 16, else 8.
    pub(crate) bits: u8,
}

/// The parts of a row, to be filled; lengths are the row's weights and its groups, twice.
pub(crate) struct Parts<'a> {
    codes: &'a mut [u8],
    scales: &'a mut [f32],
    /// Left as they are if the grid has none.
    mins: &'a mut [f32],
}

/// Takes a row of quantised blocks apart: codes (one per weight), scales and mins (one per group; mins stay untouched
/// if the grid has none).
///
/// # Panics
/// If `kind` is not quantised or the lengths do not belong together: both are checked when a tensor is looked up.
pub(crate) fn decode_row(
    kind: WeightType,
    bytes: &[u8],
    codes: &mut [u8],
    scales: &mut [f32],
    mins: &mut [f32],
) {
    let grid = kind.grid().expect("only quantised rows have codes");
    assert_eq!(Some(bytes.len()), kind.row_bytes(codes.len()), "the bytes of the row");
    assert_eq!(scales.len(), codes.len() / grid.group, "a scale per group");
    assert!(!grid.has_min || mins.len() == scales.len(), "a min per group");
    let mut parts = Parts { codes, scales, mins };
    match kind {
        WeightType::F32 | WeightType::F16 | WeightType::Bf16 => {}
        WeightType::Q4_0 => each(grid, bytes, &mut parts, blocks::q4_0),
        WeightType::Q4_1 => each(grid, bytes, &mut parts, blocks::q4_1),
        WeightType::Q5_0 => each(grid, bytes, &mut parts, blocks::q5_0),
        WeightType::Q5_1 => each(grid, bytes, &mut parts, blocks::q5_1),
        WeightType::Q8_0 => each(grid, bytes, &mut parts, blocks::q8_0),
        WeightType::Q2K => each(grid, bytes, &mut parts, k_blocks::q2k),
        WeightType::Q3K => each(grid, bytes, &mut parts, k_blocks::q3k),
        WeightType::Q4K => each(grid, bytes, &mut parts, k_blocks::q4k),
        WeightType::Q5K => each(grid, bytes, &mut parts, k_blocks::q5k),
        WeightType::Q6K => each(grid, bytes, &mut parts, k_blocks::q6k),
    }
}

/// What a block of a K kind multiplies its groups' scales and minimums with; what they are divided by otherwise.
pub(crate) fn factors(kind: WeightType, block: &[u8]) -> (f32, f32) {
    match kind {
        WeightType::Q2K => k_blocks::pair_of_factors(block, k_blocks::Q2K_FACTORS),
        WeightType::Q4K | WeightType::Q5K => k_blocks::pair_of_factors(block, k_blocks::Q4K_FACTORS),
        WeightType::Q3K => (half_at(block, k_blocks::Q3K_FACTOR), 1.0),
        WeightType::Q6K => (half_at(block, k_blocks::Q6K_FACTOR), 1.0),
        _ => (1.0, 1.0),
    }
}

/// The weights of a row, or of several one after the other, as f32.
///
/// # Panics
/// If the lengths do not belong together.
pub(crate) fn floats(kind: WeightType, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(Some(bytes.len()), kind.row_bytes(out.len()), "the bytes of the weights");
    match kind.grid() {
        Some(grid) => quantised_floats(kind, grid, bytes, out),
        None if kind == WeightType::F32 => plain(bytes, out, f32::from_le_bytes),
        None if kind == WeightType::F16 => plain(bytes, out, |bytes| f16::from_le_bytes(bytes).to_f32()),
        None => plain(bytes, out, |bytes| bf16::from_le_bytes(bytes).to_f32()),
    }
}

fn quantised_floats(kind: WeightType, grid: Grid, bytes: &[u8], out: &mut [f32]) {
    let (mut codes, mut scales, mut mins) = ([0; BLOCK_MAX], [0.0; GROUPS_MAX], [0.0; GROUPS_MAX]);
    let (codes, groups) = (&mut codes[..kind.block()], kind.block() / grid.group);
    let (scales, mins) = (&mut scales[..groups], &mut mins[..groups]);
    for (block, out) in bytes.chunks_exact(kind.block_bytes()).zip(out.chunks_exact_mut(kind.block())) {
        decode_row(kind, block, codes, scales, mins);
        let groups = codes.chunks_exact(grid.group).zip(scales.iter().zip(mins.iter()));
        for ((codes, (scale, min)), out) in groups.zip(out.chunks_exact_mut(grid.group)) {
            for (code, out) in codes.iter().zip(out) {
                *out = scale * f32::from(i16::from(*code) - i16::from(grid.zero)) + min;
            }
        }
    }
}

fn plain<const N: usize>(bytes: &[u8], out: &mut [f32], number: impl Fn([u8; N]) -> f32) {
    for (bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = number(*bytes);
    }
}

/// Decodes block by block.
fn each<const BYTES: usize>(
    grid: Grid,
    bytes: &[u8],
    parts: &mut Parts<'_>,
    decode: impl Fn(&[u8; BYTES], &mut Parts<'_>),
) {
    let blocks = bytes.as_chunks::<BYTES>().0;
    let block = parts.codes.len() / blocks.len().max(1);
    let groups = block / grid.group;
    for (index, bytes) in blocks.iter().enumerate() {
        let of_block = index * groups..(index + 1) * groups;
        let codes = &mut parts.codes[index * block..(index + 1) * block];
        let scales = &mut parts.scales[of_block.clone()];
        let mins = if grid.has_min { &mut parts.mins[of_block] } else { &mut [][..] };
        decode(bytes, &mut Parts { codes, scales, mins });
    }
    debug_assert!(parts.codes.iter().all(|code| u32::from(*code) < 1 << grid.bits), "codes fit their bits");
}

/// A little-endian half at an offset; the formats keep all scales as such.
fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The low halves of the bytes, then the high ones: how the formats lay out 4-bit numbers.
fn nibbles(bytes: &[u8], codes: &mut [u8]) {
    let (low, high) = codes.split_at_mut(bytes.len());
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        (*low, *high) = (byte & 15, byte >> 4);
    }
}

/// Most weights in a block.
const BLOCK_MAX: usize = 256;

/// Most groups in a block.
const GROUPS_MAX: usize = 16;

#[cfg(test)]
mod tests;
