//! Memory for weights and KV: regions in huge pages where the system has them.
//!
//! A decode step reads all weights once, so address translation costs as much as the reading itself with small pages:
//! on the machine this was measured on, huge pages read a quarter to a half faster from main memory. The region is
//! mapped, advised and only then touched.

use std::ops::Range;

use memmap2::MmapMut;

/// A region of memory that is handed out part by part, or used as a whole.
pub(crate) struct Region {
    map: MmapMut,
    used: usize,
}

impl Region {
    /// Room for `bytes`.
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        let map = MmapMut::map_anon(bytes.max(ALIGNMENT))?;
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_PAGE {
            // Advice: where the system does not take it, pages stay small.
            map.advise(memmap2::Advice::HugePage).ok();
        }
        Ok(Self { map, used: 0 })
    }

    /// The next `bytes` of the region, aligned to a cache line; zeros.
    ///
    /// # Panics
    /// If they do not fit: the region was made too small.
    pub(crate) fn take(&mut self, bytes: usize) -> (Range<usize>, &mut [u8]) {
        let range = self.used..self.used + bytes;
        self.used = Self::padded(range.end);
        let part = &mut self.map[range.clone()];
        (range, part)
    }

    /// A part that was taken.
    #[inline(always)]
    pub(crate) fn part(&self, range: &Range<usize>) -> &[u8] {
        &self.map[range.clone()]
    }

    /// A part of it, to be written.
    #[inline(always)]
    pub(crate) fn part_mut(&mut self, range: &Range<usize>) -> &mut [u8] {
        &mut self.map[range.clone()]
    }

    /// Bytes that a part of `bytes` occupies.
    pub(crate) fn padded(bytes: usize) -> usize {
        bytes.next_multiple_of(ALIGNMENT)
    }
}

/// Two cache lines: what the processor fetches together.
const ALIGNMENT: usize = 128;

const HUGE_PAGE: usize = 2 << 20;
