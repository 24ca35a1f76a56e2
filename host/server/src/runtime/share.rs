//! A threshold as people think of it: `llm_share = 0.12`, the share of the answer's tokens that other models make.
//!
//! A policy's first guard compares a signal with one of its parameters. The route remembers which values the signal took
//! lately, and how many tokens a handoff brought; the parameter is then the quantile at which the wanted share comes out.
//! The value found is shown in the answer's trace: with it instead of the share the answer can be had again.

use std::collections::{BTreeMap, VecDeque};

use journey::{Role, Signal};
use policy::{Descriptor, Fires, Limit};

/// The setting that stands for a share instead of a threshold.
pub(super) const LLM_SHARE: &str = "llm_share";

/// The guard whose threshold can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Knob {
    pub(super) role: Role,
    pub(super) signal: Signal,
    /// Key of the parameter.
    pub(super) parameter: String,
    /// Whether it fires above the threshold.
    above: bool,
}

impl Knob {
    /// Of a policy's first guard that compares a signal.
    pub(super) fn of(descriptor: &Descriptor) -> Option<Self> {
        descriptor.guards.iter().find_map(|guard| {
            let (Limit { signal, parameter }, above) = match &guard.fires {
                Fires::Above(limit) => (limit, true),
                Fires::Below(limit) => (limit, false),
                Fires::Text(_) | Fires::AfterText(_) | Fires::Start | Fires::End => return None,
            };
            Some(Self { role: guard.role, signal: *signal, parameter: parameter.clone(), above })
        })
    }
}

/// What one answer showed of a guard's signal.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The signal at every token that the guard looked at.
    pub(super) signals: Vec<f32>,
    /// Those that it fired at.
    pub(super) fired: u64,
    /// Tokens of the answer that other models made.
    pub(super) others: u64,
}

/// What a route's answers showed lately.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    /// What it is about; another revision's guard may look at something else.
    about: Option<(Role, Signal)>,
    signals: VecDeque<f32>,
    fired: f64,
    others: f64,
}

impl Calibration {
    /// Takes an answer in.
    pub(super) fn learn(&mut self, knob: &Knob, seen: Seen) {
        let about = Some((knob.role, knob.signal));
        if self.about != about {
            *self = Self { about, ..Self::default() };
        }
        self.signals.extend(seen.signals.into_iter().filter(|signal| signal.is_finite()));
        let over = self.signals.len().saturating_sub(SIGNALS_MOST);
        self.signals.drain(..over);
        // What is old counts less and less.
        self.fired = self.fired * KEEPS + seen.fired as f64;
        self.others = self.others * KEEPS + seen.others as f64;
    }

    /// The parameter's value at which so large a share of tokens comes from other models; `None` as long as too little is
    /// known.
    pub(super) fn threshold(&self, knob: &Knob, share: f64) -> Option<f64> {
        if self.about != Some((knob.role, knob.signal)) || self.signals.len() < SIGNALS_LEAST {
            return None;
        }
        let mut sorted: Vec<f32> = self.signals.iter().copied().collect();
        sorted.sort_unstable_by(f32::total_cmp);
        let fires = self.chance(share);
        let below = if knob.above { 1.0 - fires } else { fires };
        // Half way between two neighbours, so that neither is at its limit, where nothing fires.
        let place = (below * sorted.len() as f64).round() as usize;
        let at = |place: usize| f64::from(sorted[place.min(sorted.len() - 1)]);
        Some(match place {
            0 => at(0) - f64::from(f32::EPSILON),
            place if place >= sorted.len() => at(place) + f64::from(f32::EPSILON),
            place => f64::midpoint(at(place - 1), at(place)),
        })
    }

    /// How often the guard must fire, per token that it looks at. A token at which it fires is replaced by as many as a
    /// visit brings, v: the share s is p v / ((1 - p) + p v).
    fn chance(&self, share: f64) -> f64 {
        let visit = if self.fired > 0.0 { (self.others / self.fired).max(0.1) } else { 1.0 };
        share / (share + visit * (1.0 - share))
    }
}

/// Puts a threshold in the place of a wanted share among a route's settings.
///
/// # Errors
/// A share that is none, or that this policy cannot be given.
pub(super) fn resolve(
    settings: &mut BTreeMap<String, f64>,
    overrides: &BTreeMap<String, f64>,
    descriptor: &Descriptor,
    calibration: &Calibration,
) -> Result<(), String> {
    let Some(share) = settings.remove(LLM_SHARE) else { return Ok(()) };
    if !(0.0..=1.0).contains(&share) {
        return Err(format!("setting `{LLM_SHARE}`: {share} is not a share from 0 to 1"));
    }
    let name = &descriptor.name;
    let Some(knob) = Knob::of(descriptor) else {
        return Err(format!(
            "setting `{LLM_SHARE}`: policy {name} has no guard whose threshold could be found for a share; set its own \
             parameters"
        ));
    };
    if overrides.contains_key(&knob.parameter) {
        if overrides.contains_key(LLM_SHARE) {
            let key = &knob.parameter;
            return Err(format!(
                "settings `{LLM_SHARE}` and `{key}` of policy {name} are the same knob; give one"
            ));
        }
        // The request's own threshold stands over the route's share.
        return Ok(());
    }
    let declared = descriptor.parameters.iter().find(|parameter| parameter.key == knob.parameter);
    let (Some(found), Some(parameter)) = (calibration.threshold(&knob, share), declared) else {
        settings.remove(&knob.parameter);
        return Ok(());
    };
    let found = found.clamp(*parameter.range.start(), *parameter.range.end());
    settings.insert(knob.parameter, found);
    Ok(())
}

/// Fewer signals say nothing of a quantile.
const SIGNALS_LEAST: usize = 64;
const SIGNALS_MOST: usize = 4096;
/// Of the counts, from answer to answer.
const KEEPS: f64 = 0.99;

#[cfg(test)]
mod tests {
    use super::*;

    fn knob(above: bool) -> Knob {
        Knob { role: Role::ENTRY, signal: Signal::Entropy, parameter: "threshold".to_owned(), above }
    }

    /// An answer of a policy that replaces every token above the threshold by `visit` others.
    fn answer(threshold: f64, visit: u64, from: u64) -> Seen {
        let signals: Vec<f32> =
            (from..from + 200).map(|n| (n.wrapping_mul(2_654_435_761) % 1000) as f32 / 1000.0).collect();
        let fired = signals.iter().filter(|signal| f64::from(**signal) > threshold).count() as u64;
        Seen { signals, fired, others: fired * visit }
    }

    #[test]
    fn the_wanted_share_comes_out() {
        for (share, visit) in [(0.12, 1), (0.3, 1), (0.12, 8), (0.5, 3)] {
            let mut calibration = Calibration::default();
            let mut threshold = 0.5;
            let (mut others, mut tokens) = (0, 0);
            for round in 0..40 {
                let seen = answer(threshold, visit, round * 200);
                if round >= 20 {
                    others += seen.others;
                    tokens += 200 - seen.fired + seen.others;
                }
                calibration.learn(&knob(true), seen);
                threshold = calibration.threshold(&knob(true), share).expect("enough is known");
            }
            let got = others as f64 / tokens as f64;
            assert!((got - share).abs() < 0.02, "wanted {share} with visits of {visit}, got {got}");
        }
    }

    #[test]
    fn nothing_and_everything_are_shares_too() {
        let mut calibration = Calibration::default();
        assert_eq!(calibration.threshold(&knob(true), 0.5), None, "nothing is known yet");
        calibration.learn(&knob(true), answer(0.5, 1, 0));
        let (none, all) = (calibration.threshold(&knob(true), 0.0), calibration.threshold(&knob(true), 1.0));
        assert!(none > Some(0.99) && all < Some(0.001), "{none:?} {all:?}");
        let below = Calibration { about: calibration.about, ..calibration };
        assert!(below.threshold(&knob(false), 1.0) > Some(0.99), "a guard that fires below");
    }

    #[test]
    fn another_guard_begins_anew() {
        let mut calibration = Calibration::default();
        calibration.learn(&knob(true), answer(0.5, 1, 0));
        let other = Knob { signal: Signal::Margin, ..knob(true) };
        assert_eq!(calibration.threshold(&other, 0.5), None);
    }
}
