//! Finds room for labels beside their curves.
//!
//! Greedy: each label tries every side of each of its curve's points and takes the place that covers least. That is
//! enough for a handful of curves, and the same data always give the same picture.

/// A rectangle on the paper, from its upper left to its lower right corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Rect {
    fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn lies_in(&self, other: &Self) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }

    fn covers(&self, (x, y): (f64, f64)) -> bool {
        self.left <= x && x <= self.right && self.top <= y && y <= self.bottom
    }

    fn grown(&self, by: f64) -> Self {
        Self { left: self.left - by, top: self.top - by, right: self.right + by, bottom: self.bottom + by }
    }
}

/// The paper with what is on it already.
pub(super) struct Board {
    bounds: Rect,
    labels: Vec<Rect>,
    /// Points along curves, each with the number of its curve.
    drawn: Vec<(usize, (f64, f64))>,
}

impl Board {
    pub(super) fn new(bounds: Rect) -> Self {
        Self { bounds, labels: Vec::new(), drawn: Vec::new() }
    }

    /// Nothing may be written there.
    pub(super) fn take(&mut self, rect: Rect) {
        self.labels.push(rect);
    }

    /// A curve that labels should not cover.
    pub(super) fn draw(&mut self, curve: usize, points: &[(f64, f64)]) {
        for pair in points.windows(2) {
            let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
            let steps = ((x1 - x0).hypot(y1 - y0) / SAMPLE_EVERY).ceil().max(1.0) as usize;
            let along = |step: usize| step as f64 / steps as f64;
            let sample = |step| (x0 + (x1 - x0) * along(step), y0 + (y1 - y0) * along(step));
            self.drawn.extend((0..=steps).map(|step| (curve, sample(step))));
        }
    }

    /// Takes the best place for a label of this width beside one of the points, if it has any.
    pub(super) fn place(&mut self, curve: usize, width: f64, points: &[(f64, f64)]) -> Option<Rect> {
        let places = points.iter().rev().flat_map(|point| around(*point, width));
        let inside = places.filter(|place| place.lies_in(&self.bounds));
        let costs = inside.enumerate().map(|(ix, place)| (self.cost(curve, &place, ix), place));
        let (_, best) = costs.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        self.take(best);
        Some(best)
    }

    fn cost(&self, curve: usize, place: &Rect, choice: usize) -> f64 {
        let labels = self.labels.iter().filter(|label| label.meets(&place.grown(GAP))).count();
        let near = place.grown(GAP);
        let lines: f64 = self
            .drawn
            .iter()
            .filter(|(_, point)| near.covers(*point))
            .map(|(other, _)| if *other == curve { OWN_COST } else { OTHER_COST })
            .sum();
        labels as f64 * LABEL_COST + lines + choice as f64 * LATER_COST
    }
}

/// The places beside a point, the usual one first.
fn around((x, y): (f64, f64), width: f64) -> [Rect; 8] {
    let (w, h, d) = (width, HEIGHT, DISTANCE);
    let rect = |left: f64, top: f64| Rect { left, top, right: left + w, bottom: top + h };
    [
        rect(x + d, y - h / 2.0),
        rect(x + d, y + d / 2.0),
        rect(x + d, y - h - d / 2.0),
        rect(x - w / 2.0, y - h - d),
        rect(x - w / 2.0, y + d),
        rect(x - w - d, y - h / 2.0),
        rect(x - w - d, y - h - d / 2.0),
        rect(x - w - d, y + d / 2.0),
    ]
}

/// About how wide a text is.
pub(super) fn width(text: &str, font_size: f64) -> f64 {
    text.chars().count() as f64 * font_size * WIDTH_OF_A_LETTER
}

/// Of a line of 13 px.
pub(super) const HEIGHT: f64 = 16.0;
const DISTANCE: f64 = 9.0;
const GAP: f64 = 3.0;
const SAMPLE_EVERY: f64 = 4.0;
const LABEL_COST: f64 = 1000.0;
const OTHER_COST: f64 = 4.0;
const OWN_COST: f64 = 2.0;
const LATER_COST: f64 = 0.01;
/// On average, as a part of the font's size, for sans-serif text.
const WIDTH_OF_A_LETTER: f64 = 0.62;

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        Board::new(Rect { left: 0.0, top: 0.0, right: 200.0, bottom: 200.0 })
    }

    #[test]
    fn a_label_goes_right_of_the_last_point_if_there_is_room() {
        let points = [(10.0, 100.0), (60.0, 100.0)];
        let place = board().place(0, 50.0, &points).unwrap();
        assert_eq!((place.left, place.top), (60.0 + DISTANCE, 100.0 - HEIGHT / 2.0));
    }

    #[test]
    fn labels_of_curves_on_top_of_each_other_do_not() {
        let mut board = board();
        let points = [(10.0, 100.0), (60.0, 100.0)];
        board.draw(0, &points);
        board.draw(1, &points);
        let first = board.place(0, 50.0, &points).unwrap();
        let second = board.place(1, 50.0, &points).unwrap();
        assert!(!first.meets(&second), "{first:?} {second:?}");
    }

    #[test]
    fn a_label_stays_on_the_paper_and_off_other_curves() {
        let mut board = board();
        board.draw(1, &[(150.0, 0.0), (150.0, 200.0)]);
        let place = board.place(0, 60.0, &[(140.0, 100.0)]).unwrap();
        assert!(place.right <= 150.0, "{place:?}");
        assert!(board.place(2, 500.0, &[(100.0, 100.0)]).is_none());
    }
}
