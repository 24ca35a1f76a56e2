//! Line charts as SVG, for reports of benchmarks.
//!
//! A [`Plot`] says what is shown, in the units of the data; [`Plot::to_svg`] decides where. The picture brings its own
//! paper and follows the reader's light or dark scheme, uses the fonts at hand, and needs nothing from outside.

mod draw;
mod frame;
mod labels;
mod svg;

use crate::terminal::palette::Ink;

/// A chart of curves over two linear axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What is to be seen, in one line.
    pub title: String,
    /// How it was measured, in one line.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, the most important last, so that it lies on top.
    pub series: Vec<Series>,
    /// Values that curves are compared with.
    pub levels: Vec<Level>,
    /// A distance that is the point of the picture.
    pub span: Option<Span>,
}

/// A linear axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// Its first value.
    pub min: f64,
    /// Its last value.
    pub max: f64,
    /// From tick to tick.
    pub step: f64,
    /// What follows the number at a tick.
    pub unit: &'static str,
}

impl Axis {
    /// From 0 to the largest of some values, in round ticks.
    pub fn up_to(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let largest = values.fold(0.0, f64::max);
        let step = round_step(largest);
        Self { label: label.to_owned(), min: 0.0, max: (largest / step).ceil() * step, step, unit: "" }
    }
}

/// From tick to tick: 1, 2 or 5 times a power of ten, with at most eight ticks.
fn round_step(largest: f64) -> f64 {
    let power = 10f64.powf((largest.max(1e-9) / 8.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| largest / step <= 8.0)
        .unwrap_or(10.0 * power)
}

/// A curve through measured points.
#[derive(Clone, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// Beside the curve.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// How its points look, for readers without colours.
    pub mark: Mark,
    /// Whether the line is broken, as for what was computed rather than measured.
    pub dashed: bool,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A filled circle.
    Circle,
    /// A filled square.
    Square,
    /// A filled square on its corner.
    Diamond,
    /// A filled triangle.
    Triangle,
    /// A circle that is not filled.
    Ring,
}

/// A horizontal line.
#[derive(Clone, Debug)]
pub struct Level {
    /// What has this value.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// The value.
    pub y: f64,
}

/// An arrow from one point to another at the same height.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where it begins and ends on the horizontal axis.
    pub x: (f64, f64),
    /// Its height.
    pub y: f64,
    /// What the distance means.
    pub label: String,
}

impl Plot {
    /// The picture.
    #[must_use]
    pub fn to_svg(&self) -> String {
        draw::draw(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::palette;

    fn plot() -> Plot {
        let axis =
            |label: &str| Axis { label: label.to_owned(), min: 0.0, max: 100.0, step: 25.0, unit: " %" };
        let line = |name: &str, ink, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            label: name.to_owned(),
            ink,
            mark: Mark::Circle,
            dashed: false,
            points: points.to_vec(),
        };
        Plot {
            title: "Up & \"down\" <fast>".to_owned(),
            subtitle: "a test".to_owned(),
            x: axis("share"),
            y: axis("accuracy"),
            series: vec![
                line("steep", palette::BLUE, &[(0.0, 0.0), (5.0, 90.0), (10.0, 100.0)]),
                line("flat", palette::GREY, &[(0.0, 0.0), (50.0, 50.0), (100.0, 100.0)]),
            ],
            levels: vec![Level { label: "best".to_owned(), ink: palette::ORANGE, y: 100.0 }],
            span: Some(Span { x: (10.0, 90.0), y: 90.0, label: "9 times".to_owned() }),
        }
    }

    #[test]
    fn everything_named_is_written_and_escaped() {
        let svg = plot().to_svg();
        for text in
            ["Up &amp; &quot;down&quot; &lt;fast&gt;", "a test", "share", "accuracy", "best", "9 times"]
        {
            assert!(svg.contains(&format!(">{text}<")), "{text} is missing");
        }
        // Once in the legend and once beside the curve.
        assert_eq!(svg.matches(">steep<").count(), 2);
        assert_eq!(svg.matches(">50 %<").count(), 2);
    }

    #[test]
    fn tags_are_balanced_and_numbers_finite() {
        let svg = plot().to_svg();
        for tag in ["svg", "g", "text", "style"] {
            let opened = svg.matches(&format!("<{tag}>")).count() + svg.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn both_schemes_and_no_outside_resources() {
        let svg = plot().to_svg();
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(svg.contains(palette::BLUE.light) && svg.contains(palette::BLUE.dark));
        assert_eq!(svg.matches("http").count(), 1, "only the namespace");
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (largest, expected) in [(8.0, 1.0), (9.0, 2.0), (41.0, 10.0), (800.0, 100.0), (0.7, 0.1)] {
            assert!(
                (round_step(largest) / expected - 1.0).abs() < 1e-9,
                "{largest}: {}",
                round_step(largest)
            );
        }
    }

    #[test]
    fn a_plot_without_points_is_still_a_picture() {
        let mut empty = plot();
        empty.series.clear();
        empty.levels.clear();
        empty.span = None;
        assert!(empty.to_svg().ends_with("</svg>\n"));
    }
}
