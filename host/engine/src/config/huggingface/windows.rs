//! Which layers see all positions and which only a window of the latest ones.

use crate::EngineError;
use crate::config::Span;
use crate::config::family::{Family, Windows};
use crate::config::keys::Keys;

/// The span of every layer.
pub(super) fn spans(keys: &Keys, family: &Family, layers: usize) -> Result<Vec<Span>, EngineError> {
    let window = window(keys, family)?;
    let sliding = sliding(keys, family, layers, window.is_some())?;
    let span = |(layer, sliding): (usize, bool)| match (sliding, window) {
        (false, _) => Ok(Span { window: None, rope: 0 }),
        (true, Some(_)) => Ok(Span { window, rope: usize::from(family.local_theta.is_some()) }),
        (true, None) => {
            let problem = format!("is not in use, but layer {layer} is one of sliding attention");
            Err(keys.wrong(WINDOW, problem))
        }
    };
    sliding.into_iter().enumerate().map(span).collect()
}

/// The number of positions that a window has, if windows are in use.
fn window(keys: &Keys, family: &Family) -> Result<Option<usize>, EngineError> {
    let stated = keys.size(WINDOW)?;
    let or_absent = || stated.or_else(|| (!keys.is_null(WINDOW)).then_some(WINDOW_ABSENT));
    match (family.windows, stated) {
        (Windows::Never, None) => Ok(None),
        (Windows::Never, Some(window)) => {
            Err(keys.wrong(WINDOW, format!("is {window}; only null is implemented for {}", family.class)))
        }
        (Windows::Late, _) if keys.flag("use_sliding_window")? != Some(true) => Ok(None),
        (Windows::Late | Windows::Every | Windows::AllButEach { .. }, _) => Ok(or_absent()),
    }
}

/// For every layer whether it is one of sliding attention.
fn sliding(keys: &Keys, family: &Family, layers: usize, has_window: bool) -> Result<Vec<bool>, EngineError> {
    let first = keys.count("max_window_layers")?.unwrap_or(MAX_WINDOW_LAYERS_ABSENT);
    let stated_period = keys.size("sliding_window_pattern")?;
    let rule = |layer: usize| match family.windows {
        Windows::Never => false,
        Windows::Every => has_window,
        Windows::Late => has_window && layer >= first,
        Windows::AllButEach { period } => !(layer + 1).is_multiple_of(stated_period.unwrap_or(period)),
    };
    let by_rule: Vec<bool> = (0..layers).map(rule).collect();
    let Some(types) = keys.texts(TYPES)? else { return Ok(by_rule) };
    let by_type = types.iter().map(|kind| match kind.as_str() {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        _ => Err(keys.wrong(
            TYPES,
            format!("names {kind:?}; only full_attention and sliding_attention are implemented"),
        )),
    });
    let by_type = by_type.collect::<Result<Vec<bool>, _>>()?;
    if by_type.len() != layers {
        let problem = format!("has {} entries for {layers} layers; it must have one for each", by_type.len());
        return Err(keys.wrong(TYPES, problem));
    }
    // The reference runs these classes by their rule alone.
    if matches!(family.windows, Windows::Never | Windows::Every) && by_type != by_rule {
        return Err(keys.wrong(TYPES, format!("mixes kinds of attention, which {} cannot", family.class)));
    }
    Ok(by_type)
}

const WINDOW: &str = "sliding_window";
const TYPES: &str = "layer_types";
const WINDOW_ABSENT: usize = 4096;
const MAX_WINDOW_LAYERS_ABSENT: usize = 28;
