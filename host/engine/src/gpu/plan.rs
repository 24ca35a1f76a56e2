//! Which token of a step goes where: the order of tokens, their places in the KV, and the groups that attend together.
//!
//! Tokens are ordered by group, so that everything but attention can ignore groups, and attention takes whole ranges.
//! A group is several rows with one token each, or one row with several; rows of a group are as long as its longest.

use std::ops::Range;

use candle_core::{DType, Result, Tensor};

use super::Place;
use super::upload::{Packing, Uploaded};
use crate::batch::{Fed, Tables};
use crate::config::Config;
use crate::paging::{BlockId, PAGE};

/// A step, ready to be computed.
pub(super) struct Plan {
    /// Ids, in order.
    pub(super) tokens: Tensor,
    /// Cosines and sines, (tokens, 1, head_dim / 2), by rotary embedding.
    pub(super) rotations: Vec<(Tensor, Tensor)>,
    /// Where keys and values go.
    pub(super) writes: Vec<Write>,
    /// Who attends to what.
    pub(super) groups: Vec<Group>,
    /// Indices of the tokens whose logits are wanted; `None` if there are none.
    pub(super) wanted: Option<Tensor>,
    /// The row of each wanted token.
    pub(super) drawn: Vec<usize>,
}

/// A change of the KV. Indices are spread over all heads, as the operation asks.
pub(super) enum Write {
    /// Blocks that rows begin and do not fill, (kv_heads, blocks, PAGE * head_dim).
    Clear {
        /// Which.
        blocks: Tensor,
        /// As many zeros as indices.
        zeros: Tensor,
    },
    /// Tokens one by one, (kv_heads, count, head_dim).
    Tokens {
        /// Index of the first.
        start: usize,
        /// How many.
        count: usize,
        /// Block * PAGE + position in the block.
        places: Tensor,
    },
    /// Tokens that fill blocks, (kv_heads, count, PAGE * head_dim).
    Blocks {
        /// Index of the first token.
        start: usize,
        /// How many blocks.
        count: usize,
        /// Which.
        blocks: Tensor,
    },
}

/// Rows that attend together.
pub(super) struct Group {
    /// Index of the first token; a row's tokens follow each other.
    pub(super) start: usize,
    /// Number of rows.
    pub(super) rows: usize,
    /// Tokens of each.
    pub(super) each: usize,
    /// The KV that they see, by window of the model.
    pub(super) reaches: Vec<Reach>,
}

/// What a group's rows see of the KV.
pub(super) struct Reach {
    /// Blocks of all rows, as many for each.
    pub(super) blocks: Tensor,
    /// 0 where a token sees a position and a very negative number where not, (rows, 1, each, positions).
    pub(super) mask: Tensor,
}

/// What all steps of a model have in common.
pub(super) struct Planner {
    /// The different windows of the layers.
    windows: Vec<Option<usize>>,
    /// For each rotary embedding its frequencies, and what cosine and sine are multiplied by.
    ropes: Vec<(Vec<f32>, f32)>,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// 0, 1, 2 and so on, as far as any row can see.
    positions: Tensor,
    place: Place,
    /// Fills up the blocks of shorter rows.
    zero: u32,
    /// Type of keys and values.
    kept: DType,
}

/// The tokens of one row, or a piece of them.
#[derive(Clone, Copy)]
struct Run<'a> {
    fed: &'a [Fed],
    table: &'a [BlockId],
}

/// Lists of a group that are on their way.
struct Packed {
    start: usize,
    rows: usize,
    each: usize,
    /// Positions of the tokens.
    asked: Range<usize>,
    /// For each window: first positions by row, and blocks.
    reaches: Vec<(Range<usize>, Range<usize>)>,
}

impl Planner {
    /// For steps of a model.
    pub(super) fn new(config: &Config, place: Place, (zero, kept): (u32, DType)) -> Result<Self> {
        let ropes = config.ropes.iter().map(|rope| (rope.frequencies(config.head_dim), rope.magnitude()));
        let most = config.context.next_multiple_of(PAGE) + PAGE;
        let positions = Tensor::arange(0u32, most as u32, &place.device)?.to_dtype(DType::F32)?;
        let mut windows = Vec::new();
        for span in &config.attention {
            if !windows.contains(&span.window) {
                windows.push(span.window);
            }
        }
        let &Config { heads, kv_heads, head_dim, .. } = config;
        Ok(Self { windows, ropes: ropes.collect(), heads, kv_heads, head_dim, positions, place, zero, kept })
    }

    /// Index of a window among the reaches of a group.
    pub(super) fn window(&self, window: Option<usize>) -> usize {
        self.windows.iter().position(|known| *known == window).unwrap_or(0)
    }

    /// Plans the tokens of a step, of which there is at least one.
    pub(super) fn plan(&self, fed: &[Fed], tables: &Tables<'_>) -> Result<Plan> {
        let groups = self.group(fed, tables);
        let order: Vec<Fed> = groups.iter().flatten().flat_map(|run| run.fed).copied().collect();
        let mut packing = Packing::default();
        let tokens = packing.put(order.iter().map(|fed| fed.token));
        let wanted = packing.put((0u32..).zip(&order).filter(|(_, fed)| fed.wanted).map(|(index, _)| index));
        let mut start = 0;
        let mut packed = Vec::with_capacity(groups.len());
        let mut changes = Changes::default();
        for runs in &groups {
            packed.push(self.pack(start, runs, &mut packing));
            start = changes.add(start, runs);
        }
        let writes = changes.pack(&mut packing);
        let uploaded = packing.upload(&self.place.device)?;
        let wanted = if wanted.is_empty() { None } else { Some(uploaded.list(&wanted)?) };
        Ok(Plan {
            tokens: uploaded.list(&tokens)?,
            rotations: self.rotations(&order)?,
            writes: writes.into_iter().map(|write| self.spread(write, &uploaded)).collect::<Result<_>>()?,
            groups: packed.iter().map(|group| self.unpack(group, &uploaded)).collect::<Result<_>>()?,
            wanted,
            drawn: order.iter().filter(|fed| fed.wanted).map(|fed| fed.sequence).collect(),
        })
    }

    /// Cuts the step into groups: rows with one token by length, the others alone and in pieces.
    fn group<'a>(&self, fed: &'a [Fed], tables: &'a Tables<'a>) -> Vec<Vec<Run<'a>>> {
        let runs = fed.chunk_by(|a, b| a.sequence == b.sequence);
        let runs = runs.map(|fed| Run { fed, table: tables.0[fed[0].sequence] });
        let (mut single, several): (Vec<_>, Vec<_>) = runs.partition(|run| run.fed.len() == 1);
        single.sort_by_key(|run| run.blocks());
        let mut groups: Vec<Vec<Run<'_>>> = Vec::new();
        let mut used = 0;
        for run in single {
            let blocks = run.blocks();
            match groups.last_mut() {
                // Every block that fills up is read for nothing; every group costs launches in every layer.
                Some(group) if (group.len() + 1) * blocks <= used + blocks + (used / 2).max(PADDING_MIN) => {
                    group.push(run);
                    used += blocks;
                }
                _ => {
                    groups.push(vec![run]);
                    used = blocks;
                }
            }
        }
        for Run { fed, table } in several {
            let seen = fed[fed.len() - 1].position + 1;
            let piece = (SCORES_MAX / (self.heads * seen)).max(1);
            groups.extend(fed.chunks(piece).map(|fed| vec![Run { fed, table }]));
        }
        groups
    }

    fn pack(&self, start: usize, runs: &[Run<'_>], packing: &mut Packing<u32>) -> Packed {
        let fed = runs.iter().flat_map(|run| run.fed);
        let asked = packing.put(fed.map(|fed| fed.position as u32));
        let mut reaches = Vec::with_capacity(self.windows.len());
        for window in &self.windows {
            let first = |run: &Run<'_>| {
                let position = run.fed[0].position + 1;
                window.map_or(0, |window| position.saturating_sub(window)) / PAGE
            };
            let most = runs.iter().map(|run| run.blocks() - first(run)).max().unwrap_or(0);
            let firsts = packing.put(runs.iter().map(|run| (first(run) * PAGE) as u32));
            let blocks = packing.put(runs.iter().flat_map(|run| {
                let seen = run.table[first(run)..run.blocks()].iter().map(|block| block.index() as u32);
                seen.chain(std::iter::repeat(self.zero)).take(most)
            }));
            reaches.push((firsts, blocks));
        }
        Packed { start, rows: runs.len(), each: runs[0].fed.len(), asked, reaches }
    }

    fn unpack(&self, packed: &Packed, uploaded: &Uploaded) -> Result<Group> {
        let &Packed { start, rows, each, .. } = packed;
        let floats = |at: &Range<usize>| uploaded.list(at)?.to_dtype(DType::F32);
        let asked = floats(&packed.asked)?.reshape((rows, each, 1))?;
        let reach = |(window, (firsts, blocks)): (&Option<usize>, &(Range<usize>, Range<usize>))| {
            let positions = blocks.len() / rows * PAGE;
            let seen = self.positions.narrow(0, 0, positions)?.reshape((1, 1, positions))?;
            let seen = seen.broadcast_add(&floats(firsts)?.reshape((rows, 1, 1))?)?;
            let mut sees = seen.broadcast_le(&asked)?.to_dtype(DType::F32)?;
            if let Some(window) = window {
                let within = (seen + (*window as f64 - 1.0))?.broadcast_ge(&asked)?;
                sees = (sees * within.to_dtype(DType::F32)?)?;
            }
            let mask = sees.affine(UNSEEN, -UNSEEN)?.reshape((rows, 1, each, positions))?;
            Ok(Reach { blocks: uploaded.list(blocks)?, mask })
        };
        let reaches = self.windows.iter().zip(&packed.reaches).map(reach).collect::<Result<_>>()?;
        Ok(Group { start, rows, each, reaches })
    }

    /// Angles are taken in f32, as the models' reference does, so that far positions turn by the same angle as in
    /// training.
    fn rotations(&self, order: &[Fed]) -> Result<Vec<(Tensor, Tensor)>> {
        let half = self.head_dim / 2;
        let mut packing = Packing::default();
        let mut lists = Vec::with_capacity(self.ropes.len());
        for (frequencies, magnitude) in &self.ropes {
            let angles = order.iter().flat_map(|fed| frequencies.iter().map(|f| fed.position as f32 * f));
            let cosines = packing.put(angles.clone().map(|angle| angle.cos() * magnitude));
            lists.push((cosines, packing.put(angles.map(|angle| angle.sin() * magnitude))));
        }
        let uploaded = packing.upload(&self.place.device)?;
        let turn = |at| uploaded.list(at)?.reshape((order.len(), 1, half))?.to_dtype(self.place.compute);
        lists.iter().map(|(cosines, sines)| Ok((turn(cosines)?, turn(sines)?))).collect()
    }

    /// Indices over all heads and numbers.
    fn spread(&self, change: Change, uploaded: &Uploaded) -> Result<Write> {
        let spread = |at: &Range<usize>, width| {
            let indices = uploaded.list(at)?.reshape((1, at.len(), 1))?;
            indices.broadcast_as((self.kv_heads, at.len(), width))?.contiguous()
        };
        let block = PAGE * self.head_dim;
        Ok(match change {
            Change::Clear(at) => {
                let blocks = spread(&at, block)?;
                Write::Clear { zeros: Tensor::zeros(blocks.shape(), self.kept, &self.place.device)?, blocks }
            }
            Change::Tokens(start, at) => {
                Write::Tokens { start, count: at.len(), places: spread(&at, self.head_dim)? }
            }
            Change::Blocks(start, at) => {
                Write::Blocks { start, count: at.len(), blocks: spread(&at, block)? }
            }
        })
    }
}

impl Run<'_> {
    /// Blocks up to the last token.
    fn blocks(&self) -> usize {
        self.fed[self.fed.len() - 1].position / PAGE + 1
    }
}

/// A change of the KV whose indices are on their way.
enum Change {
    Clear(Range<usize>),
    Tokens(usize, Range<usize>),
    Blocks(usize, Range<usize>),
}

/// The changes of a step.
#[derive(Default)]
struct Changes {
    cleared: Vec<u32>,
    /// Index of the first token, and places.
    tokens: Vec<(usize, Vec<u32>)>,
    /// Index of the first token, and blocks.
    blocks: Vec<(usize, Vec<u32>)>,
}

impl Changes {
    /// Adds those of a group that begins at a token; returns where the next begins.
    fn add(&mut self, mut start: usize, runs: &[Run<'_>]) -> usize {
        for &Run { fed, table } in runs {
            let first = fed[0].position;
            let end = first + fed.len();
            let whole = first.next_multiple_of(PAGE)..end / PAGE * PAGE;
            let block = |position: usize| table[position / PAGE].index() as u32;
            // What is begun and not filled: the last block, unless an earlier step began it.
            if end % PAGE != 0 && end / PAGE * PAGE >= first {
                self.cleared.push(block(end));
            }
            if whole.is_empty() {
                self.places(start, first..end, &block);
            } else {
                self.places(start, first..whole.start, &block);
                let blocks = whole.clone().step_by(PAGE).map(block).collect();
                self.blocks.push((start + whole.start - first, blocks));
                self.places(start + whole.end - first, whole.end..end, &block);
            }
            start += fed.len();
        }
        start
    }

    fn places(&mut self, start: usize, positions: Range<usize>, block: &impl Fn(usize) -> u32) {
        let places = positions.map(|position| block(position) * PAGE as u32 + (position % PAGE) as u32);
        match self.tokens.last_mut() {
            Some((first, list)) if *first + list.len() == start => list.extend(places),
            _ => self.tokens.push((start, places.collect())),
        }
    }

    /// In the order in which they are to be made.
    fn pack(self, packing: &mut Packing<u32>) -> Vec<Change> {
        let mut all = vec![Change::Clear(packing.put(self.cleared))];
        all.extend(self.blocks.into_iter().map(|(start, list)| Change::Blocks(start, packing.put(list))));
        all.extend(self.tokens.into_iter().map(|(start, list)| Change::Tokens(start, packing.put(list))));
        let filled = |change: &Change| match change {
            Change::Clear(at) | Change::Tokens(_, at) | Change::Blocks(_, at) => !at.is_empty(),
        };
        all.retain(filled);
        all
    }
}

/// Scores that are in memory at once, for one layer: 256 MiB in f32.
const SCORES_MAX: usize = 1 << 26;

/// Blocks that a group may always fill up.
const PADDING_MIN: usize = 64;

/// Far below any score, and finite, so that it can be multiplied by zero.
const UNSEEN: f64 = 1e30;
