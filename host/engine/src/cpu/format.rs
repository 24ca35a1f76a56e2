//! How codes and scales lie within a tile, for the packer at run time and for the kernels at compile time.

use bytemuck::Pod;
use half::f16;

use super::simd::{Isa, LANES};
use crate::encoding::Grid;

/// Where the code of an input of a lane is: four inputs of a lane side by side, then the lanes.
#[derive(Clone, Copy)]
pub(super) enum Codes {
    /// A byte each.
    Bytes,
    /// Two to a byte: inputs 8g to 8g + 3 in the lower half, the next four in the upper half.
    Nibbles,
}

impl Codes {
    /// The layout of a grid.
    pub(super) fn of(grid: Grid) -> Self {
        if grid.bits == 4 { Self::Nibbles } else { Self::Bytes }
    }

    /// Reads a code from a tile.
    pub(super) fn read(self, tile: &[u8], lane: usize, input: usize) -> u8 {
        match self {
            Self::Bytes => tile[input / 4 * 4 * LANES + lane * 4 + input % 4],
            Self::Nibbles => {
                let byte = tile[input / 8 * 4 * LANES + lane * 4 + input % 4];
                if input % 8 < 4 { byte & 15 } else { byte >> 4 }
            }
        }
    }

    /// Writes a code into a tile that was zero there.
    pub(super) fn write(self, tile: &mut [u8], lane: usize, input: usize, code: u8) {
        match self {
            Self::Bytes => tile[input / 4 * 4 * LANES + lane * 4 + input % 4] = code,
            Self::Nibbles => {
                let shift = if input % 8 < 4 { 0 } else { 4 };
                tile[input / 8 * 4 * LANES + lane * 4 + input % 4] |= code << shift;
            }
        }
    }
}

/// How scales and minima are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Half precision, as the simple kinds store them.
    Half,
    /// Single precision.
    Full,
}

impl Scale {
    /// Bytes of one.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Full => 4,
        }
    }

    /// Number `index` of a list.
    pub(super) fn read(self, list: &[u8], index: usize) -> f32 {
        let at = &list[index * self.bytes()..][..self.bytes()];
        match self {
            Self::Half => f16::from_bits(bytemuck::pod_read_unaligned(at)).to_f32(),
            Self::Full => bytemuck::pod_read_unaligned(at),
        }
    }

    /// Sets number `index` of a list.
    pub(super) fn write(self, list: &mut [u8], index: usize, value: f32) {
        let at = &mut list[index * self.bytes()..][..self.bytes()];
        match self {
            Self::Half => at.copy_from_slice(bytemuck::bytes_of(&f16::from_f32(value).to_bits())),
            Self::Full => at.copy_from_slice(bytemuck::bytes_of(&value)),
        }
    }
}

/// What a kernel of quantised weights knows at compile time.
pub(super) trait GridFormat {
    /// The codes of [`super::rows::BLOCK`] inputs of a tile.
    type Block: Pod;
    /// The scales of a tile's block: for each group the steps, then the minima if there are any.
    type Scales: Pod;
    /// Codes are below 16 and lie two to a byte.
    const NIBBLES: bool;
    /// Groups in a block: 1 or 2.
    const GROUPS: usize;
    /// Whether groups have minima.
    const MIN: bool;

    /// The 64 bytes of step `step`.
    fn bytes(block: &Self::Block, step: usize) -> &[u8; 4 * LANES];
    /// Vector `index` of the scales.
    fn scale<I: Isa>(isa: I, scales: &Self::Scales, index: usize) -> I::Floats;
}

macro_rules! grid_format {
    ($name:ident, $doc:literal, $steps:literal, $scale:ty, $load:ident, $groups:literal, $min:literal) => {
        #[doc = $doc]
        pub(super) struct $name;

        impl GridFormat for $name {
            type Block = [[u8; 4 * LANES]; $steps];
            type Scales = [[$scale; LANES]; $groups * (1 + $min as usize)];
            const NIBBLES: bool = $steps == 4;
            const GROUPS: usize = $groups;
            const MIN: bool = $min;

            #[inline(always)]
            fn bytes(block: &Self::Block, step: usize) -> &[u8; 4 * LANES] {
                &block[step]
            }

            #[inline(always)]
            fn scale<I: Isa>(isa: I, scales: &Self::Scales, index: usize) -> I::Floats {
                isa.$load(&scales[index])
            }
        }
    };
}

grid_format!(Nibbles, "Q4_0.", 4, u16, load_half, 1, false);
grid_format!(NibblesMin, "Q4_1.", 4, u16, load_half, 1, true);
grid_format!(NibblesFull, "Q4_K.", 4, f32, load, 1, true);
grid_format!(Bytes, "Q8_0, Q5_0.", 8, u16, load_half, 1, false);
grid_format!(BytesFull, "Q5_1, Q5_K.", 8, f32, load, 1, true);
grid_format!(BytesHalves, "Q6_K, Q3_K.", 8, f32, load, 2, false);
grid_format!(NibblesHalves, "Q2_K.", 4, f32, load, 2, true);

/// What a kernel of float weights knows at compile time.
pub(super) trait FloatFormat {
    /// One input's weights of a tile.
    type Raw: Pod;

    /// The weights as f32.
    fn load<I: Isa>(isa: I, raw: &Self::Raw) -> I::Floats;
}

macro_rules! float_format {
    ($name:ident, $doc:literal, $element:ty, $load:ident) => {
        #[doc = $doc]
        pub(super) struct $name;

        impl FloatFormat for $name {
            type Raw = [$element; LANES];

            #[inline(always)]
            fn load<I: Isa>(isa: I, raw: &Self::Raw) -> I::Floats {
                isa.$load(raw)
            }
        }
    };
}

float_format!(Single, "f32.", f32, load);
float_format!(Half, "f16.", u16, load_half);
float_format!(Brain, "bf16.", u16, load_brain);
