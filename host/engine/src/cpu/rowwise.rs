//! What happens to each row by itself between the products: norms, codes, rotation.

use super::rows::{Block, CodedRows, code_row};
use super::simd::{Isa, LANES, Level, Work, dispatch};
use super::team::{Chunks, Team};

/// An RMS norm: x / sqrt(mean(x^2) + eps) * weight. Widths are those of padded rows, with weights of zero in the padding.
pub(super) struct Norm {
    weight: Vec<f32>,
    /// Numbers in a row without its padding.
    width: usize,
    eps: f32,
}

impl Norm {
    /// A norm with these weights, each of which `offset` is added to.
    pub(super) fn new(mut weight: Vec<f32>, offset: f32, eps: f32) -> Self {
        let width = weight.len();
        weight.iter_mut().for_each(|weight| *weight += offset);
        weight.resize(width.next_multiple_of(LANES), 0.0);
        Self { weight, width, eps }
    }

    /// Norms one padded row.
    #[inline(always)]
    pub(super) fn row<I: Isa>(&self, isa: I, x: &[f32], out: &mut [f32]) {
        let scale = self.scale(isa, x.as_chunks().0);
        let places = out.as_chunks_mut().0.iter_mut().zip(self.weight.as_chunks().0);
        for (x, (out, weight)) in x.as_chunks().0.iter().zip(places) {
            isa.store(normed(isa, x, scale, weight), out);
        }
    }

    /// Norms one row, of any width, where it is.
    #[inline(always)]
    pub(super) fn in_place<I: Isa>(&self, isa: I, x: &mut [f32]) {
        if x.len().is_multiple_of(LANES) {
            let scale = self.scale(isa, x.as_chunks().0);
            for (x, weight) in x.as_chunks_mut().0.iter_mut().zip(self.weight.as_chunks().0) {
                isa.store(normed(isa, x, scale, weight), x);
            }
            return;
        }
        let squares: f32 = x.iter().map(|x| x * x).sum();
        let scale = 1.0 / (squares / self.width as f32 + self.eps).sqrt();
        x.iter_mut().zip(&self.weight).for_each(|(x, weight)| *x = *x * scale * weight);
    }

    #[inline(always)]
    fn scale<I: Isa>(&self, isa: I, x: &[[f32; LANES]]) -> f32 {
        let mut squares = isa.splat(0.0);
        for x in x {
            let x = isa.load(x);
            squares = isa.fma(x, x, squares);
        }
        1.0 / (isa.sum(squares) / self.width as f32 + self.eps).sqrt()
    }
}

#[inline(always)]
fn normed<I: Isa>(isa: I, x: &[f32; LANES], scale: f32, weight: &[f32; LANES]) -> I::Floats {
    isa.mul(isa.mul(isa.load(x), isa.splat(scale)), isa.load(weight))
}

/// Threads and their instruction set.
#[derive(Clone, Copy)]
pub(super) struct Hands<'a> {
    /// The threads.
    pub(super) team: &'a Team,
    /// The instruction set.
    pub(super) level: Level,
}

/// Rows of floats, `stride` apart.
pub(super) struct Rows {
    /// All of them.
    pub(super) all: Vec<f32>,
    /// From one row to the next: the width in whole vectors.
    pub(super) stride: usize,
    /// Numbers in a row.
    pub(super) width: usize,
}

impl Rows {
    /// No rows yet.
    pub(super) fn new(width: usize) -> Self {
        Self { all: Vec::new(), stride: width.next_multiple_of(LANES), width }
    }

    /// Makes room for rows. Padding is zero, everything else arbitrary.
    pub(super) fn resize(&mut self, rows: usize) {
        self.all.resize(rows * self.stride, 0.0);
    }

    /// Row `row` with its padding.
    pub(super) fn row(&self, row: usize) -> &[f32] {
        &self.all[row * self.stride..][..self.stride]
    }

    /// To be written row by row.
    pub(super) fn split(&mut self) -> Chunks<'_, f32> {
        Chunks::new(&mut self.all, self.stride)
    }

    /// How many rows there are.
    pub(super) fn count(&self) -> usize {
        self.all.len() / self.stride
    }
}

/// `x + norm(branch)` where there is a branch, then `out = norm(x)`, coded into `codes` where wanted.
pub(super) fn join_and_norm(
    hands: Hands<'_>,
    (x, branch): (&mut Rows, Option<(&Rows, &Norm)>),
    norm: &Norm,
    out: &mut Rows,
    codes: Option<&mut CodedRows>,
) {
    out.resize(x.count());
    let work = |row: usize, x: &mut [f32], out: &mut [f32], codes: Option<(&mut [i32], &mut [Block])>| {
        let branch = branch.map(|(rows, norm)| (rows.row(row), norm));
        dispatch(hands.level, JoinAndNorm { x, branch, norm, out, codes });
    };
    let grain = ROW_GRAIN.div_ceil(x.width);
    match codes {
        Some(codes) => {
            codes.resize(x.count(), x.width);
            let parts = (x.split(), out.split(), codes.split());
            hands.team.each(grain, parts, |row, (x, out, codes)| work(row, x, out, Some(codes)));
        }
        None => hands.team.each(grain, (x.split(), out.split()), |row, (x, out)| work(row, x, out, None)),
    }
}

struct JoinAndNorm<'a> {
    x: &'a mut [f32],
    branch: Option<(&'a [f32], &'a Norm)>,
    norm: &'a Norm,
    out: &'a mut [f32],
    codes: Option<(&'a mut [i32], &'a mut [Block])>,
}

impl Work for JoinAndNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        if let Some((branch, norm)) = self.branch {
            norm.row(isa, branch, self.out);
            for (x, out) in self.x.as_chunks_mut::<LANES>().0.iter_mut().zip(self.out.as_chunks().0) {
                let sum = isa.add(isa.load(x), isa.load(out));
                isa.store(sum, x);
            }
        }
        self.norm.row(isa, self.x, self.out);
        if let Some((words, blocks)) = self.codes {
            code_row(isa, self.out, words, blocks);
        }
    }
}

/// Codes rows of `width`.
pub(super) fn code(hands: Hands<'_>, rows: &Rows, codes: &mut CodedRows) {
    codes.resize(rows.count(), rows.width);
    hands.team.each(ROW_GRAIN.div_ceil(rows.width), codes.split(), |row, (words, blocks)| {
        dispatch(hands.level, Code { x: &rows.row(row)[..rows.width], words, blocks });
    });
}

struct Code<'a> {
    x: &'a [f32],
    words: &'a mut [i32],
    blocks: &'a mut [Block],
}

impl Work for Code<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        code_row(isa, self.x, self.words, self.blocks);
    }
}

/// Numbers whose row-wise work takes about as long as handing it to another thread.
const ROW_GRAIN: usize = 1024;
