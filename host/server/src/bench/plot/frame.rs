//! Where values lie on the paper.

use super::Axis;

/// The rectangle between the axes, and the values at its edges.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    pub(super) fn new(x: &Axis, y: &Axis) -> Self {
        Self { left: LEFT, top: TOP, right: RIGHT, bottom: BOTTOM, x: (x.min, x.max), y: (y.min, y.max) }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * fraction(value, self.x)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * fraction(value, self.y)
    }

    pub(super) fn point(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x(x), self.y(y))
    }
}

/// The values at which an axis has ticks.
pub(super) fn ticks(axis: &Axis) -> impl Iterator<Item = f64> {
    let count = ((axis.max - axis.min) / axis.step + TICK_ROUNDING).floor() as usize;
    (0..=count).map(|ix| axis.min + axis.step * ix as f64)
}

fn fraction(value: f64, (min, max): (f64, f64)) -> f64 {
    ((value - min) / (max - min)).clamp(0.0, 1.0)
}

/// Size of the paper without the legend.
pub(super) const WIDTH: f64 = 900.0;
const LEFT: f64 = 76.0;
const TOP: f64 = 92.0;
const RIGHT: f64 = 868.0;
const BOTTOM: f64 = 470.0;
/// Sums of steps may miss the last tick by a rounding error.
const TICK_ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_edges() {
        let axis = Axis { label: String::new(), min: 40.0, max: 100.0, step: 10.0, unit: "" };
        let frame = Frame::new(&axis, &axis);
        assert_eq!(frame.point((40.0, 40.0)), (LEFT, BOTTOM));
        assert_eq!(frame.point((100.0, 100.0)), (RIGHT, TOP));
        assert_eq!(frame.x(70.0), (LEFT + RIGHT) / 2.0);
        assert_eq!(frame.x(1000.0), RIGHT);
        assert_eq!(ticks(&axis).collect::<Vec<_>>(), [40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]);
    }

    #[test]
    fn rounding_does_not_lose_the_last_tick() {
        let axis = Axis { label: String::new(), min: 0.0, max: 0.3, step: 0.1, unit: "" };
        assert_eq!(ticks(&axis).count(), 4);
    }
}
