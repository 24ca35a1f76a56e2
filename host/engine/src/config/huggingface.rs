//! `config.json` and `generation_config.json` of a Hugging Face checkpoint.
//!
//! Defaults are those of the reference implementation; what a class implies comes from `family`.

mod positions;
mod windows;

use serde_json::Value;

use super::family::{self, Biases, Family, Softcap};
use super::keys::Keys;
use super::{Activation, Config, LAYERS_MAX};
use crate::{EngineError, ModelFiles};

/// Reads and checks the config of a checkpoint.
pub(super) fn read(files: &ModelFiles) -> Result<Config, EngineError> {
    let content = files.require(CONFIG, "config.json, model.safetensors and tokenizer.json")?;
    let keys = Keys::parse(CONFIG, &content)?;
    let family = family(&keys)?;
    refuse_what_is_not_implemented(&keys)?;
    let layers = layers(&keys)?;
    let hidden = keys.required_size("hidden_size")?;
    let (heads, kv_heads) = heads(&keys, family)?;
    let head_dim = head_dim(&keys, family, hidden / heads)?;
    let context = keys.required_size("max_position_embeddings")?;
    let vocabulary = keys.required_size("vocab_size")?;
    let output_bias = attention_bias(&keys, family)?;
    let query_width = match family.query_scalar {
        Some(absent) => keys.positive("query_pre_attn_scalar")?.unwrap_or(absent),
        None => head_dim as f64,
    };
    Ok(Config {
        architecture: family.class.to_owned(),
        vocabulary,
        context,
        hidden,
        intermediate: keys.required_size("intermediate_size")?,
        layers,
        heads,
        kv_heads,
        head_dim,
        norm_eps: keys.positive("rms_norm_eps")?.unwrap_or(1e-6),
        tied: keys.flag("tie_word_embeddings")?.unwrap_or(family.tied),
        eos: eos(files, &keys, vocabulary)?,
        attention: windows::spans(&keys, family, layers)?,
        ropes: positions::ropes(&keys, family, context)?,
        qkv_bias: output_bias || family.biases == Biases::Inputs,
        output_bias,
        qk_norm: family.qk_norm,
        norm_offset: family.norm_offset,
        post_norms: family.post_norms,
        activation: activation(&keys, family)?,
        embedding_scale: family.embedding_scale(hidden),
        attention_scale: query_width.powf(-0.5) as f32,
        attention_softcap: softcap(&keys, "attn_logit_softcapping", family.attention_softcap)?,
        logit_softcap: softcap(&keys, "final_logit_softcapping", family.logit_softcap)?,
    })
}
fn family(keys: &Keys) -> Result<&'static Family, EngineError> {
    let named = match keys.get("architectures") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let family = if let [one] = named.as_slice() { family::of_class(one) } else { None };
    family.ok_or_else(|| EngineError::Architecture { file: keys.file().to_owned(), found: named })
}

fn refuse_what_is_not_implemented(keys: &Keys) -> Result<(), EngineError> {
    if keys.flag("mlp_bias")? == Some(true) {
        return Err(keys.wrong("mlp_bias", "is true; biases of the feed-forward block are not implemented"));
    }
    if keys.flag("use_bidirectional_attention")? == Some(true) {
        return Err(
            keys.wrong("use_bidirectional_attention", "is true; only causal attention is implemented")
        );
    }
    if let Some(value) = keys.get("quantization_config") {
        let problem = format!("is {value}; only null is implemented");
        return Err(keys.wrong("quantization_config", problem));
    }
    Ok(())
}

fn layers(keys: &Keys) -> Result<usize, EngineError> {
    let layers = keys.required_size("num_hidden_layers")?;
    if layers > LAYERS_MAX {
        let problem = format!("is {layers}; it must be a whole number up to {LAYERS_MAX}");
        return Err(keys.wrong("num_hidden_layers", problem));
    }
    Ok(layers)
}

/// Query heads, and key and value heads.
fn heads(keys: &Keys, family: &Family) -> Result<(usize, usize), EngineError> {
    let heads = keys.required_size("num_attention_heads")?;
    let key = "num_key_value_heads";
    let absent = if keys.is_null(key) { None } else { family.kv_heads };
    let kv_heads = keys.size(key)?.or(absent).unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(keys.wrong(key, format!("is {kv_heads}; it must divide {heads} heads")));
    }
    Ok((heads, kv_heads))
}

fn head_dim(keys: &Keys, family: &Family, even_share: usize) -> Result<usize, EngineError> {
    let head_dim = keys.size("head_dim")?.or(family.head_dim).unwrap_or(even_share);
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        return Err(keys.wrong("head_dim", format!("is {head_dim}; rotary positions need an even number")));
    }
    Ok(head_dim)
}

/// Whether a key asks for biases of all projections of attention.
fn attention_bias(keys: &Keys, family: &Family) -> Result<bool, EngineError> {
    let asked = keys.flag("attention_bias")?.unwrap_or(false);
    match family.biases {
        Biases::ByKey => Ok(asked),
        Biases::Never if asked => {
            Err(keys.wrong("attention_bias", format!("is true; {} has no biases", family.class)))
        }
        Biases::Never | Biases::Inputs => Ok(false),
    }
}

fn activation(keys: &Keys, family: &Family) -> Result<Activation, EngineError> {
    let (key, absent) = family.activation;
    match keys.get(key) {
        None => Ok(absent),
        Some(Value::String(name)) if name == "silu" => Ok(Activation::Silu),
        Some(Value::String(name)) if name == "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        Some(other) => {
            let problem = format!("is {other}; only \"silu\" and \"gelu_pytorch_tanh\" are implemented");
            Err(keys.wrong(key, problem))
        }
    }
}

fn softcap(keys: &Keys, key: &str, softcap: Softcap) -> Result<Option<f32>, EngineError> {
    let stated = keys.positive(key)?;
    match softcap {
        Softcap::ByKey { .. } if keys.is_null(key) => Ok(None),
        Softcap::ByKey { absent } => Ok(stated.or(absent).map(|cap| cap as f32)),
        Softcap::Never => match stated {
            None => Ok(None),
            Some(cap) => {
                Err(keys.wrong(key, format!("is {cap}; this architecture is run without a cap only")))
            }
        },
    }
}

/// End tokens of the generation config, then those of the config that it does not name.
fn eos(files: &ModelFiles, config: &Keys, vocabulary: usize) -> Result<Vec<u32>, EngineError> {
    let mut all = match files.read(GENERATION)? {
        Some(content) => Keys::parse(GENERATION, &content)?.tokens("eos_token_id", vocabulary)?,
        None => Vec::new(),
    };
    for token in config.tokens("eos_token_id", vocabulary)? {
        if !all.contains(&token) {
            all.push(token);
        }
    }
    Ok(all)
}

/// The config's file name.
pub(crate) const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";

#[cfg(test)]
mod tests;
