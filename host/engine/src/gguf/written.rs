//! GGUF files for tests, written piece by piece so that every piece can be wrong.

/// Bytes of a header as a writer would make them.
pub(crate) struct Written(pub(crate) Vec<u8>);

impl Written {
    pub(crate) fn new(version: u32, tensors: u64, entries: u64) -> Self {
        Self(b"GGUF".to_vec()).u32(version).u64(tensors).u64(entries)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn u64(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.u64(text.len() as u64).bytes(text.as_bytes())
    }

    pub(crate) fn entry(self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.text(key).u32(kind).bytes(value)
    }

    /// `sizes` in the file's order, the width first.
    pub(crate) fn tensor(self, name: &str, sizes: &[u64], (kind, start): (u32, u64)) -> Self {
        let tensor = self.text(name).u32(sizes.len() as u32);
        sizes.iter().fold(tensor, |tensor, size| tensor.u64(*size)).u32(kind).u64(start)
    }

    pub(crate) fn padded(mut self, alignment: usize, data: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(alignment) + data, 0xAB);
        self
    }
}
