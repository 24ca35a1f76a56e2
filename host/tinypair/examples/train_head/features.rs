//! What the head reads, as numbers to train on.
//!
//! No engine interface gives out hidden states, and none is needed: a head whose scores *are* its inputs, one `pick`
//! for each number, brings them out through the same code that will run the trained head. So what is trained on is
//! what will be read, by construction.

use std::fmt::Write as _;

use anyhow::Result;
use engine::{Head, ModelSpec};

/// The inputs in their order, by the names of values of the graph, with their widths.
pub(crate) fn inputs(hidden: usize) -> [(String, usize); 5] {
    [
        ("hidden".to_owned(), hidden),
        ("token-embedding".to_owned(), hidden),
        (format!("topk-logits({TOP})"), TOP),
        ("probabilities".to_owned(), TOP),
        ("entropy".to_owned(), 1),
    ]
}

/// The node that the inputs name beside the engine's own: the largest logits as probabilities among themselves.
pub(crate) fn probabilities() -> String {
    format!("[[nodes]]\nname = \"probabilities\"\nop = \"softmax\"\nfrom = \"topk-logits({TOP})\"\n")
}

/// The head that gives every input as a score.
pub(crate) fn head(model: &ModelSpec) -> Result<Head> {
    let (mut scores, mut nodes) = (Vec::new(), probabilities());
    for (input, width) in inputs(model.hidden) {
        for index in 0..width {
            let name = format!("{input}[{index}]");
            write!(
                nodes,
                "\n[[nodes]]\nname = \"{name}\"\nop = \"pick\"\nfrom = \"{input}\"\nindex = {index}\n"
            )?;
            scores.push(name);
        }
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("features.toml");
    std::fs::write(&path, format!("weights = \"none.safetensors\"\nscores = {scores:?}\n\n{nodes}"))?;
    // A file without tensors: the length of its header, and the header.
    std::fs::write(folder.path().join("none.safetensors"), b"\x02\0\0\0\0\0\0\0{}")?;
    Ok(Head::load(&path, model)?)
}

/// How many of the largest logits are read.
const TOP: usize = 12;
