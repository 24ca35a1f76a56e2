//! Headers whole, cut, flipped and hostile.

use proptest::prelude::*;

use super::written::Written;
use super::*;
use crate::ModelFiles;

fn read(bytes: Vec<u8>) -> Result<Header, EngineError> {
    let files = vec![("m.gguf", &*bytes.leak())].leak();
    Header::read(&mut ModelFiles::Embedded { name: "m", files }.gguf().unwrap().unwrap())
}

fn list(kind: u32, count: u64, bytes: &[u8]) -> Vec<u8> {
    Written(Vec::new()).u32(kind).u64(count).bytes(bytes).0
}

/// A file with a value of every kind and two tensors.
fn whole(version: u32) -> Vec<u8> {
    let texts = Written(Vec::new()).text("a").text("").text("\u{2581}b").0;
    Written::new(version, 2, 12)
        .entry("u8", 0, &[200])
        .entry("i8", 1, &[0xFE])
        .entry("u16", 2, &513u16.to_le_bytes())
        .entry("i32", 5, &(-7i32).to_le_bytes())
        .entry("f32", 6, &1.5f32.to_le_bytes())
        .entry("flag", 7, &[1])
        .entry("text", 8, &Written(Vec::new()).text("caf\u{e9}").0)
        .entry("u64", 10, &u64::MAX.to_le_bytes())
        .entry("f64", 12, &0.25f64.to_le_bytes())
        .entry("texts", 9, &list(8, 3, &texts))
        .entry("floats", 9, &list(6, 2, &[-1.0f32, 3.0].map(f32::to_le_bytes).concat()))
        .entry("wholes", 9, &list(5, 3, &[1, -1, 6].map(i32::to_le_bytes).concat()))
        .tensor("matrix", &[64, 3], (2, 0))
        .tensor("norm", &[5], (0, 128))
        .padded(32, 128 + 20)
        .0
}

fn problem(header: Result<Header, EngineError>) -> String {
    match header.err() {
        Some(EngineError::Damaged { file, problem }) if file == "m.gguf" => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_are_found_in_any_width() {
    for version in [2, 3] {
        let Header { metadata, .. } = read(whole(version)).unwrap();
        assert_eq!((metadata.u64("u8").unwrap(), metadata.u64("u16").unwrap()), (Some(200), Some(513)));
        assert_eq!((metadata.f32("f32").unwrap(), metadata.f32("f64").unwrap()), (Some(1.5), Some(0.25)));
        assert_eq!(metadata.bool("flag").unwrap(), Some(true));
        assert_eq!(metadata.str("text").unwrap(), Some("caf\u{e9}"));
        assert_eq!(metadata.strings("texts").unwrap().unwrap(), ["a", "", "\u{2581}b"]);
        assert_eq!(metadata.f32s("floats").unwrap().unwrap(), [-1.0, 3.0]);
        assert_eq!(metadata.i32s("wholes").unwrap().unwrap(), [1, -1, 6]);
        assert_eq!(metadata.u64("absent").unwrap(), None);
        assert!(metadata.has("u64") && !metadata.has("absent"));
    }
}

#[test]
fn a_value_of_another_kind_is_told_with_its_key() {
    let Header { metadata, .. } = read(whole(3)).unwrap();
    let told = |error: EngineError| error.to_string();
    assert_eq!(told(metadata.u64("i8").unwrap_err()), "m.gguf: i8 is -2; it must be a whole number from 0");
    assert_eq!(
        told(metadata.u64("text").unwrap_err()),
        "m.gguf: text is \"caf\u{e9}\"; it must be a whole number from 0"
    );
    assert_eq!(
        told(metadata.str("texts").unwrap_err()),
        "m.gguf: texts is a list of 3 texts; it must be a text"
    );
    assert_eq!(told(metadata.bool("u8").unwrap_err()), "m.gguf: u8 is 200; it must be true or false");
    assert_eq!(
        told(metadata.f32("flag").unwrap_err()),
        "m.gguf: flag is true; it must be a number with a fraction"
    );
    assert!(
        metadata.i32s("floats").is_err()
            && metadata.f32s("wholes").is_err()
            && metadata.strings("f32").is_err()
    );
}

#[test]
fn tensors_are_rows_of_a_width_and_lie_behind_the_header() {
    let file = whole(3);
    let data = (file.len() - 148) as u64;
    let tensors = read(file).unwrap().tensors;
    let matrix = TensorInfo {
        name: "matrix".to_owned(),
        shape: vec![3, 64],
        kind: Ok(WeightType::Q4_0),
        start: data,
        len: 3 * 2 * 18,
    };
    assert_eq!(tensors[0], matrix);
    assert_eq!((tensors[1].shape.as_slice(), tensors[1].start, tensors[1].len), (&[5][..], data + 128, 20));
}

#[test]
fn alignment_is_as_the_file_says() {
    let aligned = |alignment: u32, start| {
        let file = Written::new(3, 1, 1)
            .entry("general.alignment", 4, &alignment.to_le_bytes())
            .tensor("t", &[1], (0, start))
            .padded(alignment.max(1) as usize, 132);
        read(file.0)
    };
    let tensor = aligned(128, 128).unwrap().tensors.remove(0);
    assert_eq!(tensor.start, 256);
    assert!(problem(aligned(128, 64)).contains("off the 128 grid"));
    for alignment in [0, 24, 1 << 21] {
        assert!(
            matches!(aligned(alignment, 0), Err(EngineError::Config { key, .. }) if key == "general.alignment")
        );
    }
}

#[test]
fn a_type_that_is_not_read_is_kept_by_name() {
    let file = Written::new(3, 2, 0).tensor("a", &[32], (20, 0)).tensor("b", &[32], (99, 0)).padded(32, 0);
    let kinds: Vec<_> = read(file.0).unwrap().tensors.into_iter().map(|tensor| tensor.kind).collect();
    assert_eq!(kinds, [Err("IQ4_NL".to_owned()), Err("GGUF type 99".to_owned())]);
}

#[test]
fn other_versions_are_told_with_what_to_do() {
    for (version, say) in [(1, "is 1; versions 2 and 3"), (3 << 24, "is big-endian"), (9, "is 9")] {
        let error = read(Written::new(version, 0, 0).0).err().unwrap().to_string();
        assert!(error.starts_with("m.gguf: version ") && error.contains(say), "{error}");
    }
}

#[test]
fn lengths_beyond_the_file_are_damage() {
    let huge = u64::MAX / 2;
    let cases = [
        (Written(b"GGML".to_vec()), "begin with GGUF"),
        (Written(Vec::new()), "the file has 0"),
        (Written::new(3, 0, huge), "goes on after"),
        (Written::new(3, huge, 0), "goes on after"),
        (Written::new(3, 0, 1).u64(huge), "goes on after"),
        (Written::new(3, 0, 1).entry("k", 9, &list(8, huge, &[])), "goes on after"),
        (Written::new(3, 0, 1).entry("k", 9, &list(10, huge, &[])), "goes on after"),
        (Written::new(3, 0, 1).entry("k", 9, &list(9, 1, &[])), "list of lists"),
        (Written::new(3, 0, 1).entry("k", 77, &[]), "type 77"),
        (Written::new(3, 0, 1).u64(1).bytes(&[0xFF]), "not UTF-8"),
        (Written::new(3, 0, 2).entry("k", 0, &[1]).entry("k", 0, &[1]), "k is there twice"),
        (Written::new(3, 1, 0).tensor("t", &[1, 1, 1, 1, 1], (0, 0)), "5 dimensions"),
        (Written::new(3, 1, 0).tensor("t", &[huge, 9], (0, 0)), "cannot have"),
        (Written::new(3, 1, 0).tensor("t", &[33], (2, 0)), "cannot have"),
        (Written::new(3, 1, 0).tensor("t", &[8], (0, 0)).padded(32, 31), "32 bytes from 0 of 31"),
        (Written::new(3, 1, 0).tensor("t", &[8], (0, u64::MAX - 31)), "bytes from"),
        (Written::new(3, 2, 0).tensor("t", &[0], (0, 0)).tensor("t", &[0], (0, 0)), "t is there twice"),
    ];
    for (file, say) in cases {
        let problem = problem(read(file.0));
        assert!(problem.contains(say), "{problem}, not {say}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_file_cut_anywhere_is_damaged(cut in 0.0f64..1.0) {
        let file = whole(3);
        let cut = (file.len() as f64 * cut) as usize;
        problem(read(file[..cut].to_vec()));
    }

    /// Flipped bits may give another valid header, or one that is refused, but never a panic or a huge allocation.
    #[test]
    fn flipped_bits_never_panic(flips in proptest::collection::vec((0usize..700, 0u8..8), 1..4)) {
        let mut file = whole(3);
        for (at, bit) in flips {
            let at = at % file.len();
            file[at] ^= 1 << bit;
        }
        let len = file.len() as u64;
        match read(file) {
            Ok(header) => prop_assert!(header.tensors.iter().all(|tensor| tensor.start + tensor.len <= len)),
            Err(error) => prop_assert!(error.to_string().starts_with("m.gguf"), "{}", error),
        }
    }
}
