//! Draws a plot, from the paper up: grid, levels, curves, the span, labels, legend.

use super::frame::{Frame, WIDTH, ticks};
use super::labels::{Board, HEIGHT, Rect, width};
use super::svg::Svg;
use super::{Mark, Plot, Series};

pub(super) fn draw(plot: &Plot) -> String {
    let frame = Frame::new(&plot.x, &plot.y);
    let mut svg = Svg::new();
    svg.text((HEAD_LEFT, 40.0), "class=\"ink title\"", &plot.title);
    svg.text((HEAD_LEFT, 64.0), "class=\"faint\"", &plot.subtitle);
    axes(&mut svg, &frame, plot);
    let mut board = board(&frame, plot);
    levels(&mut svg, &frame, plot, &mut board);
    for series in &plot.series {
        curve(&mut svg, &frame, series);
    }
    span(&mut svg, &frame, plot, &mut board);
    labels(&mut svg, &frame, plot, &mut board);
    let bottom = legend(&mut svg, &frame, plot);
    svg.finish(WIDTH, bottom + MARGIN, &plot.title)
}

fn axes(svg: &mut Svg, frame: &Frame, plot: &Plot) {
    let Frame { left, right, top, bottom, .. } = *frame;
    for value in ticks(&plot.y) {
        let y = frame.y(value);
        svg.push(format_args!("<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"));
        svg.text((left - 10.0, y + 4.5), "class=\"faint\" text-anchor=\"end\"", &tick(value, plot.y.unit));
    }
    svg.push(format_args!("<path class=\"axis\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>"));
    for value in ticks(&plot.x) {
        let x = frame.x(value);
        svg.push(format_args!("<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v5\"/>"));
        svg.text((x, bottom + 21.0), "class=\"faint\" text-anchor=\"middle\"", &tick(value, plot.x.unit));
    }
    let middle = f64::midpoint(left, right);
    svg.text((middle, bottom + 44.0), "class=\"ink\" text-anchor=\"middle\"", &plot.x.label);
    let (x, y) = (left - 52.0, f64::midpoint(top, bottom));
    let turned = format!("class=\"ink\" text-anchor=\"middle\" transform=\"rotate(-90 {x:.1} {y:.1})\"");
    svg.text((x, y), &turned, &plot.y.label);
}

/// The place between the axes with all curves on it.
fn board(frame: &Frame, plot: &Plot) -> Board {
    let Frame { left, right, top, bottom, .. } = *frame;
    let mut board = Board::new(Rect { left, top: top - HEIGHT - 4.0, right: right + 4.0, bottom });
    for (ix, series) in plot.series.iter().enumerate() {
        board.draw(ix, &on_paper(frame, series));
    }
    for (ix, level) in plot.levels.iter().enumerate() {
        let y = frame.y(level.y);
        board.draw(plot.series.len() + ix, &[(left, y), (right, y)]);
    }
    board
}

fn levels(svg: &mut Svg, frame: &Frame, plot: &Plot, board: &mut Board) {
    for level in &plot.levels {
        let (y, ink) = (frame.y(level.y), svg.ink(level.ink));
        let (left, right) = (frame.left, frame.right);
        svg.push(format_args!(
            "<path class=\"level l{ink}\" stroke-dasharray=\"2 4\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"
        ));
        let attributes = format!("class=\"label f{ink}\" text-anchor=\"end\"");
        svg.text((right, y - 6.0), &attributes, &level.label);
        let from = right - width(&level.label, FONT_SIZE);
        board.take(Rect { left: from, top: y - 6.0 - HEIGHT, right, bottom: y });
    }
}

fn curve(svg: &mut Svg, frame: &Frame, series: &Series) {
    let ink = svg.ink(series.ink);
    let points = on_paper(frame, series);
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let dashes = dashes(series);
    if !path.is_empty() {
        svg.push(format_args!("<path class=\"line l{ink}\"{dashes} d=\"M{}\"/>", path.join("L")));
    }
    svg.push(format_args!("<g class=\"mark f{ink}\">"));
    for point in points {
        mark(svg, series.mark, ink, point);
    }
    svg.push(format_args!("</g>"));
}

fn mark(svg: &mut Svg, mark: Mark, ink: usize, (x, y): (f64, f64)) {
    let (left, high, top) = (x - 4.0, y - 4.0, y - 5.5);
    match mark {
        Mark::Circle => svg.push(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>")),
        Mark::Ring => {
            svg.push(format_args!("<circle class=\"paper l{ink}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"));
        }
        Mark::Square => {
            svg.push(format_args!("<rect x=\"{left:.1}\" y=\"{high:.1}\" width=\"8\" height=\"8\"/>"));
        }
        Mark::Diamond => svg.push(format_args!("<path d=\"M{x:.1} {top:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z\"/>")),
        Mark::Triangle => svg.push(format_args!("<path d=\"M{x:.1} {top:.1}l5 9h-10z\"/>")),
    }
}

/// A ring around where it begins, and below that the distance, as on a technical drawing.
fn span(svg: &mut Svg, frame: &Frame, plot: &Plot, board: &mut Board) {
    let Some(span) = &plot.span else { return };
    let (from, to, height) = (frame.x(span.x.0), frame.x(span.x.1), frame.y(span.y));
    svg.push(format_args!(
        "<circle class=\"span\" fill=\"none\" cx=\"{from:.1}\" cy=\"{height:.1}\" r=\"9\"/>"
    ));
    let (left, y) = (from + 9.0, height + SPAN_BELOW);
    svg.push(format_args!(
        "<path class=\"span\" fill=\"none\" d=\"M{left:.1} {y:.1}m0 -5v10m0 -5H{to:.1}m0 -5v10m-7 -9l7 4l-7 4\"/>"
    ));
    svg.text((left, y + 21.0), "class=\"label ink\"", &span.label);
    let room = width(&span.label, FONT_SIZE);
    board.take(Rect { left, top: y - 4.0, right: left + room, bottom: y + 6.0 + HEIGHT });
    board.take(Rect { left: from - 9.0, top: height - 9.0, right: left, bottom: height + 9.0 });
}

/// The most important curve chooses first.
fn labels(svg: &mut Svg, frame: &Frame, plot: &Plot, board: &mut Board) {
    for (ix, series) in plot.series.iter().enumerate().rev() {
        let room = width(&series.label, FONT_SIZE);
        let Some(place) = board.place(ix, room, &on_paper(frame, series)) else { continue };
        let ink = svg.ink(series.ink);
        let middle = f64::midpoint(place.left, place.right);
        let attributes = format!("class=\"label f{ink}\" text-anchor=\"middle\"");
        svg.text((middle, place.bottom - 4.0), &attributes, &series.label);
    }
}

/// Two columns below the axis, the most important curve first; returns where they end.
fn legend(svg: &mut Svg, frame: &Frame, plot: &Plot) -> f64 {
    let lines = plot.series.len().div_ceil(2).max(1);
    let first = frame.bottom + 76.0;
    for (ix, series) in plot.series.iter().rev().enumerate() {
        let x = frame.left + LEGEND_COLUMN * (ix / lines) as f64;
        let y = first + LEGEND_LINE * (ix % lines) as f64;
        let (ink, middle, dashes) = (svg.ink(series.ink), y - 4.5, dashes(series));
        svg.push(format_args!("<path class=\"line l{ink}\"{dashes} d=\"M{x:.1} {middle:.1}h26\"/>"));
        svg.push(format_args!("<g class=\"mark f{ink}\">"));
        mark(svg, series.mark, ink, (x + 13.0, middle));
        svg.push(format_args!("</g>"));
        svg.text((x + 34.0, y), "class=\"ink\"", &series.name);
    }
    first + LEGEND_LINE * (lines - 1) as f64
}

fn on_paper(frame: &Frame, series: &Series) -> Vec<(f64, f64)> {
    series.points.iter().map(|point| frame.point(*point)).collect()
}

fn dashes(series: &Series) -> &'static str {
    if series.dashed { " stroke-dasharray=\"6 5\"" } else { "" }
}

/// At most two decimals, and none that say nothing.
fn tick(value: f64, unit: &str) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

const HEAD_LEFT: f64 = 24.0;
const MARGIN: f64 = 24.0;
const FONT_SIZE: f64 = 13.0;
/// From the height of a span to its line.
const SPAN_BELOW: f64 = 24.0;
const LEGEND_COLUMN: f64 = 370.0;
const LEGEND_LINE: f64 = 24.0;
