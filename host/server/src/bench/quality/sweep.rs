//! Which knobs are turned how far.

use super::Plan;
use super::ask::{Asker, BenchError};
use super::report::{Report, Row};

/// One policy's knob and the values it is set to.
struct Sweep {
    policy: &'static str,
    /// The route's name after the prefix.
    route: &'static str,
    setting: &'static str,
    /// Each value, and whether a quick run measures it, too.
    values: &'static [(f64, bool)],
}

/// The policies that look at the small model's uncertainty.
pub(super) async fn signals(
    asker: &mut Asker<'_>,
    plan: &Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    for sweep in &SIGNALS {
        for value in values(sweep, plan.quick) {
            measure(asker, plan, sweep, value, report).await?;
        }
    }
    Ok(())
}

/// The control: the best point's share, and the whole range.
pub(super) async fn random(
    asker: &mut Asker<'_>,
    plan: &Plan,
    report: &mut Report,
) -> Result<(), BenchError> {
    // Without a best point one fixed share takes its place, so that every run has as many points.
    let share = report.best().map_or(SHARE_MAX, |ix| report.rows[ix].large_share);
    for value in std::iter::once(share).chain(values(&RANDOM, plan.quick)) {
        measure(asker, plan, &RANDOM, value, report).await?;
    }
    Ok(())
}

/// How many points are measured.
pub(super) fn points(quick: bool) -> usize {
    let swept: usize = SIGNALS.iter().chain([&RANDOM]).map(|sweep| values(sweep, quick).count()).sum();
    swept + 1
}

fn values(sweep: &Sweep, quick: bool) -> impl Iterator<Item = f64> {
    sweep.values.iter().filter(move |(_, in_quick)| *in_quick || !quick).map(|(value, _)| *value)
}

async fn measure(
    asker: &mut Asker<'_>,
    plan: &Plan,
    sweep: &Sweep,
    value: f64,
    report: &mut Report,
) -> Result<(), BenchError> {
    let Sweep { policy, route, setting, .. } = sweep;
    let answers = asker.ask(&format!("{}/{route}@{setting}={value}", plan.prefix)).await?;
    report.rows.push(Row {
        policy,
        knob: format!("{setting}={}", shown(value)),
        value,
        large_share: answers.large_share(),
        accuracy: answers.accuracy(),
        tokens_per_s: answers.tokens_per_s(),
        measured: true,
    });
    Ok(())
}

fn shown(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A best point has at most this share of its tokens from the large model.
pub(super) const SHARE_MAX: f64 = 0.10;

/// Entropy in nats: a coin toss between two tokens has 0.69. Margin as a difference of probabilities.
const SIGNALS: [Sweep; 2] = [
    Sweep {
        policy: "entropy",
        route: "entropy",
        setting: "threshold",
        values: &[
            (0.8, false),
            (0.7, true),
            (0.6, false),
            (0.5, true),
            (0.4, true),
            (0.3, true),
            (0.1, false),
        ],
    },
    Sweep {
        policy: "margin",
        route: "margin",
        setting: "threshold",
        values: &[(0.15, false), (0.4, false), (0.65, true), (0.8, true), (0.9, true), (0.98, false)],
    },
];

const RANDOM: Sweep = Sweep {
    policy: "random-share",
    route: "random",
    setting: "share",
    values: &[(0.25, false), (0.5, true), (0.75, false)],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_measures_some_of_the_points() {
        assert_eq!(points(false), 7 + 6 + 3 + 1);
        assert!(points(true) < points(false));
    }

    #[test]
    fn settings_are_shown_without_needless_digits() {
        assert_eq!(shown(0.5), "0.5");
        assert_eq!(shown(0.048_312), "0.0483");
        assert_eq!(shown(1.0), "1");
    }
}
