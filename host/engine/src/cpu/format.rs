//! How codes and scales lie within a tile, for the packer at run time and for the kernels at compile time.

use std::marker::PhantomData;

use bytemuck::Pod;
use half::f16;

use super::rows::BLOCK;
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
    /// As the K kinds store them: a small whole number per group times a factor, in half precision, of [`SPAN`]
    /// inputs. Their product is exact in single precision, and four times as long.
    Product,
}

impl Scale {
    /// Bytes of the scales of a tile.
    pub(super) fn tile_bytes(self, grid: Grid, inputs: usize) -> usize {
        let numbers = inputs / grid.group * numbers_per_group(grid) * LANES;
        match self {
            Self::Half => 2 * numbers,
            Self::Full => 4 * numbers,
            Self::Product => numbers + 2 * (inputs / SPAN * numbers_per_group(grid) * LANES),
        }
    }

    /// The step (`which` = 0) or minimum (1) of a group of a lane.
    pub(super) fn read(self, grid: Grid, tile: &[u8], (group, which, lane): (usize, usize, usize)) -> f32 {
        let index = (group * numbers_per_group(grid) + which) * LANES + lane;
        match self {
            Self::Half => half(tile, 2 * index),
            Self::Full => bytemuck::pod_read_unaligned(&tile[4 * index..][..4]),
            Self::Product => {
                let (factor, count) = places(grid, (group, which, lane));
                half(tile, factor) * f32::from(tile[count].cast_signed())
            }
        }
    }

    /// Sets what [`Scale::read`] reads; `factor` is that of the group's span.
    pub(super) fn write(
        self,
        grid: Grid,
        tile: &mut [u8],
        (group, which, lane): (usize, usize, usize),
        (value, factor): (f32, f32),
    ) {
        let index = (group * numbers_per_group(grid) + which) * LANES + lane;
        let mut set = |at: usize, bytes: &[u8]| tile[at..at + bytes.len()].copy_from_slice(bytes);
        match self {
            Self::Half => set(2 * index, &f16::from_f32(value).to_le_bytes()),
            Self::Full => set(4 * index, bytemuck::bytes_of(&value)),
            Self::Product => {
                let (at_factor, at_count) = places(grid, (group, which, lane));
                set(at_factor, &f16::from_f32(factor).to_le_bytes());
                let count = if factor == 0.0 { 0.0 } else { value / factor };
                debug_assert_eq!(count.round() * factor, value, "a whole number of factors");
                set(at_count, &(count.round() as i8).to_le_bytes());
            }
        }
    }
}

/// Where the factor and the count of a number are in the scales of a tile: first the factors of a span, then the counts
/// of its groups.
fn places(grid: Grid, (group, which, lane): (usize, usize, usize)) -> (usize, usize) {
    let (per_group, groups) = (numbers_per_group(grid), SPAN / grid.group);
    let factors = 2 * per_group * LANES;
    let span = group / groups * (factors + groups * per_group * LANES);
    let count = span + factors + (group % groups * per_group + which) * LANES + lane;
    (span + 2 * (which * LANES + lane), count)
}

fn numbers_per_group(grid: Grid) -> usize {
    1 + usize::from(grid.has_min)
}

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// What a kernel of quantised weights knows at compile time.
pub(super) trait GridFormat {
    /// The codes of [`super::rows::BLOCK`] inputs of a tile.
    type Block: Pod;
    /// The scales of [`Self::BLOCKS`] blocks of a tile.
    type Scales: Pod;
    /// The scales of one block as plain numbers.
    type Plain: Pod + AsRef<[[f32; LANES]]> + AsMut<[[f32; LANES]]>;
    /// Codes are below 16 and lie two to a byte.
    const NIBBLES: bool;
    /// Blocks whose scales lie together.
    const BLOCKS: usize;
    /// Groups in a block: 1 or 2.
    const GROUPS: usize;
    /// Whether groups have minima.
    const MIN: bool;
    /// Whether scales come from the model's memory.
    const IS_STREAMED: bool = true;

    /// The 64 bytes of step `step`.
    fn bytes(block: &Self::Block, step: usize) -> &[u8; 4 * LANES];
    /// The steps (`which` = 0) or minima (1) of group `group` of the scales.
    fn scale<I: Isa>(isa: I, scales: &Self::Scales, group: usize, which: usize) -> I::Floats;
}

/// A format with scales that were made plain, for many rows: each number is made once.
pub(super) struct MadePlain<F>(PhantomData<F>);

impl<F: GridFormat> GridFormat for MadePlain<F> {
    type Block = F::Block;
    type Scales = F::Plain;
    type Plain = F::Plain;
    const NIBBLES: bool = F::NIBBLES;
    const BLOCKS: usize = 1;
    const GROUPS: usize = F::GROUPS;
    const MIN: bool = F::MIN;
    const IS_STREAMED: bool = false;

    #[inline(always)]
    fn bytes(block: &Self::Block, step: usize) -> &[u8; 4 * LANES] {
        F::bytes(block, step)
    }

    #[inline(always)]
    fn scale<I: Isa>(isa: I, scales: &F::Plain, group: usize, which: usize) -> I::Floats {
        isa.load(&scales.as_ref()[group * (1 + usize::from(F::MIN)) + which])
    }
}

/// Makes the scales of one block plain.
#[inline(always)]
pub(super) fn make_plain<I: Isa, F: GridFormat>(
    isa: I,
    scales: &F::Scales,
    block: usize,
    into: &mut F::Plain,
) {
    let per_group = 1 + usize::from(F::MIN);
    for (index, into) in into.as_mut().iter_mut().enumerate() {
        let group = block * F::GROUPS + index / per_group;
        isa.store(F::scale(isa, scales, group, index % per_group), into);
    }
}

macro_rules! grid_format {
    (
        $name:ident, $doc:literal, ($steps:literal, $groups:literal, $min:literal), $scales:ty, $blocks:expr,
        |$isa:ident, $list:ident, $index:ident, $which:ident| $number:expr
    ) => {
        #[doc = $doc]
        pub(super) struct $name;

        impl GridFormat for $name {
            type Block = [[u8; 4 * LANES]; $steps];
            type Scales = $scales;
            type Plain = [[f32; LANES]; $groups * (1 + $min as usize)];
            const NIBBLES: bool = $steps == 4;
            const BLOCKS: usize = $blocks;
            const GROUPS: usize = $groups;
            const MIN: bool = $min;

            #[inline(always)]
            fn bytes(block: &Self::Block, step: usize) -> &[u8; 4 * LANES] {
                &block[step]
            }

            #[inline(always)]
            fn scale<I: Isa>($isa: I, $list: &Self::Scales, group: usize, $which: usize) -> I::Floats {
                let $index = group * (1 + $min as usize) + $which;
                $number
            }
        }
    };
}

/// Scales of one block, one after the other.
macro_rules! plain_format {
    ($name:ident, $doc:literal, $steps:literal, [$element:ty], $load:ident, $min:literal) => {
        grid_format!(
            $name,
            $doc,
            ($steps, 1, $min),
            [[$element; LANES]; 1 + $min as usize],
            1,
            |isa, list, index, _which| isa.$load(&list[index])
        );
    };
}

/// Scales of a span: its factors, each two rows long, then its counts.
macro_rules! product_format {
    ($name:ident, $doc:literal, $steps:literal, $groups:literal, $min:literal) => {
        grid_format!(
            $name,
            $doc,
            ($steps, $groups, $min),
            [[u16; LANES / 2]; (1 + $min as usize) * (2 + SPAN / BLOCK * $groups)],
            SPAN / BLOCK,
            |isa, list, index, which| {
                let (factors, counts) = list.split_at(2 * (1 + $min as usize));
                let factor: &[u16; LANES] = bytemuck::cast_ref(&factors.as_chunks::<2>().0[which]);
                isa.mul(isa.load_half(factor), isa.load_bytes(bytemuck::cast_ref(&counts[index])))
            }
        );
    };
}

plain_format!(Nibbles, "Q4_0.", 4, [u16], load_half, false);
plain_format!(NibblesMin, "Q4_1.", 4, [u16], load_half, true);
plain_format!(Bytes, "Q8_0, Q5_0.", 8, [u16], load_half, false);
plain_format!(BytesFull, "Q5_1.", 8, [f32], load, true);
product_format!(NibblesProduct, "Q4_K.", 4, 1, true);
product_format!(BytesProduct, "Q5_K.", 8, 1, true);
product_format!(NibblesHalves, "Q3_K.", 4, 2, false);
product_format!(NibblesHalvesMin, "Q2_K.", 4, 2, true);
product_format!(BytesHalves, "Q6_K.", 8, 2, false);

/// Inputs that share the factors of [`Scale::Product`].
pub(super) const SPAN: usize = 256;

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
