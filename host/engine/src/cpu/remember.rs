//! What happens between the projections of a layer and its attention: queries and keys are normed and rotated, and keys
//! and values are written to their pages.
//!
//! Cut by pages, since the keys of a page's positions share cache lines: no two threads ever write to the same ones. A
//! token's own keys are there when its attention begins, as this is a phase of its own.

use std::ops::Range;

use super::kv::{Element, PageMut, Pages};
use super::rotation::{Rotate, Rotations};
use super::rowwise::{Hands, Norm, Rows};
use super::simd::{Isa, Work, dispatch};
use super::team::Chunks;
use crate::batch::{Fed, Tables};
use crate::paging::PAGE;

/// The tokens of a pass, cut by the pages that their keys and values go to.
#[derive(Default)]
pub(super) struct Runs {
    /// The pages, ascending.
    pages: Vec<usize>,
    /// The rows of the tokens of each.
    rows: Vec<Range<usize>>,
}

impl Runs {
    /// Of these tokens. Those of a sequence follow each other, so those of a page do.
    pub(super) fn of(fed: &[Fed], tables: &Tables<'_>) -> Self {
        let page = |fed: &Fed| tables.0[fed.sequence][fed.position / PAGE].index();
        let mut row = 0;
        let run = |run: &[Fed]| {
            row += run.len();
            (page(&run[0]), row - run.len()..row)
        };
        let mut runs: Vec<_> = fed.chunk_by(|a, b| page(a) == page(b)).map(run).collect();
        runs.sort_unstable_by_key(|&(page, _)| page);
        let (pages, rows) = runs.into_iter().unzip();
        Self { pages, rows }
    }
}

/// What one layer does.
#[derive(Clone, Copy)]
pub(super) struct Remember<'a> {
    /// Which one.
    pub(super) layer: usize,
    /// The norms of query and key heads, where the model has them.
    pub(super) norms: [Option<&'a Norm>; 2],
    /// The rotations of the pass, and which of the model's rotary embeddings is the layer's.
    pub(super) rotations: (&'a Rotations, usize),
    /// Numbers of a token's queries, and of its keys.
    pub(super) widths: [usize; 2],
    /// The tokens.
    pub(super) fed: &'a [Fed],
}

impl Remember<'_> {
    /// Does it for all tokens: queries are rotated in place.
    pub(super) fn all<E: Element>(self, hands: Hands<'_>, runs: &Runs, pages: &mut Pages<E>, qkv: &mut Rows) {
        let mut runs: Vec<_> = runs.rows.iter().zip(pages.several(&runs.pages)).collect();
        runs.sort_unstable_by_key(|(rows, _)| rows.start);
        let (stride, mut rest) = (qkv.stride, &mut *qkv.all);
        let mut parts = Vec::with_capacity(runs.len());
        for (rows, page) in runs {
            let (qkv, after) = rest.split_at_mut(rows.len() * stride);
            rest = after;
            parts.push(Some(Run { what: self, page, first: rows.start, qkv, stride }));
        }
        hands.team.each(GRAIN, Chunks::new(&mut parts, 1), |_, part| {
            if let Some(run) = part[0].take() {
                dispatch(hands.level, run);
            }
        });
    }
}

/// The tokens of one page.
struct Run<'a, E> {
    what: Remember<'a>,
    page: PageMut<'a, E>,
    /// The first token's row.
    first: usize,
    qkv: &'a mut [f32],
    stride: usize,
}

impl<E: Element> Work for Run<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(mut self, isa: I) {
        let Remember { layer, norms: [query_norm, key_norm], rotations, widths, fed } = self.what;
        self.page.expect(isa, layer);
        for (row, qkv) in (self.first..).zip(self.qkv.chunks_exact_mut(self.stride)) {
            let rotation = rotations.0.of(rotations.1, row);
            let (queries, rest) = qkv.split_at_mut(widths[0]);
            let (keys, values) = rest.split_at_mut(widths[1]);
            Rotate { heads: queries, norm: query_norm, rotation }.with(isa);
            Rotate { heads: keys, norm: key_norm, rotation }.with(isa);
            self.page.write(isa, (layer, fed[row].position % PAGE), (keys, &values[..widths[1]]));
        }
    }
}

/// Pages that are worth handing to another thread, with as little as one token each.
const GRAIN: usize = 2;
