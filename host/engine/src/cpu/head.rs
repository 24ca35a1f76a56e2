//! Runs heads on what the decoder's last pass left behind.
//!
//! Values are rows as the decoder's are, and matrices are multiplied by the same kernels, so a row's scores have the
//! same bits whatever other rows there are, on any number of threads and on every instruction set.

mod ops;
#[cfg(test)]
mod tests;

use super::group::{Ending, Group, Machine};
use super::matrix::Matrix;
use super::memory::Region;
use super::product::Inputs;
use super::rows::CodedRows;
use super::rowwise::{Hands, Rows};
use crate::EngineError;
use crate::checkpoint::Raw;
use crate::heads::{Graph, Input, Node, Op, Product};
use crate::weights::Needed;

/// A head's weights, packed, and its working memory.
pub(crate) struct Runner {
    region: Region,
    graph: Graph<Group>,
    /// Inputs and nodes, in the graph's numbering.
    values: Vec<Rows>,
}

/// What a head reads of one draw.
#[derive(Clone, Copy)]
pub(super) struct Tap<'a> {
    /// The final norm's row.
    pub(super) hidden: &'a [f32],
    /// The sampled token.
    pub(super) token: u32,
    /// The largest logits, largest first, at least as many as are read.
    pub(super) logits: &'a [f32],
    /// In nats.
    pub(super) entropy: f32,
}

impl Runner {
    /// Packs the matrices of a graph as they are read.
    pub(crate) fn pack(
        graph: Graph<Product>,
        read: &mut dyn FnMut(&Needed) -> Result<Raw, EngineError>,
    ) -> Result<Self, EngineError> {
        let bytes = |product: &Product| Matrix::bytes(product.kind, product.outputs, product.inputs);
        let bytes = graph.products().map(bytes).fold(0, usize::saturating_add);
        let mut region = Region::new(bytes).map_err(|source| EngineError::Memory { bytes, source })?;
        let graph = graph.try_map(|product| {
            let raw = read(&product.needed)?;
            let shape = (product.outputs, product.inputs);
            let matrix = Matrix::pack(&mut region, raw.kind, shape, &raw.bytes);
            let matrix = matrix.ok_or_else(|| product.needed.not_finite())?;
            Ok(Group::new(vec![matrix], product.bias))
        })?;
        let widths = graph.input_widths.iter().copied().chain(graph.nodes.iter().map(|node| node.width));
        let values = widths.map(Rows::new).collect();
        Ok(Self { region, graph, values })
    }

    /// How many of the largest logits it reads.
    pub(crate) fn logits(&self) -> usize {
        self.graph.logits()
    }

    /// Adds the scores of every tap to those that it has. `embed` writes the row of a token in the model's input table.
    pub(super) fn run(
        &mut self,
        hands: Hands<'_>,
        embed: &dyn Fn(u32, &mut [f32]),
        taps: &[Tap<'_>],
        scores: &mut [Vec<f32>],
    ) {
        for (taps, scores) in taps.chunks(ROWS).zip(scores.chunks_mut(ROWS)) {
            self.fill(embed, taps);
            self.compute(hands);
            for (row, scores) in scores.iter_mut().enumerate() {
                scores.extend(self.graph.scores.iter().map(|&value| self.values[value].row(row)[0]));
            }
        }
    }

    /// Puts the inputs of some rows in place.
    fn fill(&mut self, embed: &dyn Fn(u32, &mut [f32]), taps: &[Tap<'_>]) {
        self.values.iter_mut().for_each(|rows| rows.resize(taps.len()));
        for (input, rows) in self.graph.inputs.iter().zip(&mut self.values) {
            let (stride, width) = (rows.stride, rows.width);
            for (tap, row) in taps.iter().zip(rows.all.chunks_exact_mut(stride)) {
                let row = &mut row[..width];
                match input {
                    Input::Hidden => row.copy_from_slice(tap.hidden),
                    Input::TokenEmbedding => embed(tap.token, row),
                    Input::TopLogits(count) => row.copy_from_slice(&tap.logits[..*count]),
                    Input::Entropy => row[0] = tap.entropy,
                }
            }
        }
    }

    /// Computes the nodes, one after the other, for all rows that were filled.
    fn compute(&mut self, hands: Hands<'_>) {
        let Self { region, graph, values } = self;
        let machine = Machine { hands, region };
        for (index, node) in graph.nodes.iter().enumerate() {
            let (before, after) = values.split_at_mut(graph.inputs.len() + index);
            step(machine, node, before, &mut after[0]);
        }
    }
}

/// Computes one node from the values before it.
fn step(machine: Machine<'_>, node: &Node<Group>, before: &[Rows], out: &mut Rows) {
    match &node.op {
        Op::Linear(group) => {
            let x = &before[node.reads[0]];
            let inputs =
                Inputs { rows: x.count(), floats: &x.all, stride: x.stride, codes: &CodedRows::default() };
            group.forward(machine, inputs, Ending::Store, out);
        }
        op => ops::each_row(machine.hands, (op, &node.reads), before, out),
    }
}

/// Most rows that go through a head together: enough to read its weights rarely, few enough that the values of R2R's
/// head, 250 KB a row, stay small beside them.
const ROWS: usize = 64;
