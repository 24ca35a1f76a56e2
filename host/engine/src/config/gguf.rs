//! The config in the metadata of a GGUF file.
//!
//! Such a file states less than a `config.json`: biases and a head of its own show as tensors, and what no key holds is
//! agreed upon between those who write and those who run such files. The agreements followed here are those of the
//! llama.cpp converters. Norms have no offset, since the converters fold it into the weights.

mod end;
mod positions;
mod values;

use super::family::{self, Biases, Family, Softcap, Windows};
use super::{Config, LAYERS_MAX, Span};
use crate::EngineError;
use crate::gguf::Metadata;
pub(super) use positions::divide_by_factors;
use values::Values;

/// Reads and checks what the metadata and the names of the tensors say.
pub(super) fn read(metadata: &Metadata, has: &dyn Fn(&str) -> bool) -> Result<Config, EngineError> {
    let values = &Values::of(metadata)?;
    let architecture = values.architecture();
    let family = family::of_gguf(architecture).ok_or_else(|| EngineError::Architecture {
        file: metadata.file().to_owned(),
        found: vec![architecture.to_owned()],
    })?;
    let hidden = values.required_size("embedding_length")?;
    let (heads, kv_heads) = heads(values)?;
    let head_dim = head_dim(values, hidden / heads)?;
    refuse_what_is_not_implemented(values, head_dim, has)?;
    let layers = layers(values)?;
    let context = values.required_size("context_length")?;
    let vocabulary = vocabulary(values)?;
    let qkv_bias = family.biases == Biases::Inputs || has("blk.0.attn_q.bias");
    let ropes = positions::ropes(values, family, context)?;
    let query_width = if family.layers_of_shared_width == Some(layers) { hidden / heads } else { head_dim };
    Ok(Config {
        architecture: family.class.to_owned(),
        vocabulary,
        context,
        hidden,
        intermediate: values.required_size("feed_forward_length")?,
        layers,
        heads,
        kv_heads,
        head_dim,
        norm_eps: values.required_positive("attention.layer_norm_rms_epsilon")?,
        tied: !has("output.weight"),
        eos: end::tokens(metadata, vocabulary)?,
        attention: spans(values, family, (layers, context))?,
        ropes,
        qkv_bias,
        output_bias: has("blk.0.attn_output.bias"),
        qk_norm: family.qk_norm,
        norm_offset: 0.0,
        post_norms: family.post_norms,
        activation: family.activation.1,
        embedding_scale: family.embedding_scale(hidden),
        attention_scale: (query_width as f64).powf(-0.5) as f32,
        attention_softcap: softcap(values, "attn_logit_softcapping", family.attention_softcap)?,
        logit_softcap: softcap(values, "final_logit_softcapping", family.logit_softcap)?,
    })
}

fn refuse_what_is_not_implemented(
    values: &Values<'_>,
    head_dim: usize,
    has: &dyn Fn(&str) -> bool,
) -> Result<(), EngineError> {
    for key in ["attention.value_length", "rope.dimension_count"] {
        values.only(key, head_dim, "the width of a query head")?;
    }
    if values.flag("attention.causal")? == Some(false) {
        return Err(values.wrong("attention.causal", "is false; only causal attention is implemented"));
    }
    if let Some(experts) = values.nonzero_size("expert_count")? {
        return Err(
            values.wrong("expert_count", format!("is {experts}; mixtures of experts are not implemented"))
        );
    }
    for key in ["attention.scale", "embedding_scale", "residual_scale", "logit_scale"] {
        values.refuse(key)?;
    }
    for part in ["ffn_gate", "ffn_up", "ffn_down"] {
        let tensor = format!("blk.0.{part}.bias");
        if has(&tensor) {
            return Err(EngineError::Config {
                file: values.metadata().file().to_owned(),
                key: tensor,
                problem: "is there; biases of the feed-forward block are not implemented".to_owned(),
            });
        }
    }
    Ok(())
}

fn layers(values: &Values<'_>) -> Result<usize, EngineError> {
    let layers = values.required_size("block_count")?;
    if layers > LAYERS_MAX {
        let problem = format!("is {layers}; it must be a whole number up to {LAYERS_MAX}");
        return Err(values.wrong("block_count", problem));
    }
    Ok(layers)
}

/// Query heads, and key and value heads.
fn heads(values: &Values<'_>) -> Result<(usize, usize), EngineError> {
    let heads = values.required_size("attention.head_count")?;
    let key = "attention.head_count_kv";
    let kv_heads = values.size(key)?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(values.wrong(key, format!("is {kv_heads}; it must divide {heads} heads")));
    }
    Ok((heads, kv_heads))
}

fn head_dim(values: &Values<'_>, even_share: usize) -> Result<usize, EngineError> {
    let key = "attention.key_length";
    let head_dim = values.size(key)?.unwrap_or(even_share);
    if head_dim == 0 || !head_dim.is_multiple_of(2) {
        return Err(values.wrong(key, format!("is {head_dim}; rotary positions need an even number")));
    }
    Ok(head_dim)
}

fn vocabulary(values: &Values<'_>) -> Result<usize, EngineError> {
    let key = "vocab_size";
    match (values.size(key)?, values.metadata().strings(end::TOKENS)?) {
        (Some(size), _) => Ok(size),
        (None, Some(tokens)) if !tokens.is_empty() => Ok(tokens.len()),
        (None, _) => Err(values.wrong(key, format!("is missing, and so are {}", end::TOKENS))),
    }
}

/// The span of every layer.
fn spans(
    values: &Values<'_>,
    family: &Family,
    (layers, context): (usize, usize),
) -> Result<Vec<Span>, EngineError> {
    let key = "attention.sliding_window";
    let stated = values.nonzero_size(key)?;
    let Windows::AllButEach { period } = family.windows else {
        // A window of the whole context is none.
        return match stated.filter(|&window| window < context) {
            None => Ok(vec![Span { window: None, rope: 0 }; layers]),
            Some(window) => {
                let problem = format!("is {window}; this architecture has no rule for which layers have it");
                Err(values.wrong(key, problem))
            }
        };
    };
    let period = values.size("attention.sliding_window_pattern")?.unwrap_or(period);
    let local = Span { window: stated, rope: usize::from(family.local_theta.is_some()) };
    let span = |layer: usize| {
        let full = stated.is_none() || (layer + 1).is_multiple_of(period);
        if full { Span { window: None, rope: 0 } } else { local }
    };
    Ok((0..layers).map(span).collect())
}

fn softcap(values: &Values<'_>, key: &str, softcap: Softcap) -> Result<Option<f32>, EngineError> {
    let stated = values.nonzero_positive(key)?;
    match (softcap, stated) {
        (Softcap::ByKey { absent }, _) => Ok(stated.or(absent).map(|cap| cap as f32)),
        (Softcap::Never, None) => Ok(None),
        (Softcap::Never, Some(cap)) => {
            Err(values.wrong(key, format!("is {cap}; this architecture is run without a cap only")))
        }
    }
}

#[cfg(test)]
mod tests;
