//! From names to numbers: which value a node reads, how wide each is, and whether its tensors fit.
//!
//! Everything that an author of a graph can get wrong is found here, before weights are read and long before a step.

use super::HeadError;
use super::graph::{Graph, Input, Map, Node, Op, Product};
use super::tensors::Tensors;
use super::written::{Written, WrittenNode, WrittenOp};
use crate::ModelSpec;

/// Checks a graph for a model.
pub(super) fn resolve(
    written: &Written,
    model: &ModelSpec,
    tensors: &mut Tensors,
) -> Result<Graph<Product>, HeadError> {
    check_model(written, model)?;
    let inputs = inputs(written, model)?;
    let input_widths: Vec<usize> = inputs.iter().map(|(input, _)| input.width(model.hidden)).collect();
    let values = inputs.iter().zip(&input_widths);
    let values = values.map(|((_, name), &width)| Value { name, width, is_read: true }).collect();
    let mut resolving = Resolving { written, tensors, values };
    let nodes = written.nodes.iter().map(|node| resolving.node(node)).collect::<Result<_, _>>()?;
    let scores = resolving.scores()?;
    resolving.check_all_read()?;
    Ok(Graph { inputs: inputs.into_iter().map(|(input, _)| input).collect(), input_widths, nodes, scores })
}

fn check_model(written: &Written, model: &ModelSpec) -> Result<(), HeadError> {
    match written.hidden {
        Some(expected) if expected != model.hidden => Err(HeadError::Model {
            file: written.file.clone(),
            what: "hidden width",
            expected,
            model: model.name.clone(),
            found: model.hidden,
        }),
        _ => Ok(()),
    }
}

/// The inputs that the nodes read, in the order in which they name them.
fn inputs<'a>(written: &'a Written, model: &ModelSpec) -> Result<Vec<(Input, &'a str)>, HeadError> {
    let mut inputs: Vec<(Input, &str)> = Vec::new();
    for node in &written.nodes {
        for name in node.op.reads() {
            let Some(input) = Input::named(name) else { continue };
            if let Input::TopLogits(count) = input
                && count > model.vocabulary
            {
                let problem = format!("reads {name}, but {} has {} logits", model.name, model.vocabulary);
                return Err(refused(written, node, problem));
            }
            if !inputs.iter().any(|(known, _)| *known == input) {
                inputs.push((input, name));
            }
        }
    }
    Ok(inputs)
}

fn refused(written: &Written, node: &WrittenNode, problem: String) -> HeadError {
    HeadError::node(&written.file, &node.name, problem)
}

/// A value that nodes can read.
struct Value<'a> {
    name: &'a str,
    width: usize,
    is_read: bool,
}

struct Resolving<'a> {
    written: &'a Written,
    tensors: &'a mut Tensors,
    values: Vec<Value<'a>>,
}

impl<'a> Resolving<'a> {
    fn node(&mut self, node: &'a WrittenNode) -> Result<Node<Product>, HeadError> {
        let name = node.name.as_str();
        if Input::named(name).is_some() {
            return Err(refused(self.written, node, "has the name of an input".to_owned()));
        }
        if self.values.iter().any(|value| value.name == name) {
            return Err(refused(self.written, node, "is there twice".to_owned()));
        }
        let reads =
            node.op.reads().iter().map(|read| self.find(node, read)).collect::<Result<Vec<_>, _>>()?;
        let Some(&first) = reads.first() else {
            return Err(refused(self.written, node, "reads nothing".to_owned()));
        };
        let width = self.values[first].width;
        let (width, op) = self.op(node, width, &reads)?;
        if width > WIDTH_MAX {
            return Err(refused(self.written, node, format!("is {width} wide; the limit is {WIDTH_MAX}")));
        }
        self.values.push(Value { name, width, is_read: false });
        Ok(Node { reads, width, op })
    }

    /// The width of a node and its operation, which reads `width` numbers first.
    fn op(
        &mut self,
        node: &WrittenNode,
        width: usize,
        reads: &[usize],
    ) -> Result<(usize, Op<Product>), HeadError> {
        let name = &node.name;
        Ok(match &node.op {
            WrittenOp::Concat { .. } => (self.width_of_all(reads), Op::Concat),
            WrittenOp::Linear { from, weight, bias } => {
                let product = self.tensors.product(name, (weight, bias.as_deref()), (width, from))?;
                (product.outputs, Op::Linear(product))
            }
            WrittenOp::LayerNorm { weight, bias, eps, .. } => {
                if !(eps.is_finite() && *eps >= 0.0) {
                    return Err(refused(
                        self.written,
                        node,
                        format!("has eps = {eps}; it is a small number"),
                    ));
                }
                let scale = self.tensors.vector(name, weight, width)?;
                let shift = bias.as_ref().map(|bias| self.tensors.vector(name, bias, width)).transpose()?;
                let shift = shift.unwrap_or_else(|| vec![0.0; width]);
                (width, Op::LayerNorm { scale, shift, eps: *eps })
            }
            WrittenOp::ScaleShift { scale, shift, .. } => {
                let scale = self.tensors.vector(name, scale, width)?;
                (width, Op::ScaleShift { scale, shift: self.tensors.vector(name, shift, width)? })
            }
            WrittenOp::Gelu { .. } => (width, Op::Map(Map::Gelu)),
            WrittenOp::Relu { .. } => (width, Op::Map(Map::Relu)),
            WrittenOp::Sigmoid { .. } => (width, Op::Map(Map::Sigmoid)),
            WrittenOp::Softmax { .. } => (width, Op::Softmax),
            WrittenOp::Add { .. } => {
                if let Some(other) = reads.iter().map(|&read| &self.values[read]).find(|v| v.width != width) {
                    let (first, second) = (self.values[reads[0]].name, other.name);
                    let problem = format!("adds {first}, {width} wide, and {second}, {} wide", other.width);
                    return Err(refused(self.written, node, problem));
                }
                (width, Op::Add)
            }
            WrittenOp::Pick { index, .. } => {
                if *index >= width {
                    let problem = format!("picks number {index} of {width}, counted from 0");
                    return Err(refused(self.written, node, problem));
                }
                (1, Op::Pick(*index))
            }
        })
    }

    fn width_of_all(&self, reads: &[usize]) -> usize {
        reads.iter().map(|&read| self.values[read].width).fold(0, usize::saturating_add)
    }

    /// The value of a name. Only what comes before can be read, so a graph has no cycles.
    fn find(&mut self, node: &WrittenNode, name: &str) -> Result<usize, HeadError> {
        let input = Input::named(name);
        let is_meant =
            |value: &Value<'_>| value.name == name || (input.is_some() && Input::named(value.name) == input);
        if let Some(index) = self.values.iter().position(is_meant) {
            self.values[index].is_read = true;
            return Ok(index);
        }
        let problem = if self.written.nodes.iter().any(|other| other.name == name) {
            format!("reads {name}, which does not come before it")
        } else {
            format!(
                "reads {name}, which is neither a node nor one of the inputs hidden, token-embedding, \
                 topk-logits(<number>) and entropy"
            )
        };
        Err(refused(self.written, node, problem))
    }

    fn scores(&mut self) -> Result<Vec<usize>, HeadError> {
        let Written { file, scores, .. } = self.written;
        let wrong = |problem: String| HeadError::Key { file: file.clone(), key: "scores", problem };
        if scores.is_empty() {
            return Err(wrong("is empty; name the nodes that are scores".to_owned()));
        }
        let mut found = Vec::with_capacity(scores.len());
        for name in scores {
            let Some(index) = self.values.iter().position(|value| value.name == name) else {
                return Err(wrong(format!("names {name}, which is no node")));
            };
            if self.values[index].width != 1 {
                let width = self.values[index].width;
                return Err(wrong(format!("names {name}, which is {width} numbers; pick one of them")));
            }
            self.values[index].is_read = true;
            found.push(index);
        }
        Ok(found)
    }

    /// A value that nobody reads is a name that was mistyped, or work for nothing.
    fn check_all_read(&self) -> Result<(), HeadError> {
        match self.values.iter().find(|value| !value.is_read) {
            Some(value) => {
                let problem = "is read by no node and is no score".to_owned();
                Err(HeadError::node(&self.written.file, value.name, problem))
            }
            None => Ok(()),
        }
    }
}

/// Numbers in a row of a value: far beyond any head, and small enough that sums of widths stay numbers.
const WIDTH_MAX: usize = 1 << 22;
