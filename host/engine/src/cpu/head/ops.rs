//! The operations of a head that work on each row by itself.
//!
//! Lanes run over the numbers of a row and sums have one fixed order, as everywhere in `cpu`.

use crate::cpu::group::Group;
use crate::cpu::math::{exp, gelu_erf, sigmoid};
use crate::cpu::rowwise::{Hands, Rows};
use crate::cpu::simd::{Isa, LANES, Work, dispatch, load_up_to, store_up_to};
use crate::heads::{Map, Op};

/// Computes a node, which is no product, row by row.
pub(super) fn each_row(
    hands: Hands<'_>,
    (op, reads): (&Op<Group>, &[usize]),
    before: &[Rows],
    out: &mut Rows,
) {
    let width = out.width;
    let grain = GRAIN.div_ceil(width);
    hands.team.each(grain, out.split(), |row, out| {
        let sources = Sources { before, reads, row };
        dispatch(hands.level, Compute { op, sources, out: &mut out[..width] });
    });
}

/// The rows that a row is computed from.
#[derive(Clone, Copy)]
struct Sources<'a> {
    before: &'a [Rows],
    reads: &'a [usize],
    row: usize,
}

impl<'a> Sources<'a> {
    /// Those of all values, in order.
    #[inline(always)]
    fn all(self) -> impl Iterator<Item = &'a [f32]> {
        let Self { before, reads, row } = self;
        reads.iter().map(move |&value| {
            let rows = &before[value];
            &rows.row(row)[..rows.width]
        })
    }

    /// That of the first value.
    #[inline(always)]
    fn first(self) -> &'a [f32] {
        let rows = &self.before[self.reads[0]];
        &rows.row(self.row)[..rows.width]
    }
}

/// One row of one node.
struct Compute<'a> {
    op: &'a Op<Group>,
    sources: Sources<'a>,
    out: &'a mut [f32],
}

impl Work for Compute<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        let Self { op, sources, out } = self;
        let x = sources.first();
        match op {
            Op::Linear(_) => unreachable!("products are for all rows together"),
            Op::Concat => concat(sources, out),
            Op::LayerNorm { scale, shift, eps } => layer_norm(isa, x, (scale, shift, *eps), out),
            Op::ScaleShift { scale, shift } => scale_shift(isa, x, (scale, shift), out),
            Op::Map(map) => mapped(isa, *map, x, out),
            Op::Softmax => softmax(isa, x, out),
            Op::Add => add(isa, sources, out),
            Op::Pick(index) => out[0] = x[*index],
        }
    }
}

#[inline(always)]
fn concat(sources: Sources<'_>, out: &mut [f32]) {
    let mut rest = out;
    for x in sources.all() {
        let (part, after) = rest.split_at_mut(x.len());
        part.copy_from_slice(x);
        rest = after;
    }
}

/// Mean and variance in two passes: a difference of large sums would lose what is left of small ones.
#[inline(always)]
fn layer_norm<I: Isa>(isa: I, x: &[f32], (scale, shift, eps): (&[f32], &[f32], f32), out: &mut [f32]) {
    let count = x.len() as f32;
    let mut sum = isa.splat(0.0);
    for x in x.chunks(LANES) {
        sum = isa.add(sum, load_up_to(isa, x, 0.0));
    }
    let mean = isa.sum(sum) / count;
    let mut squares = isa.splat(0.0);
    for x in x.chunks(LANES) {
        let distance = isa.sub(load_up_to(isa, x, mean), isa.splat(mean));
        squares = isa.fma(distance, distance, squares);
    }
    let inverse = 1.0 / (isa.sum(squares) / count + eps).sqrt();
    let weights = scale.chunks(LANES).zip(shift.chunks(LANES));
    for ((x, (scale, shift)), out) in x.chunks(LANES).zip(weights).zip(out.chunks_mut(LANES)) {
        let normed = isa.mul(isa.sub(load_up_to(isa, x, 0.0), isa.splat(mean)), isa.splat(inverse));
        let value = isa.fma(normed, load_up_to(isa, scale, 0.0), load_up_to(isa, shift, 0.0));
        store_up_to(isa, value, out);
    }
}

#[inline(always)]
fn scale_shift<I: Isa>(isa: I, x: &[f32], (scale, shift): (&[f32], &[f32]), out: &mut [f32]) {
    let weights = scale.chunks(LANES).zip(shift.chunks(LANES));
    for ((x, (scale, shift)), out) in x.chunks(LANES).zip(weights).zip(out.chunks_mut(LANES)) {
        let x = load_up_to(isa, x, 0.0);
        store_up_to(isa, isa.fma(x, load_up_to(isa, scale, 0.0), load_up_to(isa, shift, 0.0)), out);
    }
}

#[inline(always)]
fn mapped<I: Isa>(isa: I, map: Map, x: &[f32], out: &mut [f32]) {
    for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let x = load_up_to(isa, x, 0.0);
        let value = match map {
            Map::Gelu => gelu_erf(isa, x),
            // `max` gives its second operand where one is NaN.
            Map::Relu => isa.max(isa.splat(0.0), x),
            Map::Sigmoid => sigmoid(isa, x),
        };
        store_up_to(isa, value, out);
    }
}

#[inline(always)]
fn softmax<I: Isa>(isa: I, x: &[f32], out: &mut [f32]) {
    let mut largest = isa.splat(f32::NEG_INFINITY);
    for x in x.chunks(LANES) {
        largest = isa.max(largest, load_up_to(isa, x, f32::NEG_INFINITY));
    }
    let largest = isa.splat(isa.largest(largest));
    let mut sum = isa.splat(0.0);
    for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
        let weight = exp(isa, isa.sub(load_up_to(isa, x, f32::NEG_INFINITY), largest));
        sum = isa.add(sum, isa.first(weight, x.len(), 0.0));
        store_up_to(isa, weight, out);
    }
    let sum = isa.splat(isa.sum(sum));
    for out in out.chunks_mut(LANES) {
        store_up_to(isa, isa.div(load_up_to(isa, out, 0.0), sum), out);
    }
}

#[inline(always)]
fn add<I: Isa>(isa: I, sources: Sources<'_>, out: &mut [f32]) {
    out.fill(0.0);
    for x in sources.all() {
        for (x, out) in x.chunks(LANES).zip(out.chunks_mut(LANES)) {
            store_up_to(isa, isa.add(load_up_to(isa, out, 0.0), load_up_to(isa, x, 0.0)), out);
        }
    }
}

/// Numbers whose work takes about as long as handing it to another thread.
const GRAIN: usize = 1024;
