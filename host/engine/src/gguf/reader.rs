//! A file's header, read forwards; no length in it is taken on trust.

use crate::EngineError;
use crate::files::Blob;

/// The header so far.
pub(super) struct Reader<'a> {
    blob: &'a mut Blob,
    /// The file's first bytes, as far as they were needed.
    bytes: Vec<u8>,
    /// How many of them are used up.
    used: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the first byte.
    pub(super) fn new(blob: &'a mut Blob) -> Self {
        Self { blob, bytes: Vec::new(), used: 0 }
    }

    /// The next bytes.
    pub(super) fn take(&mut self, len: u64) -> Result<&[u8], EngineError> {
        let used = self.used as u64;
        let Some(end) = used.checked_add(len).filter(|end| *end <= self.blob.len()) else {
            let (len, file) = (self.blob.len(), self.used);
            return Err(self.damaged(format!("its header goes on after byte {file}, but the file has {len}")));
        };
        if end > HEADER_MAX {
            return Err(self.damaged(format!("its header is longer than {HEADER_MAX} bytes")));
        }
        let (start, end) = (self.used, end as usize);
        if end > self.bytes.len() {
            self.fetch(end)?;
        }
        self.used = end;
        Ok(&self.bytes[start..end])
    }

    /// The next bytes as an array.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], EngineError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    /// A number.
    pub(super) fn u32(&mut self) -> Result<u32, EngineError> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number or a length.
    pub(super) fn u64(&mut self) -> Result<u64, EngineError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text with its length before it.
    pub(super) fn text(&mut self) -> Result<String, EngineError> {
        let len = self.u64()?;
        let text = self.take(len)?.to_vec();
        let at = self.used;
        String::from_utf8(text).map_err(|_| self.damaged(format!("the text before byte {at} is not UTF-8")))
    }

    /// Bytes used up.
    pub(super) fn position(&self) -> u64 {
        self.used as u64
    }

    /// Bytes in the file.
    pub(super) fn len(&self) -> u64 {
        self.blob.len()
    }

    /// The file's name.
    pub(super) fn file(&self) -> &str {
        self.blob.name()
    }

    /// The error that says what does not fit.
    pub(super) fn damaged(&self, problem: impl Into<String>) -> EngineError {
        EngineError::Damaged { file: self.file().to_owned(), problem: problem.into() }
    }

    /// The error that says what is not read.
    pub(super) fn wrong(&self, key: &str, problem: impl Into<String>) -> EngineError {
        EngineError::Config { file: self.file().to_owned(), key: key.to_owned(), problem: problem.into() }
    }

    /// Reads on, at least to `end`, which is in the file.
    fn fetch(&mut self, end: usize) -> Result<(), EngineError> {
        let have = self.bytes.len();
        let most = self.blob.len().min(HEADER_MAX) as usize;
        self.bytes.resize(end.max(have + PIECE).min(most), 0);
        self.blob.read_at(have as u64, &mut self.bytes[have..])
    }
}

/// Several times the header of the largest vocabulary; what it holds takes a few times as much when taken apart.
const HEADER_MAX: u64 = 1 << 26;

/// Bytes to read at once.
const PIECE: usize = 1 << 18;
