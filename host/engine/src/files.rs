//! Where a checkpoint's files are: in a directory, or embedded in the binary.
//!
//! Everything that loads goes through [`ModelFiles`], so both kinds take one code path. Nothing here parses.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::EngineError;
use crate::config::CONFIG;

/// The files of one checkpoint: in the Hugging Face layout, or one GGUF file.
#[derive(Clone, Debug)]
pub enum ModelFiles {
    /// A directory with the files, or the path of a GGUF file.
    Directory(PathBuf),
    /// Files in the binary.
    Embedded {
        /// The model's name.
        name: &'static str,
        /// File name and content.
        files: &'static [(&'static str, &'static [u8])],
    },
}

impl ModelFiles {
    /// The last component of the path without `.gguf`, or the embedded name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Directory(path) if is_gguf(path) => {
                path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Self::Directory(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Self::Embedded { name, .. } => (*name).to_owned(),
        }
    }

    /// Where a file is, for people.
    pub(crate) fn shown(&self, file: &str) -> String {
        match self {
            Self::Directory(path) => shown(&path.join(file)),
            Self::Embedded { name, .. } => format!("{file} of the embedded model {name}"),
        }
    }

    /// The whole content of a file that must be there, with the plain reason if it cannot be read.
    pub(crate) fn bytes(&self, file: &str) -> std::io::Result<Cow<'static, [u8]>> {
        match self {
            Self::Directory(path) => std::fs::read(path.join(file)).map(Cow::Owned),
            Self::Embedded { files, .. } => {
                embedded(files, file).map(Cow::Borrowed).ok_or_else(|| ErrorKind::NotFound.into())
            }
        }
    }

    /// The whole content of a file, or `None` if there is no such file.
    pub(crate) fn read(&self, file: &str) -> Result<Option<Cow<'static, [u8]>>, EngineError> {
        match self {
            Self::Directory(path) => match std::fs::read(path.join(file)) {
                Ok(content) => Ok(Some(Cow::Owned(content))),
                // Beside the path of a GGUF file nothing is looked up.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    Ok(None)
                }
                Err(source) => Err(EngineError::Read { file: shown(&path.join(file)), source }),
            },
            Self::Embedded { files, .. } => Ok(embedded(files, file).map(Cow::Borrowed)),
        }
    }

    /// The whole content of a file that must be there.
    pub(crate) fn require(&self, file: &str, needs: &'static str) -> Result<Cow<'static, [u8]>, EngineError> {
        self.read(file)?.ok_or_else(|| self.missing(file, needs))
    }

    /// A file that is read in pieces, or `None` if there is no such file.
    pub(crate) fn open(&self, file: &str) -> Result<Option<Blob>, EngineError> {
        match self {
            Self::Directory(path) => Blob::open(&path.join(file)),
            Self::Embedded { files, .. } => Ok(embedded(files, file).map(|bytes| Blob {
                name: file.to_owned(),
                len: bytes.len() as u64,
                content: Content::Memory(bytes),
            })),
        }
    }

    /// The model's GGUF file: the path itself, or the only one in a directory that has no `config.json`.
    pub(crate) fn gguf(&self) -> Result<Option<Blob>, EngineError> {
        let (place, mut names) = match self {
            Self::Directory(path) if is_gguf(path) && !path.is_dir() => return Blob::open(path),
            Self::Directory(path) => (shown(path), listed(path)?),
            Self::Embedded { name, files } => {
                let names = files.iter().map(|(name, _)| (*name).to_owned()).collect();
                (format!("the embedded model {name}"), names)
            }
        };
        if names.iter().any(|name| name == CONFIG) {
            return Ok(None);
        }
        names.retain(|name| is_gguf(Path::new(name)));
        match names.as_slice() {
            [] => Ok(None),
            [one] => self.open(one),
            _ => Err(EngineError::SeveralModels { place, files: names }),
        }
    }

    /// The error that says a file is not there.
    pub(crate) fn missing(&self, file: &str, needs: &'static str) -> EngineError {
        let place = match self {
            Self::Directory(path) => shown(path),
            Self::Embedded { name, .. } => format!("the embedded model {name}"),
        };
        EngineError::MissingFile { file: file.to_owned(), place, needs }
    }
}

/// An open file that is read by ranges, so that a large checkpoint is never in memory twice.
#[derive(Debug)]
pub(crate) struct Blob {
    name: String,
    len: u64,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Disk(File),
    Memory(&'static [u8]),
}

impl Blob {
    fn open(path: &Path) -> Result<Option<Self>, EngineError> {
        let read = |source| EngineError::Read { file: shown(path), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(read(source)),
        };
        let len = file.metadata().map_err(read)?.len();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Some(Self { name, len, content: Content::Disk(file) }))
    }

    /// Fills `into` with the bytes from `offset` on; the range must lie in the file.
    pub(crate) fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<(), EngineError> {
        let read = |source| EngineError::Read { file: self.name.clone(), source };
        match &mut self.content {
            Content::Disk(file) => {
                file.seek(SeekFrom::Start(offset)).map_err(read)?;
                file.read_exact(into).map_err(read)
            }
            Content::Memory(bytes) => {
                let range =
                    usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..into.len()));
                let bytes = range.ok_or_else(|| read(ErrorKind::UnexpectedEof.into()))?;
                into.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// The file's name without its directory.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// Names of a directory's files, sorted; none if it cannot be listed, as whatever is looked up next says why.
fn listed(path: &Path) -> Result<Vec<String>, EngineError> {
    let Ok(entries) = std::fs::read_dir(path) else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| EngineError::Read { file: shown(path), source })?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

fn embedded(files: &[(&'static str, &'static [u8])], file: &str) -> Option<&'static [u8]> {
    files.iter().find(|(name, _)| *name == file).map(|(_, bytes)| *bytes)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
