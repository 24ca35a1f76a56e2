//! The trained head as its two files.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use crate::features;
use crate::network::{Layer, Network};

/// Writes `r2r.toml` and `r2r.safetensors` into `folder`; `about` becomes the comment that the graph begins with.
pub(crate) fn write(network: &Network, hidden: usize, about: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("r2r.toml"), graph(network, hidden, about))?;
    std::fs::write(folder.join("r2r.safetensors"), weights(network))?;
    Ok(())
}

fn graph(network: &Network, hidden: usize, about: &str) -> String {
    let names: Vec<String> = features::inputs(hidden).into_iter().map(|(name, _)| name).collect();
    let mut nodes = vec![features::probabilities(), node("read", "concat", &format!("{names:?}"))];
    let mut from = "read".to_owned();
    for depth in 1..=network.layers.len() {
        let name = format!("linear-{depth}");
        let tensors = format!("weight = \"{depth}.weight\"\nbias = \"{depth}.bias\"\n");
        nodes.push(node(&name, "linear", &format!("{from:?}")) + &tensors);
        from = name;
        if depth < network.layers.len() {
            let name = format!("relu-{depth}");
            nodes.push(node(&name, "relu", &format!("{from:?}")));
            from = name;
        }
    }
    nodes.push(node("useful", "sigmoid", &format!("{from:?}")));
    let head = format!("weights = \"r2r.safetensors\"\nhidden = {hidden}\nscores = [\"useful\"]\n");
    format!("# {about}\n{head}\n{}", nodes.join("\n"))
}

fn node(name: &str, op: &str, from: &str) -> String {
    format!("[[nodes]]\nname = \"{name}\"\nop = \"{op}\"\nfrom = {from}\n")
}

fn weights(network: &Network) -> Vec<u8> {
    let mut entries = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (depth, layer) in (1..).zip(&network.layers) {
        let tensors = [
            ("weight", vec![layer.outputs, layer.inputs], rows(layer)),
            ("bias", vec![layer.outputs], layer.bias.values.clone()),
        ];
        for (kind, shape, numbers) in tensors {
            let start = data.len();
            data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
            entries.insert(format!("{depth}.{kind}"), entry);
        }
    }
    let mut header = serde_json::Value::Object(entries).to_string();
    // The numbers begin at a multiple of eight bytes, as the format asks for.
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// The weights as the file has them: those of the first output, then those of the second.
fn rows(layer: &Layer) -> Vec<f32> {
    let column = |output| layer.weights.values.iter().skip(output).step_by(layer.outputs);
    (0..layer.outputs).flat_map(column).copied().collect()
}
