//! Causal attention of one token over the KV of its sequence, a page at a time.
//!
//! A page's sixteen positions are the lanes of the scores. The softmax is kept up to date as pages go by: when a
//! larger score comes, what was summed so far is scaled down. All of it happens in the order of positions, from the
//! first page that the token sees, so neither the batch nor how the positions were fed can change it.

use super::kv::{Element, PageView};
use super::math::{exp, soft_cap};
use super::simd::{Isa, LANES, prefetch};

/// What one token's attention needs beside keys and values.
#[derive(Clone, Copy)]
pub(super) struct Scoring {
    /// Factor of the query-key products.
    pub(super) scale: f32,
    /// Cap of the scaled products.
    pub(super) soft_cap: Option<f32>,
    /// How many positions, its own included, a token sees; `None` for all.
    pub(super) window: Option<usize>,
}

impl Scoring {
    /// The first position that the token at `position` sees.
    pub(super) fn first(self, position: usize) -> usize {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))
    }
}

/// The query heads of one token that share a key and value head.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    /// (heads, dim).
    pub(super) heads: &'a [f32],
    /// Width of a head.
    pub(super) dim: usize,
    /// The token's position.
    pub(super) position: usize,
    /// How they are scored.
    pub(super) scoring: Scoring,
}

/// Attention of some query heads; `out` is (heads, wide) with `wide` = dim rounded up to whole vectors. `page(i)` is the
/// page of positions `16 i..16 i + 16`; `after` is what will probably be read once this is done.
///
/// Pages are scattered, so that the processor cannot guess the next one: each line of it is asked for while the same
/// line of the page before is used.
#[inline(always)]
pub(super) fn attend<'a, I: Isa, E: Element>(
    isa: I,
    queries: Queries<'_>,
    (page, after): (impl Fn(usize) -> PageView<'a, E>, Option<PageView<'a, E>>),
    out: &mut [f32],
) {
    let Queries { heads: all, dim, position, scoring } = queries;
    let heads = all.len() / dim;
    let wide = dim.next_multiple_of(LANES);
    let first = scoring.first(position);
    let last = position / LANES;
    let together = (all.chunks(TOGETHER * dim)).zip(out[..heads * wide].chunks_mut(TOGETHER * wide));
    for (some, sums) in together {
        sums.fill(0.0);
        let mut states = [Softmax::<I>::new(isa); TOGETHER];
        let states = &mut states[..some.len() / dim];
        let mut now = page(first / LANES);
        for index in first / LANES..=last {
            let from = index * LANES;
            let seen = (first.max(from) - from, (position + 1 - from).min(LANES));
            let next = if index < last { page(index + 1) } else { after.unwrap_or(now) };
            let view = (now, next, seen);
            now = next;
            // The heads share a page's keys and values in registers.
            match states.len() {
                1 => page_of::<I, E, 1>(isa, view, (some, dim), scoring, (states, sums)),
                2 => page_of::<I, E, 2>(isa, view, (some, dim), scoring, (states, sums)),
                3 => page_of::<I, E, 3>(isa, view, (some, dim), scoring, (states, sums)),
                _ => page_of::<I, E, TOGETHER>(isa, view, (some, dim), scoring, (states, sums)),
            }
        }
        for (state, sums) in states.iter().zip(sums.chunks_exact_mut(wide)) {
            let total = isa.splat(isa.sum(state.total));
            for sum in sums.as_chunks_mut::<LANES>().0 {
                let mean = isa.div(isa.load(sum), total);
                isa.store(mean, sum);
            }
        }
    }
}

/// The softmax of one head so far.
#[derive(Clone, Copy)]
struct Softmax<I: Isa> {
    /// The largest score.
    largest: f32,
    /// Sums of e^(score - largest), by position within the page.
    total: I::Floats,
}

impl<I: Isa> Softmax<I> {
    #[inline(always)]
    fn new(isa: I) -> Self {
        Self { largest: f32::NEG_INFINITY, total: isa.splat(0.0) }
    }
}

/// One page for H heads, and the page after it. `seen` is the first position and the one after the last that count.
#[inline(always)]
fn page_of<I: Isa, E: Element, const H: usize>(
    isa: I,
    (page, next, (from, to)): (PageView<'_, E>, PageView<'_, E>, (usize, usize)),
    (queries, dim): (&[f32], usize),
    scoring: Scoring,
    (states, sums): (&mut [Softmax<I>], &mut [f32]),
) {
    let scores = scores::<I, E, H>(isa, (page.keys, next.keys), queries, dim);
    let wide = sums.len() / H;
    let mut weights = [[0.0f32; LANES]; H];
    for h in 0..H {
        let mut score = isa.mul(scores[h], isa.splat(scoring.scale));
        if let Some(cap) = scoring.soft_cap {
            score = soft_cap(isa, score, cap);
        }
        // What lies beyond the sequence's end in a reused page must not count, whatever it is.
        let hidden = |x, fill| not_first(isa, isa.first(x, to, fill), from, fill);
        let largest = isa.largest(hidden(score, f32::NEG_INFINITY));
        if largest > states[h].largest {
            let shrink = exp(isa, isa.splat(states[h].largest - largest));
            let sums = &mut sums[h * wide..][..wide];
            for sum in sums.as_chunks_mut::<LANES>().0 {
                let scaled = isa.mul(isa.load(sum), shrink);
                isa.store(scaled, sum);
            }
            states[h].total = isa.mul(states[h].total, shrink);
            states[h].largest = largest;
        }
        let weight = exp(isa, isa.sub(score, isa.splat(states[h].largest)));
        let weight = hidden(weight, 0.0);
        states[h].total = isa.add(states[h].total, weight);
        isa.store(weight, &mut weights[h]);
    }
    weigh::<I, E, H>(isa, (page.values, next.values), (&weights, (from, to)), wide, sums);
}

/// All lanes but the first `count`, which become `fill`.
#[inline(always)]
fn not_first<I: Isa>(isa: I, x: I::Floats, count: usize, fill: f32) -> I::Floats {
    if count == 0 {
        return x;
    }
    let mut lanes = [0.0; LANES];
    isa.store(x, &mut lanes);
    lanes[..count].fill(fill);
    isa.load(&lanes)
}

/// Products of H queries with the keys of a page: four sums by dimension modulo 4, added pairwise at the end.
#[inline(always)]
fn scores<I: Isa, E: Element, const H: usize>(
    isa: I,
    (keys, next): (&[[E; LANES]], &[[E; LANES]]),
    queries: &[f32],
    dim: usize,
) -> [I::Floats; H] {
    let keys = &keys[..dim];
    let queries: [&[f32]; H] = std::array::from_fn(|h| &queries[h * dim..][..dim]);
    let mut sums = [[isa.splat(0.0); 4]; H];
    let whole = dim / 4 * 4;
    for d in (0..whole).step_by(4) {
        prefetch(isa, next, d * size_of::<[E; LANES]>()..(d + 4) * size_of::<[E; LANES]>());
        for part in 0..4 {
            let key = E::load(isa, &keys[d + part]);
            for h in 0..H {
                sums[h][part] = isa.fma(key, isa.splat(queries[h][d + part]), sums[h][part]);
            }
        }
    }
    for d in whole..dim {
        let key = E::load(isa, &keys[d]);
        for h in 0..H {
            sums[h][d % 4] = isa.fma(key, isa.splat(queries[h][d]), sums[h][d % 4]);
        }
    }
    sums.map(|[a, b, c, d]| isa.add(isa.add(a, b), isa.add(c, d)))
}

/// Adds the page's values, each times its weight, to the sums of H heads, in the order of positions.
#[inline(always)]
fn weigh<I: Isa, E: Element, const H: usize>(
    isa: I,
    (values, next): (&[[E; LANES]], &[[E; LANES]]),
    (weights, (from, to)): (&[[f32; LANES]; H], (usize, usize)),
    wide: usize,
    sums: &mut [f32],
) {
    prefetch(isa, next, 0..size_of_val(next));
    let vectors = wide / LANES;
    let mut vector = 0;
    while vector < vectors {
        let width = if vectors - vector >= WEIGH_VECTORS { WEIGH_VECTORS } else { 1 };
        let at = (vector, vectors);
        match width {
            1 => weigh_vectors::<I, E, H, 1>(isa, values, (weights, from, to), at, sums),
            _ => weigh_vectors::<I, E, H, WEIGH_VECTORS>(isa, values, (weights, from, to), at, sums),
        }
        vector += width;
    }
}

#[inline(always)]
fn weigh_vectors<I: Isa, E: Element, const H: usize, const V: usize>(
    isa: I,
    values: &[[E; LANES]],
    (weights, from, to): (&[[f32; LANES]; H], usize, usize),
    (vector, vectors): (usize, usize),
    sums: &mut [f32],
) {
    // Loops, as closures within closures are not compiled for the instruction set.
    let sums = sums.as_chunks_mut::<LANES>().0;
    let mut held = [[isa.splat(0.0); V]; H];
    for (h, held) in held.iter_mut().enumerate() {
        for (v, held) in held.iter_mut().enumerate() {
            *held = isa.load(&sums[h * vectors + vector + v]);
        }
    }
    for position in from..to {
        let row = &values[position * vectors + vector..][..V];
        let mut value = [isa.splat(0.0); V];
        for (value, row) in value.iter_mut().zip(row) {
            *value = E::load(isa, row);
        }
        for h in 0..H {
            let weight = isa.splat(weights[h][position]);
            for v in 0..V {
                held[h][v] = isa.fma(value[v], weight, held[h][v]);
            }
        }
    }
    for (h, held) in held.into_iter().enumerate() {
        for (v, held) in held.into_iter().enumerate() {
            isa.store(held, &mut sums[h * vectors + vector + v]);
        }
    }
}

/// Query heads whose work on a page shares the loads.
const TOGETHER: usize = 4;

/// Vectors of values that are summed in registers at a time.
const WEIGH_VECTORS: usize = 4;
