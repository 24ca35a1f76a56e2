//! Checkpoints to test with: the pair, the random models beside the golden files, and copies to damage.

use std::path::{Path, PathBuf};

use engine::{EngineError, LoadOptions, Loaded, ModelFiles, load};
use serde_json::Value;
use tempfile::TempDir;

/// Directory of a model of the pair.
pub(crate) fn pair(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tinypair/models").join(name)
}

/// Directory of a variant of the random model.
pub(crate) fn random(variant: &str) -> PathBuf {
    golden("random").join(variant)
}

/// A file beside the script that makes the golden files.
pub(crate) fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

/// Loads a directory.
pub(crate) fn open(directory: &Path) -> Result<Loaded, EngineError> {
    load("test", &ModelFiles::Directory(directory.to_owned()), LoadOptions::default(), &mut |_| ())
}

/// Reads a JSON file.
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A copy of a checkpoint that a test may change.
pub(crate) struct Copied(TempDir);

impl Copied {
    pub(crate) fn of(directory: &Path) -> Self {
        let copy = TempDir::new().unwrap();
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            // Heads, in a folder of their own, are no part of the checkpoint.
            if entry.path().is_dir() {
                continue;
            }
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        Self(copy)
    }

    /// Changes a JSON file; a file that is missing begins as an empty object.
    pub(crate) fn edit(self, file: &str, change: impl FnOnce(&mut Value)) -> Self {
        let path = self.0.path().join(file);
        let mut value = if path.exists() { json(&path) } else { Value::Object(Default::default()) };
        change(&mut value);
        self.write(file, value.to_string().as_bytes())
    }

    pub(crate) fn write(self, file: &str, content: &[u8]) -> Self {
        std::fs::write(self.0.path().join(file), content).unwrap();
        self
    }

    pub(crate) fn remove(self, file: &str) -> Self {
        std::fs::remove_file(self.0.path().join(file)).unwrap();
        self
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(file)).unwrap()
    }

    pub(crate) fn open(&self) -> Result<Loaded, EngineError> {
        open(self.0.path())
    }

    pub(crate) fn files(&self) -> ModelFiles {
        ModelFiles::Directory(self.0.path().to_owned())
    }
}
