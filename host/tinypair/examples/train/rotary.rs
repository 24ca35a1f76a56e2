//! Rotary position embedding, shared by training and decoding.
//!
//! The pairing of numbers is the one of the Hugging Face checkpoints: number `d` turns with number `d + 8`.

use crate::lanes::{Lanes, WIDTH};

/// Numbers per head; both models use one lane width, which the attention kernel relies on.
pub(crate) const HEAD_DIM: usize = WIDTH;

/// The rotation of each position, as (cosine, sine) of each pair's angle.
#[derive(Debug)]
pub(crate) struct Rotary {
    angles: Vec<[(f32, f32); HALF]>,
}

impl Rotary {
    /// Angles for `positions` positions at base `theta`.
    pub(crate) fn new(positions: usize, theta: f32) -> Self {
        let angle = |position: usize, pair: usize| {
            let angle = position as f32 / theta.powf(pair as f32 / HALF as f32);
            (angle.cos(), angle.sin())
        };
        let at = |position| std::array::from_fn(|pair| angle(position, pair));
        Self { angles: (0..positions).map(at).collect() }
    }

    /// `row` rotated for `position`; `direction` is 1, or -1 to rotate a gradient back.
    #[inline(always)]
    pub(crate) fn rotate(&self, row: &[f32], position: usize, direction: f32) -> Lanes {
        let (low, high) = row.split_at(HALF);
        let mut rotated = Lanes::default();
        for (pair, (cos, sin)) in self.angles[position].iter().enumerate() {
            let sin = sin * direction;
            rotated[pair] = low[pair] * cos - high[pair] * sin;
            rotated[pair + HALF] = high[pair] * cos + low[pair] * sin;
        }
        rotated
    }
}

const HALF: usize = HEAD_DIM / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotating_back_undoes_the_rotation() {
        let rotary = Rotary::new(64, 10_000.0);
        let row: [f32; HEAD_DIM] = std::array::from_fn(|d| d as f32 - 5.0);
        let back = rotary.rotate(&*rotary.rotate(&row, 50, 1.0), 50, -1.0);
        assert!(row.iter().zip(back.0).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
