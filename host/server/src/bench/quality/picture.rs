//! The curves of quality against cost, as a plot.

use super::report::{Headline, Report, Row, percent};
use crate::bench::plot::{Axis, Level, Mark, Plot, Series, Span};
use crate::terminal::palette::{self, Ink};

pub(super) fn plot(report: &Report) -> Plot {
    let [small, large] = &report.models;
    let lowest = report.rows.iter().map(|row| row.accuracy).fold(report.small.accuracy, f64::min);
    let series = CURVES.iter().map(|curve| curve.series(report)).filter(|series| !series.points.is_empty());
    let level = |name: &str, role, y: f64| Level {
        label: format!("{name} alone: {}", percent(y)),
        ink: palette::role(role),
        y: y * 100.0,
    };
    Plot {
        title: title(report),
        subtitle: format!(
            "{} problems, greedy decoding; each point is one setting of a policy",
            report.problems
        ),
        x: Axis {
            label: format!("share of tokens made by {large}"),
            min: 0.0,
            max: 100.0,
            step: 10.0,
            unit: " %",
        },
        y: Axis {
            label: "problems solved".to_owned(),
            // A tick below the lowest point, with room for a label.
            min: (((lowest - 0.03) * 10.0).floor() * 10.0).max(0.0),
            max: 100.0,
            step: 10.0,
            unit: " %",
        },
        series: series.collect(),
        levels: vec![level(small, 0, report.small.accuracy), level(large, 1, report.large.accuracy)],
        span: report.headline.as_ref().and_then(span),
    }
}

fn title(report: &Report) -> String {
    let Some(Headline { best, .. }) = &report.headline else { return "Quality against cost".to_owned() };
    let reached =
        if best.of_large > ALL_BUT { String::new() } else { format!("{} of ", percent(best.of_large)) };
    format!("{} of the tokens reach {reached}the large model's accuracy", percent(best.large_share))
}

/// From the best point to where whole requests are as good.
fn span(headline: &Headline) -> Option<Span> {
    let need = headline.query_confidence.or(headline.query_oracle)?;
    Some(Span {
        x: (headline.best.large_share * 100.0, need.large_share * 100.0),
        y: headline.best.accuracy * 100.0,
        label: format!("whole requests: {:.1} × the tokens", need.ratio),
    })
}

/// How a policy is drawn.
struct Curve {
    policy: &'static str,
    /// What its rows' knobs begin with.
    knob: &'static str,
    name: &'static str,
    label: &'static str,
    ink: Ink,
    mark: Mark,
    dashed: bool,
}

impl Curve {
    fn series(&self, report: &Report) -> Series {
        let rows = report.of(self.policy).filter(|row| row.knob.starts_with(self.knob));
        let ends_at_small = std::iter::once((0.0, report.small.accuracy));
        let mut points: Vec<(f64, f64)> = ends_at_small.chain(rows.map(place)).collect();
        if points.len() == 1 {
            points.clear();
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: self.name.to_owned(),
            label: self.label.to_owned(),
            ink: self.ink,
            mark: self.mark,
            dashed: self.dashed,
            points: points.into_iter().map(|(x, y)| (x * 100.0, y * 100.0)).collect(),
        }
    }
}

fn place(row: &Row) -> (f64, f64) {
    (row.large_share, row.accuracy)
}

/// Closer to one than this is shown as all of it.
const ALL_BUT: f64 = 0.9995;

const CURVES: [Curve; 6] = [
    Curve {
        policy: "random-share",
        knob: "",
        name: "tokens at random",
        label: "random",
        ink: palette::GREY,
        mark: Mark::Ring,
        dashed: false,
    },
    Curve {
        policy: "query-confidence",
        knob: "first",
        name: "whole requests, by the first 16 tokens' entropy",
        label: "first tokens",
        ink: palette::OLIVE,
        mark: Mark::Square,
        dashed: true,
    },
    Curve {
        policy: "query-confidence",
        knob: "answer",
        name: "whole requests, by the small answer's entropy",
        label: "whole answer",
        ink: palette::ROSE,
        mark: Mark::Square,
        dashed: true,
    },
    Curve {
        policy: "query-oracle",
        knob: "",
        name: "whole requests, by an oracle",
        label: "oracle",
        ink: palette::AMBER,
        mark: Mark::Triangle,
        dashed: true,
    },
    Curve {
        policy: "margin",
        knob: "",
        name: "tokens by margin",
        label: "margin",
        ink: palette::PURPLE,
        mark: Mark::Diamond,
        dashed: false,
    },
    Curve {
        policy: "entropy",
        knob: "",
        name: "tokens by entropy",
        label: "entropy",
        ink: palette::BLUE,
        mark: Mark::Circle,
        dashed: false,
    },
];
