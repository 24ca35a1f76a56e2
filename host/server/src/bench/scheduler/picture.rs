//! Throughput against the speed that one request sees, one curve per mode.

use scheduler::conductor::Mode;

use super::curve::Curve;
use super::modes;
use crate::bench::plot::{Axis, Mark, Plot, Series};
use crate::terminal::palette::{self, Ink};

pub(super) fn plot(curve: &Curve) -> Plot {
    let series: Vec<Series> = modes().iter().map(|mode| line(curve, mode)).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let x = Axis::up_to("tokens per second of one request", points().map(|point| point.0));
    let y = Axis::up_to("tokens per second of all", points().map(|point| point.1));
    Plot {
        title: "Throughput against the speed of one request".to_owned(),
        subtitle: curve.title(),
        x,
        y,
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
