//! Throughput against the speed that one request sees, one curve per way.

use super::report::{Report, Row};
use crate::bench::plot::{Axis, Mark, Plot, Series};
use crate::terminal::palette::{self, Ink};

pub(super) fn plot(report: &Report) -> Plot {
    let mut names: Vec<&str> = Vec::new();
    for row in &report.rows {
        if !names.contains(&row.mode.as_str()) {
            names.push(&row.mode);
        }
    }
    let series = names.iter().enumerate().map(|(at, name)| line(report, at, name)).collect();
    let speed = |row: &Row| row.tokens_per_s / row.requests as f64;
    Plot {
        title: "Throughput against the speed of one request".to_owned(),
        subtitle: report.title.clone(),
        x: Axis::up_to("tokens per second of one request", report.rows.iter().map(speed)),
        y: Axis::up_to("tokens per second of all", report.rows.iter().map(|row| row.tokens_per_s)),
        series,
        levels: Vec::new(),
        span: None,
    }
}

fn line(report: &Report, at: usize, name: &str) -> Series {
    let of_way = report.rows.iter().filter(|row| row.mode == name);
    let mut points: Vec<(f64, f64)> =
        of_way.map(|row| (row.tokens_per_s / row.requests as f64, row.tokens_per_s)).collect();
    points.reverse();
    let (ink, mark) = LOOKS[at % LOOKS.len()];
    Series { name: name.to_owned(), label: name.to_owned(), ink, mark, dashed: name != "ours", points }
}

const LOOKS: [(Ink, Mark); 7] = [
    (palette::GREY, Mark::Ring),
    (palette::OLIVE, Mark::Triangle),
    (palette::ORANGE, Mark::Square),
    (palette::PURPLE, Mark::Diamond),
    (palette::ROSE, Mark::Ring),
    (palette::BLUE, Mark::Circle),
    (palette::TEAL, Mark::Triangle),
];
