//! Throughput against the speed that one request sees, one curve per mode.

use scheduler::conductor::Mode;

use super::curve::Curve;
use super::modes;
use crate::bench::plot::{Axis, Mark, Plot, Series};
use crate::terminal::palette::{self, Ink};

pub(super) fn plot(curve: &Curve) -> Plot {
    let series: Vec<Series> = modes().iter().map(|mode| line(curve, mode)).collect();
    let largest = |of: fn(&(f64, f64)) -> f64| {
        series.iter().flat_map(|series| series.points.iter().map(of)).fold(0.0, f64::max)
    };
    let (x, y) = (largest(|point| point.0), largest(|point| point.1));
    let axis = |label: &str, largest: f64| {
        let step = step(largest);
        Axis { label: label.to_owned(), min: 0.0, max: (largest / step).ceil() * step, step, unit: "" }
    };
    Plot {
        title: "Throughput against the speed of one request".to_owned(),
        subtitle: curve.title(),
        x: axis("tokens per second of one request", x),
        y: axis("tokens per second of all", y),
        series,
        levels: Vec::new(),
        span: None,
    }
}

fn line(curve: &Curve, mode: &Mode) -> Series {
    let (ink, mark) = look(mode);
    let of_mode = curve.points.iter().filter(|point| point.mode == *mode);
    let mut points: Vec<(f64, f64)> = of_mode
        .map(|point| (point.outcome.tokens_per_s / point.journeys as f64, point.outcome.tokens_per_s))
        .collect();
    points.reverse();
    let name = mode.name();
    Series { name: name.to_owned(), label: name.to_owned(), ink, mark, dashed: *mode != Mode::Ours, points }
}

fn look(mode: &Mode) -> (Ink, Mark) {
    match mode {
        Mode::StepSync => (palette::GREY, Mark::Ring),
        Mode::ModelSync => (palette::OLIVE, Mark::Triangle),
        Mode::EagerAsync => (palette::ORANGE, Mark::Square),
        Mode::FixedB(_) => (palette::ROSE, Mark::Ring),
        Mode::PaperDtmc => (palette::PURPLE, Mark::Diamond),
        Mode::Ours => (palette::BLUE, Mark::Circle),
    }
}

/// From tick to tick: 1, 2 or 5 times a power of ten, with at most eight ticks.
fn step(largest: f64) -> f64 {
    let power = 10f64.powf((largest.max(1e-9) / 8.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| largest / step <= 8.0)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::step;

    #[test]
    fn ticks_are_round_and_few() {
        for (largest, expected) in [(8.0, 1.0), (9.0, 2.0), (41.0, 10.0), (800.0, 100.0), (0.7, 0.1)] {
            assert!((step(largest) / expected - 1.0).abs() < 1e-9, "{largest}: {}", step(largest));
        }
    }
}
