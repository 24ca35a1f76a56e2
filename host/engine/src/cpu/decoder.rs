//! The decoder: one forward pass over the tokens of a ragged batch.
//!
//! All architectures run here; what differs is data (`Layer`, `Config`). A pass is a sequence of phases, each shared by
//! the team's threads: products are cut by output columns, everything else by rows. The decoder holds weights and
//! working memory only: KV comes in with the batch.

use std::time::Instant;

use super::attention::{Queries, Scoring, attend};
use super::group::{Ending, Group, Machine};
use super::kv::{Element, Pages};
use super::memory::Region;
use super::product::Inputs;
use super::remember::{Remember, Runs};
use super::rotation::{Frequencies, Rotations};
use super::rows::{BLOCK, Block, CodedRows, code_row};
use super::rowwise::{Hands, Norm, Rows, code, join_and_norm};
use super::simd::{Isa, LANES, Work, dispatch};
use super::team::Chunks;
use crate::Profile;
use crate::batch::{Fed, Tables};
use crate::config::Config;
use crate::paging::{BlockId, PAGE};

/// A model's weights and what it does with them.
pub(super) struct Decoder {
    /// Sizes, and what this architecture does differently.
    pub(super) config: Config,
    pub(super) region: Region,
    /// Token to residual stream.
    pub(super) embedding: Group,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    /// `None`: the embedding is the head too.
    pub(super) head: Option<Group>,
    pub(super) frequencies: Frequencies,
}

/// One layer.
type Layer = crate::layer::Layer<Group, Norm>;

/// Working memory of a pass, kept from step to step.
pub(super) struct Working {
    x: Rows,
    normed: Rows,
    branch: Rows,
    qkv: Rows,
    attended: Rows,
    gated: Rows,
    /// Of what the next product reads.
    codes: CodedRows,
    /// Of `gated`, which are written while `codes` are read.
    gated_codes: CodedRows,
    rotations: Rotations,
    /// Where the pass's keys and values go.
    runs: Runs,
    /// Normed rows whose logits are wanted.
    pub(super) last: Rows,
    last_codes: CodedRows,
    /// Logits of these rows.
    pub(super) logits: Rows,
    /// Where the time of all passes went; `total` is the engine's to count.
    pub(super) spent: Profile,
}

impl Working {
    pub(super) fn new(config: &Config) -> Self {
        let &Config { hidden, intermediate, heads, kv_heads, head_dim, vocabulary, .. } = config;
        Self {
            x: Rows::new(hidden),
            normed: Rows::new(hidden),
            branch: Rows::new(hidden),
            qkv: Rows::new((heads + 2 * kv_heads) * head_dim),
            attended: Rows { width: heads * head_dim, ..Rows::new(heads * head_dim.next_multiple_of(LANES)) },
            gated: Rows::new(intermediate),
            codes: CodedRows::default(),
            gated_codes: CodedRows::default(),
            rotations: Rotations::default(),
            runs: Runs::default(),
            last: Rows::new(hidden),
            last_codes: CodedRows::default(),
            logits: Rows::new(vocabulary),
            spent: Profile::default(),
        }
    }
}

/// What one step runs on.
pub(super) struct Step<'a, E> {
    /// Threads and instructions.
    pub(super) hands: Hands<'a>,
    /// The tokens.
    pub(super) fed: &'a [Fed],
    /// Where their sequences are.
    pub(super) tables: &'a Tables<'a>,
    /// The memory that they are in.
    pub(super) pages: &'a mut Pages<E>,
}

impl Decoder {
    /// Feeds tokens, writing their KV. The logits of the wanted ones come to be in `working.logits`, in order.
    pub(super) fn forward<E: Element>(&self, step: Step<'_, E>, working: &mut Working) {
        let Step { hands, fed, tables, pages } = step;
        working.last.resize(fed.iter().filter(|fed| fed.wanted).count());
        let mut done = 0;
        for fed in fed.chunks(PASS_TOKENS) {
            self.pass(Step { hands, fed, tables, pages }, working);
            for (row, _) in fed.iter().enumerate().filter(|(_, fed)| fed.wanted) {
                let stride = working.last.stride;
                working.last.all[done * stride..][..stride].copy_from_slice(working.normed.row(row));
                done += 1;
            }
        }
        if done > 0 {
            self.logits(hands, working);
        }
    }

    /// The layers, for at most [`PASS_TOKENS`] tokens; their final norms come to be in `working.normed`.
    fn pass<E: Element>(&self, mut step: Step<'_, E>, working: &mut Working) {
        let (hands, fed) = (step.hands, step.fed);
        self.frequencies.at(&fed.iter().map(|fed| fed.position), &mut working.rotations);
        working.runs = Runs::of(fed, step.tables);
        self.embed(fed, &mut working.x);
        for rows in [&mut working.qkv, &mut working.attended, &mut working.gated] {
            rows.resize(fed.len());
        }
        let mut post: Option<&Norm> = None;
        for (index, layer) in self.layers.iter().enumerate() {
            join(hands, post, (&layer.attention_norm, &layer.qkv), working);
            self.attention((index, layer), &mut step, working);
            post = layer.attention_post_norm.as_ref();
            self.join_output(hands, (&layer.output, Source::Attended), post, working);
            join(hands, post, (&layer.feed_forward_norm, &layer.gate_up), working);
            let x = inputs(&working.normed, &working.codes);
            let codes = layer.down.takes_codes().then_some(&mut working.gated_codes);
            let begun = now();
            let out = (&mut working.gated, codes);
            layer.gate_up.gated(self.machine(hands), x, self.config.activation, out);
            working.spent.products += begun.elapsed();
            post = layer.feed_forward_post_norm.as_ref();
            self.join_output(hands, (&layer.down, Source::Gated), post, working);
        }
        let branch = post.map(|norm| (&working.branch, norm));
        join_and_norm(hands, (&mut working.x, branch), &self.norm, &mut working.normed, None);
    }

    /// What attention or the feed-forward block gives, straight into the residual stream or, where a norm comes
    /// first, beside it.
    fn join_output(
        &self,
        hands: Hands<'_>,
        (group, source): (&Group, Source),
        post: Option<&Norm>,
        working: &mut Working,
    ) {
        let (rows, codes) = match source {
            Source::Attended => (&working.attended, &working.codes),
            Source::Gated => (&working.gated, &working.gated_codes),
        };
        let x = inputs(rows, codes);
        let begun = now();
        if post.is_some() {
            working.branch.resize(rows.count());
            group.forward(self.machine(hands), x, Ending::Store, &mut working.branch);
        } else {
            group.forward(self.machine(hands), x, Ending::Add, &mut working.x);
        }
        working.spent.products += begun.elapsed();
    }

    fn attention<E: Element>(
        &self,
        (index, layer): (usize, &Layer),
        step: &mut Step<'_, E>,
        working: &mut Working,
    ) {
        let (hands, fed, tables) = (step.hands, step.fed, step.tables);
        let Config { heads, kv_heads, head_dim: dim, .. } = self.config;
        let x = inputs(&working.normed, &working.codes);
        let begun = now();
        layer.qkv.forward(self.machine(hands), x, Ending::Store, &mut working.qkv);
        working.spent.products += begun.elapsed();
        let remember = Remember {
            layer: index,
            norms: [layer.query_norm.as_ref(), layer.key_norm.as_ref()],
            rotations: (&working.rotations, layer.span.rope),
            widths: [heads * dim, kv_heads * dim],
            fed,
        };
        remember.all(hands, &working.runs, step.pages, &mut working.qkv);
        let (pages, qkv) = (&*step.pages, &working.qkv);
        let group = heads / kv_heads;
        let scoring = Scoring {
            scale: self.config.attention_scale,
            soft_cap: self.config.attention_softcap,
            window: layer.span.window,
        };
        let begun = now();
        let wide = group * dim.next_multiple_of(LANES);
        let work = |part: usize, out: &mut [f32], codes: Option<(&mut [i32], &mut [Block])>| {
            let (row, head) = (part / kv_heads, part % kv_heads);
            let Fed { position, sequence, .. } = fed[row];
            let heads = &qkv.row(row)[head * group * dim..][..group * dim];
            let queries = Queries { heads, dim, position, scoring };
            let table = tables.0[sequence];
            let at = (index, head, kv_heads);
            dispatch(hands.level, Attend { queries, pages, table, at, out, codes });
        };
        let (attended, codes) = (&mut working.attended, &mut working.codes);
        let wants_codes = layer.output.takes_codes();
        if wants_codes && dim.is_multiple_of(LANES) && wide.is_multiple_of(BLOCK) {
            codes.resize(fed.len(), attended.width);
            let (words, blocks) = codes.pieces(wide);
            let parts = (Chunks::new(&mut attended.all, wide), words, blocks);
            hands.team.each(1, parts, |part, (out, words, blocks)| work(part, out, Some((words, blocks))));
        } else {
            hands.team.each(1, Chunks::new(&mut attended.all, wide), |part, out| work(part, out, None));
            compact(attended, (heads, dim));
            if wants_codes {
                code(hands, attended, codes);
            }
        }
        working.spent.attention += begun.elapsed();
    }

    fn embed(&self, fed: &[Fed], x: &mut Rows) {
        x.resize(fed.len());
        let (width, stride) = (x.width, x.stride);
        for (fed, x) in fed.iter().zip(x.all.chunks_exact_mut(stride)) {
            self.embedding.first().row(&self.region, fed.token as usize, &mut x[..width]);
            if self.config.embedding_scale != 1.0 {
                x.iter_mut().for_each(|x| *x *= self.config.embedding_scale);
            }
        }
    }

    fn logits(&self, hands: Hands<'_>, working: &mut Working) {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        working.logits.resize(working.last.count());
        if head.takes_codes() {
            code(hands, &working.last, &mut working.last_codes);
        }
        let x = inputs(&working.last, &working.last_codes);
        let begun = now();
        head.forward(self.machine(hands), x, Ending::Store, &mut working.logits);
        working.spent.products += begun.elapsed();
    }

    /// The row of a token in the input table as it is stored, without the model's scaling.
    pub(super) fn embedding_row(&self, token: u32, into: &mut [f32]) {
        self.embedding.first().row(&self.region, token as usize, into);
    }

    fn machine<'a>(&'a self, hands: Hands<'a>) -> Machine<'a> {
        Machine { hands, region: &self.region }
    }
}

/// The last branch joins the residual stream, which is normed for the products of `next`.
fn join(hands: Hands<'_>, post: Option<&Norm>, (norm, next): (&Norm, &Group), working: &mut Working) {
    let branch = post.map(|norm| (&working.branch, norm));
    let codes = next.takes_codes().then_some(&mut working.codes);
    join_and_norm(hands, (&mut working.x, branch), norm, &mut working.normed, codes);
}

/// Some thirty nanoseconds, a few hundred times per step: what the profile costs.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Which rows a product that ends a block reads.
#[derive(Clone, Copy)]
enum Source {
    Attended,
    Gated,
}

fn inputs<'a>(rows: &'a Rows, codes: &'a CodedRows) -> Inputs<'a> {
    Inputs { rows: rows.count(), floats: &rows.all, stride: rows.stride, codes }
}

/// Takes the padding between heads out, where heads are no whole vectors.
fn compact(rows: &mut Rows, (heads, dim): (usize, usize)) {
    let wide = dim.next_multiple_of(LANES);
    if wide == dim {
        return;
    }
    let stride = rows.stride;
    for row in rows.all.chunks_exact_mut(stride) {
        for head in 1..heads {
            row.copy_within(head * wide..head * wide + dim, head * dim);
        }
    }
}

/// Attention of one token's heads that share a key head.
struct Attend<'a, E> {
    queries: Queries<'a>,
    pages: &'a Pages<E>,
    table: &'a [BlockId],
    /// Layer, key head, and how many of these there are.
    at: (usize, usize, usize),
    out: &'a mut [f32],
    /// Where `out` is wanted as codes too.
    codes: Option<(&'a mut [i32], &'a mut [Block])>,
}

impl<E: Element> Work for Attend<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        let Self { queries, pages, table, at: (layer, head, heads), out, codes } = self;
        let page = |index: usize| pages.view(table[index].index(), layer, head);
        // The same thread goes on with the token's next head.
        let first = queries.scoring.first(queries.position) / PAGE;
        let after = (head + 1 < heads).then(|| pages.view(table[first].index(), layer, head + 1));
        attend(isa, queries, (page, after), out);
        if let Some((words, blocks)) = codes {
            code_row(isa, out, words, blocks);
        }
    }
}

/// Most tokens that go through the layers together: enough to read weights rarely, few enough that working memory
/// stays in the caches.
const PASS_TOKENS: usize = 256;
