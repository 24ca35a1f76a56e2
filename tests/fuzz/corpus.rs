//! What mutations begin with: small files beside this one, and what the tree has anyway.

use std::fs;
use std::path::{Path, PathBuf};

/// An input that is read well, or was not once.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    /// The file that it is, without its folder.
    pub(crate) name: String,
    /// For those that are a part of something: of what.
    pub(crate) folder: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// Every file of a folder of `corpus`, and of what failed once.
pub(crate) fn of(target: &str) -> Vec<Seed> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut seeds = files(&corpus.join("findings"));
    seeds.retain(|seed| seed.name.starts_with(target));
    seeds.extend(files(&corpus.join(target)));
    seeds
}

/// Every file of a folder, in the order of their names; none if there is no such folder.
pub(crate) fn files(folder: &Path) -> Vec<Seed> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let seed = |path: PathBuf| Seed {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        folder: folder.to_owned(),
        bytes: fs::read(&path).expect("a file of the tree can be read"),
    };
    paths.into_iter().map(seed).collect()
}

/// A folder of the tree.
pub(crate) fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
