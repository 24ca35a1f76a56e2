//! Every kind of weight on every instruction set against sums written down plainly.

use proptest::prelude::*;

use super::*;
use crate::cpu::rows::{Block, code_row};
use crate::cpu::simd::{Level, Work, dispatch};
use crate::encoding;

const OUTPUTS: usize = 40;
const INPUTS: usize = 512;
const KINDS: [WeightType; 12] = [
    WeightType::F32,
    WeightType::F16,
    WeightType::Q4_0,
    WeightType::Q4_1,
    WeightType::Q5_0,
    WeightType::Q5_1,
    WeightType::Q8_0,
    WeightType::Q2K,
    WeightType::Q3K,
    WeightType::Q4K,
    WeightType::Q5K,
    WeightType::Q6K,
];

struct All<'a> {
    matrix: (&'a Region, &'a Matrix),
    x: Inputs<'a>,
    out: &'a mut [[f32; LANES]],
}

impl Work for All<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        let tiles = self.matrix.1.tiles();
        product(isa, self.matrix, 0, self.x, &mut Outputs { lanes: self.out, tiles });
    }
}

/// Rows of random blocks whose scales are small numbers.
fn weights(kind: WeightType, seed: u64) -> Vec<u8> {
    let bytes = kind.row_bytes(INPUTS).expect("whole blocks") * OUTPUTS;
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let mut bytes: Vec<u8> = (0..bytes).map(|_| next()).collect();
    let halves: &[usize] = match kind {
        WeightType::F32 => &[2],
        WeightType::Q4_1 | WeightType::Q5_1 | WeightType::Q4K | WeightType::Q5K => &[0, 2],
        WeightType::Q2K => &[80, 82],
        WeightType::Q3K => &[108],
        WeightType::Q6K => &[208],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        halves.iter().for_each(|at| block[at + 1] &= 0b1010_1111);
    }
    bytes
}

/// One output as the head of the file says: in the order of inputs, every group's exact integer scaled and added.
fn plainly(kind: WeightType, row: &[u8], x: (&[f32], &[i8], &[Block])) -> f32 {
    let (floats, codes_of_x, about) = x;
    let mut weights = vec![0.0; INPUTS];
    encoding::floats(kind, row, &mut weights);
    let Some(grid) = kind.grid() else {
        return weights.iter().zip(floats).fold(0.0, |sum, (w, x)| w.mul_add(*x, sum));
    };
    let groups = INPUTS / grid.group;
    let (mut codes, mut scales, mut mins) = (vec![0; INPUTS], vec![0.0; groups], vec![0.0; groups]);
    encoding::decode_row(kind, row, &mut codes, &mut scales, &mut mins);
    let mut sum = 0.0f32;
    for group in 0..groups {
        let of_group = group * grid.group..(group + 1) * grid.group;
        let dot: i32 = (codes[of_group.clone()].iter().zip(&codes_of_x[of_group.clone()]))
            .map(|(&w, &x)| (i32::from(w) - i32::from(grid.zero)) * i32::from(x))
            .sum();
        let scale = about[group * grid.group / BLOCK].scale;
        sum = (dot as f32).mul_add(scales[group] * scale, sum);
        if grid.has_min {
            let ones: i32 = codes_of_x[of_group].iter().map(|&x| i32::from(x)).sum();
            sum = mins[group].mul_add(scale * ones as f32, sum);
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_kind_gives_the_plain_sums_bit_for_bit(
        kind in proptest::sample::select(KINDS.to_vec()), seed in any::<u64>(), rows in 1usize..15,
        x in proptest::collection::vec(-4.0f32..4.0, 14 * INPUTS),
    ) {
        let bytes = weights(kind, seed);
        let mut region = Region::new(Matrix::bytes(kind, OUTPUTS, INPUTS)).unwrap();
        let matrix = Matrix::pack(&mut region, kind, (OUTPUTS, INPUTS), &bytes).expect("finite");
        let row_bytes = bytes.len() / OUTPUTS;
        let floats = &x[..rows * INPUTS];
        for level in Level::available() {
            let mut codes = CodedRows::default();
            codes.resize(rows, INPUTS);
            for row in 0..rows {
                let x = &floats[row * INPUTS..][..INPUTS];
                let (words, blocks) = codes.row_mut(row);
                dispatch(level, Coded { x, words, blocks });
            }
            let mut out = vec![[0.0; LANES]; rows * matrix.tiles()];
            let inputs = Inputs { rows, floats, stride: INPUTS, codes: &codes };
            dispatch(level, All { matrix: (&region, &matrix), x: inputs, out: &mut out });
            for row in 0..rows {
                let words: &[i8] = bytemuck::cast_slice(codes.words(row));
                let x = (&floats[row * INPUTS..][..INPUTS], words, codes.blocks(row));
                for output in 0..OUTPUTS {
                    let found = out[row * matrix.tiles() + output / LANES][output % LANES];
                    let expected = plainly(kind, &bytes[output * row_bytes..][..row_bytes], x);
                    prop_assert_eq!(found, expected, "{} row {} output {} on {}", kind, row, output, level.name());
                }
            }
        }
    }

    /// As embeddings are read.
    #[test]
    fn every_kind_gives_its_weights_back(
        kind in proptest::sample::select(KINDS.to_vec()), seed in any::<u64>(), output in 0..OUTPUTS,
    ) {
        let bytes = weights(kind, seed);
        let mut region = Region::new(Matrix::bytes(kind, OUTPUTS, INPUTS)).unwrap();
        let matrix = Matrix::pack(&mut region, kind, (OUTPUTS, INPUTS), &bytes).expect("finite");
        let row_bytes = bytes.len() / OUTPUTS;
        let (mut found, mut expected) = (vec![0.0; INPUTS], vec![0.0; INPUTS]);
        matrix.row(&region, output, &mut found);
        encoding::floats(kind, &bytes[output * row_bytes..][..row_bytes], &mut expected);
        prop_assert_eq!(found, expected);
    }
}

struct Coded<'a> {
    x: &'a [f32],
    words: &'a mut [i32],
    blocks: &'a mut [Block],
}

impl Work for Coded<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        code_row(isa, self.x, self.words, self.blocks);
    }
}
