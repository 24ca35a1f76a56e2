//! Ways to cut what a phase writes into parts that do not overlap.

use std::marker::PhantomData;

/// Something that threads share by parts.
///
/// # Safety
/// Parts of different indices must not overlap, and live no longer than the mutable borrow that the whole holds.
pub(crate) unsafe trait Split: Sync {
    /// One part.
    type Part;

    /// How many parts there are.
    fn count(&self) -> usize;

    /// Part `index`.
    ///
    /// # Safety
    /// `index < count`, and no part of this index was made before.
    unsafe fn part(&self, index: usize) -> Self::Part;
}

/// Nothing to write: indices only.
#[cfg(test)]
pub(crate) struct Count(pub(crate) usize);

// SAFETY: parts are empty.
#[cfg(test)]
unsafe impl Split for Count {
    type Part = ();

    fn count(&self) -> usize {
        self.0
    }

    unsafe fn part(&self, _: usize) {}
}

/// Consecutive pieces of one length; the last may be shorter.
pub(crate) struct Chunks<'a, T> {
    start: *mut T,
    len: usize,
    size: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T> Chunks<'a, T> {
    /// Pieces of `size`, at least 1.
    pub(crate) fn new(all: &'a mut [T], size: usize) -> Self {
        Self { start: all.as_mut_ptr(), len: all.len(), size: size.max(1), borrow: PhantomData }
    }
}

// SAFETY: shared only to hand out parts, which are `&mut [T]`.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

// SAFETY: pieces are disjoint ranges of one slice.
unsafe impl<'a, T: Send> Split for Chunks<'a, T> {
    type Part = &'a mut [T];

    fn count(&self) -> usize {
        self.len.div_ceil(self.size)
    }

    unsafe fn part(&self, index: usize) -> &'a mut [T] {
        let from = index * self.size;
        debug_assert!(from < self.len);
        let len = self.size.min(self.len - from);
        // SAFETY: the range lies in the slice, and the caller makes one part of an index.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), len) }
    }
}

/// Blocks of columns of a row-major matrix, over all its rows.
pub(crate) struct Columns<'a, T> {
    start: *mut T,
    rows: usize,
    stride: usize,
    cuts: &'a [usize],
    /// Columns of the cuts that are one of the matrix.
    per: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T> Columns<'a, T> {
    /// Cuts a matrix with rows of `stride` at ascending columns: block i is `cuts[i]..cuts[i + 1]`.
    pub(crate) fn new(matrix: &'a mut [T], stride: usize, cuts: &'a [usize]) -> Self {
        Self::packed(matrix, stride, cuts, 1)
    }

    /// As [`Columns::new`] for a matrix of which one column stands for `per` columns that the cuts count.
    pub(crate) fn packed(matrix: &'a mut [T], stride: usize, cuts: &'a [usize], per: usize) -> Self {
        let last = cuts.last().map_or(0, |&last| last / per);
        assert!(cuts.is_sorted() && last <= stride, "cuts lie in a row");
        let rows = matrix.len() / stride.max(1);
        Self { start: matrix.as_mut_ptr(), rows, stride, cuts, per, borrow: PhantomData }
    }
}

// SAFETY: shared only to hand out blocks of disjoint columns.
unsafe impl<T: Send> Sync for Columns<'_, T> {}

// SAFETY: blocks are disjoint ranges of columns.
unsafe impl<'a, T: Send> Split for Columns<'a, T> {
    type Part = ColumnBlock<'a, T>;

    fn count(&self) -> usize {
        self.cuts.len().saturating_sub(1)
    }

    unsafe fn part(&self, index: usize) -> ColumnBlock<'a, T> {
        let (from, to) = (self.cuts[index] / self.per, self.cuts[index + 1] / self.per);
        // SAFETY: `from` lies in the first row.
        let start = unsafe { self.start.add(from) };
        ColumnBlock { start, rows: self.rows, stride: self.stride, width: to - from, borrow: PhantomData }
    }
}

/// Some columns of a matrix, over all its rows.
pub(crate) struct ColumnBlock<'a, T> {
    start: *mut T,
    rows: usize,
    stride: usize,
    width: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<T> ColumnBlock<'_, T> {
    /// The block's columns in one row.
    #[inline(always)]
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "a row of the matrix");
        // SAFETY: these columns of this row lie in the matrix and belong to this block alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.width) }
    }
}

/// Parts of several things side by side: part i of each. All have as many parts.
macro_rules! side_by_side {
    ($($name:ident $index:tt),+) => {
        // SAFETY: as of each member.
        unsafe impl<$($name: Split),+> Split for ($($name,)+) {
            type Part = ($($name::Part,)+);

            fn count(&self) -> usize {
                [$(self.$index.count()),+].into_iter().min().unwrap_or(0)
            }

            unsafe fn part(&self, index: usize) -> Self::Part {
                // SAFETY: the caller's promise, for each member.
                unsafe { ($(self.$index.part(index),)+) }
            }
        }
    };
}

side_by_side!(A 0, B 1);
side_by_side!(A 0, B 1, C 2);
