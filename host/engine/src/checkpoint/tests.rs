//! Encoded rows out of a GGUF file, in both orders.

use super::*;
use crate::gguf::written::Written;

/// A matrix of eight rows of 32 weights of 4 bits, row r being all of code r; a bias of eight; the same in 4 bits.
fn checkpoint() -> Checkpoint {
    let mut matrix = Vec::new();
    for row in 0..8u8 {
        matrix.extend_from_slice(&[0x00, 0x3C]); // a scale of 1
        matrix.extend_from_slice(&[row << 4 | row; 16]);
    }
    let bias: Vec<u8> = (0..8u8).flat_map(|row| f32::from(row).to_le_bytes()).collect();
    let header = Written::new(3, 4, 0)
        .tensor("matrix", &[32, 8], (2, 0))
        .tensor("bias", &[8], (0, 160))
        .tensor("packed bias", &[32], (2, 192))
        .tensor("other", &[32], (20, 0))
        .padded(32, 0);
    let file = header.bytes(&matrix).padded(32, 0).bytes(&bias).padded(32, 32).0;
    let files = vec![("m.gguf", &*file.leak())].leak();
    Checkpoint::open(&ModelFiles::Embedded { name: "m", files }).unwrap()
}

fn needed(name: &str, shape: &[usize], rows: RowOrder) -> Needed {
    Needed { name: name.to_owned(), shape: shape.to_vec(), rows }
}

/// The first weight of each row, and its kind.
fn firsts(needed: &Needed) -> (Vec<f32>, WeightType) {
    let raw = checkpoint().read(needed).unwrap();
    let step = if raw.rows == 1 { 1 } else { raw.width };
    (raw.floats().into_iter().step_by(step).collect(), raw.kind)
}

#[test]
fn rows_are_given_as_they_are_stored() {
    let (rows, kind) = firsts(&needed("matrix", &[8, 32], RowOrder::AsStored));
    assert_eq!(
        (rows.as_slice(), kind),
        (&[-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0][..], WeightType::Q4_0)
    );
    assert_eq!(checkpoint().layout(), Layout::Gguf);
    assert!(checkpoint().gguf().is_some());
}

#[test]
fn pairs_of_neighbours_become_halves_of_a_head() {
    let order = RowOrder::Unpaired { head_dim: 4 };
    let (rows, _) = firsts(&needed("matrix", &[8, 32], order));
    assert_eq!(rows, [-8.0, -6.0, -7.0, -5.0, -4.0, -2.0, -3.0, -1.0]);
    let (bias, _) = firsts(&needed("bias", &[8], order));
    assert_eq!(bias, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
}

#[test]
fn what_cannot_be_read_is_told_by_name() {
    let told = |needed| checkpoint().read(&needed).err().unwrap();
    let error = told(needed("packed bias", &[32], RowOrder::Unpaired { head_dim: 4 }));
    assert!(
        matches!(&error, EngineError::TensorType { tensor, found, .. } if tensor == "packed bias" && found == "q4_0")
    );
    let error = told(needed("other", &[32], RowOrder::AsStored));
    assert!(matches!(&error, EngineError::TensorType { found, .. } if found == "IQ4_NL"), "{error}");
    let error = told(needed("matrix", &[32, 8], RowOrder::AsStored));
    assert_eq!(
        error.to_string(),
        "tensor matrix in m.gguf has shape [8, 32], but the config asks for [32, 8]"
    );
    let error = told(needed("absent", &[1], RowOrder::AsStored));
    assert!(matches!(&error, EngineError::MissingTensor { file, .. } if file == "m.gguf"), "{error}");
}

#[test]
fn a_model_in_parts_is_refused() {
    let file = Written::new(3, 0, 1).entry("split.count", 2, &3u16.to_le_bytes()).0;
    let files = vec![("m-00001-of-00003.gguf", &*file.leak())].leak();
    let error = Checkpoint::open(&ModelFiles::Embedded { name: "m", files }).err().unwrap();
    assert_eq!(error.to_string(), "m-00001-of-00003.gguf: split.count is 3; merge the parts into one file");
}
