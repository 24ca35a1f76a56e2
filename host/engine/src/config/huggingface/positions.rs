//! The rotary embeddings of a config, in the old keys (`rope_theta`, `rope_scaling`, `rope_local_base_freq`) and in the
//! new one (`rope_parameters`).

use serde_json::Value;

use crate::EngineError;
use crate::config::family::Family;
use crate::config::keys::Keys;
use crate::config::rope::{Llama3, Rope, Scaling, Yarn};

/// The embedding of full attention, then that of sliding attention where the two differ.
pub(super) fn ropes(keys: &Keys, family: &Family, context: usize) -> Result<Vec<Rope>, EngineError> {
    refuse_partial(keys)?;
    let theta = keys.positive("rope_theta")?.unwrap_or(family.theta);
    let (old, new) = (keys.object(OLD)?.filter(|keys| keys.names().next().is_some()), keys.object(NEW)?);
    let Some(local_theta) = family.local_theta else {
        let original = keys.size(ORIGINAL)?;
        return Ok(vec![rope(old.or(new).as_ref(), theta, (original, context))?]);
    };
    if let (Some(_), Some(_)) = (&old, &new) {
        return Err(keys.wrong(OLD, format!("is there beside {NEW}; keep the one that is meant")));
    }
    let (mut full, mut local) = (old, None);
    if let Some(new) = new {
        full = new.object("full_attention")?;
        local = new.object("sliding_attention")?;
        if full.is_none() && local.is_none() && new.names().next().is_some() {
            return Err(keys.wrong(NEW, "must hold full_attention and sliding_attention"));
        }
    }
    let local_theta = keys.positive("rope_local_base_freq")?.unwrap_or(local_theta);
    let originals = (None, context);
    Ok(vec![rope(full.as_ref(), theta, originals)?, rope(local.as_ref(), local_theta, originals)?])
}

/// One embedding: `originals` are the original context that is stated around the object, and the one if none is
/// stated anywhere.
fn rope(
    keys: Option<&Keys>,
    theta: f64,
    (stated, absent): (Option<usize>, usize),
) -> Result<Rope, EngineError> {
    let Some(keys) = keys else { return Ok(Rope { theta, scaling: Scaling::None }) };
    refuse_partial(keys)?;
    if let Some(name) = keys.names().find(|name| matches!(keys.get(name), Some(Value::Object(_)))) {
        return Err(
            keys.wrong(name, "is an object; this architecture has one rotary embedding for all layers")
        );
    }
    let theta = keys.positive("rope_theta")?.unwrap_or(theta);
    let original_context = stated.or(keys.size(ORIGINAL)?).unwrap_or(absent);
    let kind = keys.get("rope_type").or_else(|| keys.get("type"));
    let scaling = match kind.map(|kind| kind.as_str().unwrap_or_default()) {
        None if keys.get("factor").is_some() => {
            return Err(keys.wrong("rope_type", "is missing; it must say what the factor is for"));
        }
        None | Some("default") => Scaling::None,
        Some("linear") => Scaling::Linear { factor: keys.required_positive("factor")? },
        Some("llama3") => llama3(keys, original_context)?,
        Some("yarn") => yarn(keys, original_context)?,
        Some(other) => {
            let problem = format!("is {other:?}; only default, linear, llama3 and yarn are implemented");
            return Err(keys.wrong("rope_type", problem));
        }
    };
    Ok(Rope { theta, scaling })
}

fn llama3(keys: &Keys, original_context: usize) -> Result<Scaling, EngineError> {
    let low_freq_factor = keys.required_positive("low_freq_factor")?;
    let high_freq_factor = keys.required_positive("high_freq_factor")?;
    if high_freq_factor <= low_freq_factor {
        let problem = format!("is {high_freq_factor}; it must be above low_freq_factor, {low_freq_factor}");
        return Err(keys.wrong("high_freq_factor", problem));
    }
    let factor = keys.required_positive("factor")?;
    Ok(Scaling::Llama3(Llama3 { factor, low_freq_factor, high_freq_factor, original_context }))
}

fn yarn(keys: &Keys, original_context: usize) -> Result<Scaling, EngineError> {
    let factor = keys.required_positive("factor")?;
    let scales = keys.positive("mscale")?.zip(keys.positive("mscale_all_dim")?);
    let derived = match scales {
        Some((over, under)) => Yarn::growth(factor, over) / Yarn::growth(factor, under),
        None => Yarn::growth(factor, 1.0),
    };
    Ok(Scaling::Yarn(Yarn {
        factor,
        beta_fast: keys.positive("beta_fast")?.unwrap_or(32.0),
        beta_slow: keys.positive("beta_slow")?.unwrap_or(1.0),
        original_context,
        truncate: keys.flag("truncate")?.unwrap_or(true),
        attention_factor: keys.positive("attention_factor")?.unwrap_or(derived),
    }))
}

fn refuse_partial(keys: &Keys) -> Result<(), EngineError> {
    match keys.positive("partial_rotary_factor")? {
        Some(part) if part != 1.0 => {
            let problem = format!("is {part}; only heads that are rotated as a whole are implemented");
            Err(keys.wrong("partial_rotary_factor", problem))
        }
        _ => Ok(()),
    }
}

const OLD: &str = "rope_scaling";
const NEW: &str = "rope_parameters";
const ORIGINAL: &str = "original_max_position_embeddings";
