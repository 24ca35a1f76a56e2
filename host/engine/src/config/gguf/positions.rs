//! The rotary embeddings of a GGUF file.

use super::values::Values;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::config::family::Family;
use crate::config::rope::{Rope, Scaling, Yarn};
use crate::{EngineError, encoding, weights};

/// The embedding of full attention, then that of sliding attention where the two differ.
pub(super) fn ropes(values: &Values<'_>, family: &Family, context: usize) -> Result<Vec<Rope>, EngineError> {
    let theta = values.positive("rope.freq_base")?.unwrap_or(family.theta);
    let mut ropes = vec![Rope { theta, scaling: scaling(values, context)? }];
    if let Some(local) = family.local_theta {
        let theta = values.positive("rope.freq_base_swa")?.unwrap_or(local);
        ropes.push(Rope { theta, scaling: Scaling::None });
    }
    Ok(ropes)
}

/// Has the frequencies of full attention divided by the numbers of a tensor, if the file has it: so these files state
/// Llama 3's scaling.
pub(in crate::config) fn divide_by_factors(
    config: &mut Config,
    checkpoint: &mut Checkpoint,
) -> Result<(), EngineError> {
    let needed = weights::rotary_factors(config);
    if !checkpoint.has(&needed.name) {
        return Ok(());
    }
    let raw = checkpoint.read(&needed)?;
    let mut factors = vec![0.0; raw.rows * raw.width];
    encoding::floats(raw.kind, &raw.bytes, &mut factors);
    let unlike = factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0));
    let problem = match (unlike, &config.ropes[0].scaling) {
        (Some(factor), _) => format!("holds {factor}; it must hold positive numbers"),
        (None, Scaling::None) => {
            config.ropes[0].scaling = Scaling::Each { factors };
            return Ok(());
        }
        (None, _) => "is there beside rope.scaling; only one of them is implemented".to_owned(),
    };
    Err(EngineError::Config { file: checkpoint.listing().to_owned(), key: needed.name, problem })
}

fn scaling(values: &Values<'_>, context: usize) -> Result<Scaling, EngineError> {
    let factor = match values.nonzero_positive(FACTOR)? {
        Some(factor) => Some(factor),
        None => values.nonzero_positive("rope.scale_linear")?,
    };
    match (values.text(TYPE)?, factor) {
        (Some("none"), _) | (None | Some("linear"), None) => Ok(Scaling::None),
        (None | Some("linear"), Some(factor)) => Ok(Scaling::Linear { factor }),
        (Some("yarn"), Some(factor)) => yarn(values, factor, context),
        (Some("yarn"), None) => Err(values.wrong(FACTOR, "is missing; it must be a positive number")),
        (Some(other), _) => {
            let problem = format!("is {other:?}; only none, linear and yarn are implemented");
            Err(values.wrong(TYPE, problem))
        }
    }
}

fn yarn(values: &Values<'_>, factor: f64, context: usize) -> Result<Scaling, EngineError> {
    let key = "rope.scaling.yarn_ext_factor";
    if let Some(other) = values.positive(key)?.filter(|mix| *mix != 1.0) {
        return Err(values.wrong(key, format!("is {other}; only 1 is implemented")));
    }
    // The first key is the growth of the vectors as a `config.json` states it; without it, and without the multiplier
    // of DeepSeek's variant, it is what the author of the method gives.
    let stated = values.nonzero_positive("rope.scaling.yarn_attn_factor")?;
    let all = values.nonzero_positive("rope.scaling.yarn_log_multiplier")?;
    let derived = Yarn::growth(factor, 1.0) / all.map_or(1.0, |all| Yarn::growth(factor, all));
    let more = values.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
    Ok(Scaling::Yarn(Yarn {
        factor,
        beta_fast: values.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
        beta_slow: values.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
        original_context: values.size("rope.scaling.original_context_length")?.unwrap_or(context),
        truncate: true,
        attention_factor: more * stated.unwrap_or(derived),
    }))
}

const TYPE: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";
