//! Every encoding against an independent decoder, on random blocks.

use candle_core::Device;
use candle_core::quantized::{GgmlDType, ggml_file::qtensor_from_ggml};
use proptest::prelude::*;

use super::*;

fn theirs(kind: WeightType) -> GgmlDType {
    match kind {
        WeightType::F32 => GgmlDType::F32,
        WeightType::F16 => GgmlDType::F16,
        WeightType::Bf16 => GgmlDType::BF16,
        WeightType::Q4_0 => GgmlDType::Q4_0,
        WeightType::Q4_1 => GgmlDType::Q4_1,
        WeightType::Q5_0 => GgmlDType::Q5_0,
        WeightType::Q5_1 => GgmlDType::Q5_1,
        WeightType::Q8_0 => GgmlDType::Q8_0,
        WeightType::Q2K => GgmlDType::Q2K,
        WeightType::Q3K => GgmlDType::Q3K,
        WeightType::Q4K => GgmlDType::Q4K,
        WeightType::Q5K => GgmlDType::Q5K,
        WeightType::Q6K => GgmlDType::Q6K,
    }
}

/// Where a block keeps halves that scale everything.
fn scales(kind: WeightType) -> &'static [usize] {
    match kind {
        WeightType::F32 | WeightType::F16 | WeightType::Bf16 => &[],
        WeightType::Q4_0 | WeightType::Q5_0 | WeightType::Q8_0 => &[0],
        WeightType::Q4_1 | WeightType::Q5_1 | WeightType::Q4K | WeightType::Q5K => &[0, 2],
        WeightType::Q2K => &[80, 82],
        WeightType::Q3K => &[108],
        WeightType::Q6K => &[208],
    }
}

/// A row of random blocks, made to hold numbers only: no exponent is that of infinities and NaNs.
fn row() -> impl Strategy<Value = (WeightType, Vec<u8>)> {
    let kind = proptest::sample::select(WeightType::ALL.to_vec());
    kind.prop_flat_map(|kind| {
        let blocks = 256 / kind.block() * kind.block_bytes();
        let row = proptest::collection::vec(any::<u8>(), blocks);
        (Just(kind), row).prop_map(|(kind, mut bytes)| {
            for block in bytes.chunks_exact_mut(kind.block_bytes()) {
                let plain = [kind.block_bytes() - 2];
                let halves = if kind.is_quantised() { scales(kind) } else { &plain };
                halves.iter().for_each(|at| block[at + 1] &= 0b1011_1111);
            }
            (kind, bytes)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No tolerance: both compute the same products and sums in f32, in the same order.
    #[test]
    fn weights_are_bit_for_bit_those_of_the_reference((kind, bytes) in row()) {
        let tensor = qtensor_from_ggml(theirs(kind), &bytes, vec![1, 256], &Device::Cpu).unwrap();
        let expected: Vec<f32> = tensor.dequantize(&Device::Cpu).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        let mut found = vec![f32::NAN; 256];
        floats(kind, &bytes, &mut found);
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // The one freedom: 0 and -0 are the same weight.
            let same = found.to_bits() == expected.to_bits() || (*found == 0.0 && *expected == 0.0);
            prop_assert!(same, "{} weight {}: {} is not {}", kind, index, found, expected);
        }
    }

    #[test]
    fn a_row_taken_apart_means_its_weights((kind, bytes) in row()) {
        let Some(grid) = kind.grid() else { return Ok(()) };
        let groups = 256 / grid.group;
        let (mut codes, mut scales, mut mins) = (vec![0; 256], vec![f32::NAN; groups], vec![f32::NAN; groups]);
        decode_row(kind, &bytes, &mut codes, &mut scales, &mut mins);
        let mut expected = vec![0.0; 256];
        floats(kind, &bytes, &mut expected);
        for (index, expected) in expected.iter().enumerate() {
            let min = if grid.has_min { mins[index / grid.group] } else { 0.0 };
            let code = f32::from(codes[index]) - f32::from(grid.zero);
            prop_assert_eq!(scales[index / grid.group] * code + min, *expected);
        }
        prop_assert!(grid.has_min || mins.iter().all(|min| min.is_nan()), "absent mins are untouched");
    }
}

#[test]
fn sizes_are_those_of_the_reference() {
    for kind in WeightType::ALL {
        assert_eq!((kind.block(), kind.block_bytes()), (theirs(kind).block_size(), theirs(kind).type_size()));
        assert_eq!(kind.is_quantised(), kind.grid().is_some());
        assert_eq!(kind.row_bytes(512), Some(512 / kind.block() * kind.block_bytes()));
    }
    assert_eq!(WeightType::Q4K.row_bytes(128), None);
    assert_eq!(WeightType::F32.row_bytes(usize::MAX), None);
}

#[test]
fn a_type_is_shown_as_files_call_it() {
    let shown: Vec<String> = WeightType::ALL.iter().map(ToString::to_string).collect();
    let names = "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k";
    assert_eq!(shown.join(" "), names);
}
