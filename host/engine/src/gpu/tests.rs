//! The tensor operations, on the processor, against the processor's own engine and the reference implementation.

mod distribution;
mod follows;
mod golden;

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use journey::{Draw, JourneyId, Sampling};

use super::{GpuEngine, Place};
use crate::load::load_with;
use crate::{CpuEngine, EngineError, KvType, LoadOptions, ModelFiles, Row};

/// A directory beside the script that makes the golden files.
fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Directory of a model of the embedded pair.
fn pair(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tinypair/models").join(name)
}

/// Room for a few hundred positions of a tiny model.
fn options() -> LoadOptions {
    LoadOptions { kv: KvType::F32, kv_bytes: 8 << 20, ..LoadOptions::default() }
}

fn open_as(directory: &Path, options: LoadOptions, compute: DType) -> GpuEngine {
    let files = ModelFiles::Directory(directory.to_owned());
    let place = Place { device: Device::Cpu, compute };
    let build =
        |spec, model: (&_, _), read: crate::cpu::Read<'_>| super::load(spec, model, options, place, read);
    load_with("test", &files, &mut |_| (), build).unwrap().engine
}

/// The engine under test, in f32.
fn open(directory: &Path, options: LoadOptions) -> GpuEngine {
    open_as(directory, options, DType::F32)
}

/// The engine that it is compared with.
fn open_cpu(directory: &Path, options: LoadOptions) -> CpuEngine {
    let files = ModelFiles::Directory(directory.to_owned());
    crate::load("test", &files, options, &mut |_| ()).unwrap().engine
}

/// Steps; the logits of each row that has a draw.
fn logits(engine: &mut GpuEngine, rows: &[Row<'_>]) -> Result<Vec<Vec<f32>>, EngineError> {
    let mut seen = vec![Vec::new(); rows.len()];
    engine.step_watched(rows, &mut |row, logits| seen[row] = logits.to_vec1().unwrap())?;
    Ok(seen)
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

const GREEDY: Draw<'static> = Draw { candidates: 3, ..Draw::GREEDY };

fn row(journey: u64, from: usize, tokens: &[u32]) -> Row<'_> {
    Row { journey: JourneyId(journey), salt: 0, from, tokens, draws: &[GREEDY] }
}
