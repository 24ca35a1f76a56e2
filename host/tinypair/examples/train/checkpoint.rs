//! Reads and writes a model in the Hugging Face layout.
//!
//! Matrices are transposed and those stored side by side are taken apart, so that any loader of Llama checkpoints can
//! read the result.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use candle_core::{DType, Device, Tensor, Var};
use serde_json::{Value, json};
use tinypair::models::{EmbeddedModel, SMALL};

use crate::attention::Heads;
use crate::model::{Layer, Model, ModelShape, NORM_EPS, POSITIONS, ROPE_THETA};
use crate::rotary::HEAD_DIM;

/// Writes `model` and its tokenizer into the folder `to`.
pub(crate) fn write(model: &Model, tokenizer_json: &[u8], to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    let mut tensors = HashMap::new();
    for (name, tensor) in named(model)? {
        tensors.insert(name, tensor.to_dtype(DType::F16)?);
    }
    let weights = to.join("model.safetensors");
    candle_core::safetensors::save(&tensors, &weights)?;
    fs::write(&weights, with_format(&fs::read(&weights)?)?)?;
    let write = |name: &str, bytes: &[u8]| {
        fs::write(to.join(name), bytes).with_context(|| format!("writing {name} into {}", to.display()))
    };
    write("config.json", serde_json::to_string_pretty(&config(&model.shape))?.as_bytes())?;
    write("tokenizer.json", tokenizer_json)?;
    // These two say how to talk to the models and do not depend on the weights.
    for name in ["generation_config.json", "tokenizer_config.json"] {
        write(name, SMALL.file(name).with_context(|| format!("no embedded {name}"))?)?;
    }
    Ok(())
}

/// The model in the folder `from`.
pub(crate) fn read(from: &Path) -> Result<Model> {
    let file = |name: &str| {
        fs::read(from.join(name)).with_context(|| format!("reading {}", from.join(name).display()))
    };
    parse(&file("config.json")?, &file("model.safetensors")?)
}

/// The model among the embedded ones.
pub(crate) fn embedded(model: &EmbeddedModel) -> Result<Model> {
    let file = |name: &str| model.file(name).with_context(|| format!("{} has no {name}", model.name));
    parse(file("config.json")?, file("model.safetensors")?)
}

fn parse(config: &[u8], weights: &[u8]) -> Result<Model> {
    let shape = shape(&serde_json::from_slice(config)?)?;
    let tensors = candle_core::safetensors::load_buffer(weights, &Device::Cpu)?;
    let tensor = |name: &str| -> Result<Tensor> {
        let tensor = tensors.get(name).with_context(|| format!("no tensor {name}"))?;
        Ok(tensor.to_dtype(DType::F32)?)
    };
    let mut model = Model::new(shape, 0)?;
    for (at, layer) in model.layers.iter_mut().enumerate() {
        for (var, names) in parts(layer) {
            let tensors =
                names.iter().map(|name| tensor(&layer_name(at, name))).collect::<Result<Vec<_>>>()?;
            let joined = Tensor::cat(&tensors, 0)?;
            let joined = if joined.rank() == 2 { joined.t()?.contiguous()? } else { joined };
            ensure!(joined.shape() == var.shape(), "layer {at}: {names:?} have shape {:?}", joined.shape());
            var.set(&joined)?;
        }
    }
    model.embedding.set(&tensor(EMBEDDING)?)?;
    model.final_norm.set(&tensor(FINAL_NORM)?)?;
    Ok(model)
}

/// Every tensor of the checkpoint under its name.
fn named(model: &Model) -> Result<Vec<(String, Tensor)>> {
    let mut out = vec![
        (EMBEDDING.to_owned(), model.embedding.as_tensor().clone()),
        (FINAL_NORM.to_owned(), model.final_norm.as_tensor().clone()),
    ];
    let widths: Vec<Vec<usize>> = model.matrices().into_iter().map(|(_, widths)| widths).collect();
    for (at, layer) in model.layers.iter().enumerate() {
        let mut widths = widths[at * 4..].iter();
        for (var, names) in parts(layer) {
            if var.rank() == 1 {
                out.push((layer_name(at, names[0]), var.as_tensor().clone()));
                continue;
            }
            let mut row = 0;
            let turned = var.t()?;
            for (name, width) in names.iter().zip(widths.next().context("a matrix without widths")?) {
                out.push((layer_name(at, name), turned.narrow(0, row, *width)?.contiguous()?));
                row += width;
            }
        }
    }
    Ok(out)
}

/// Each variable of a layer with the checkpoint's names of what is stored in it, matrices in the order of
/// [`Model::matrices`].
fn parts(layer: &Layer) -> [(&Var, &'static [&'static str]); 6] {
    [
        (&layer.qkv, &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]),
        (&layer.output, &["self_attn.o_proj"]),
        (&layer.gate_up, &["mlp.gate_proj", "mlp.up_proj"]),
        (&layer.down, &["mlp.down_proj"]),
        (&layer.attention_norm, &["input_layernorm"]),
        (&layer.mlp_norm, &["post_attention_layernorm"]),
    ]
}

fn layer_name(layer: usize, part: &str) -> String {
    format!("model.layers.{layer}.{part}.weight")
}

fn config(shape: &ModelShape) -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads.query,
        "num_key_value_heads": shape.heads.key_value,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": f64::from(NORM_EPS * 1e10).round() / 1e10,
        "rope_theta": ROPE_THETA,
        "rope_scaling": null,
        "tie_word_embeddings": true,
        "attention_bias": false,
        "mlp_bias": false,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "torch_dtype": "float16",
        "initializer_range": 0.02,
        "use_cache": true,
    })
}

fn shape(config: &Value) -> Result<ModelShape> {
    let number = |key: &str| -> Result<usize> {
        let value = config[key].as_u64().with_context(|| format!("config.json has no number {key}"))?;
        Ok(usize::try_from(value)?)
    };
    ensure!(number("head_dim")? == HEAD_DIM, "only heads of {HEAD_DIM} are supported");
    Ok(ModelShape {
        vocab: number("vocab_size")?,
        hidden: number("hidden_size")?,
        layers: number("num_hidden_layers")?,
        heads: Heads { query: number("num_attention_heads")?, key_value: number("num_key_value_heads")? },
        feed_forward: number("intermediate_size")?,
    })
}

/// `file` with the metadata that the transformers library asks for, which candle does not write.
fn with_format(file: &[u8]) -> Result<Vec<u8>> {
    let (length, rest) =
        file.split_first_chunk::<8>().context("a safetensors file starts with eight bytes")?;
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length))?);
    let mut header: serde_json::Map<String, Value> = serde_json::from_slice(header)?;
    header.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    Ok([length.as_slice(), &header, data].concat())
}

const EMBEDDING: &str = "model.embed_tokens.weight";
const FINAL_NORM: &str = "model.norm.weight";

#[cfg(test)]
mod tests {
    use tinypair::models::LARGE;

    use super::*;

    #[test]
    fn a_written_checkpoint_reads_back_the_same() {
        let to = std::env::temp_dir().join(format!("tinypair-checkpoint-{}", std::process::id()));
        for embedded_model in [SMALL, LARGE] {
            let model = embedded(&embedded_model).unwrap();
            write(&model, b"{}", &to).unwrap();
            let again = read(&to).unwrap();
            for ((name, kept), (_, read)) in named(&model).unwrap().iter().zip(named(&again).unwrap()) {
                let difference = (kept - read).unwrap().abs().unwrap().sum_all().unwrap();
                assert_eq!(difference.to_scalar::<f32>().unwrap(), 0.0, "{name}");
            }
        }
        fs::remove_dir_all(&to).unwrap();
    }
}
