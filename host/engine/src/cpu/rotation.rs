//! Rotary positions of one step, and what is done to a token's query and key heads.

use super::rowwise::Norm;
use super::simd::{Isa, Work};
use crate::config::Rope;

/// How fast each pair of a head's elements turns; one list per rotary embedding of the model.
pub(super) struct Frequencies {
    lists: Vec<(Vec<f32>, f32)>,
    half: usize,
}

impl Frequencies {
    /// Those of a model.
    pub(super) fn new(ropes: &[Rope], head_dim: usize) -> Self {
        let lists = ropes.iter().map(|rope| (rope.frequencies(head_dim), rope.magnitude())).collect();
        Self { lists, half: head_dim / 2 }
    }

    /// Fills in the rotations of some tokens. Angles are taken in f32, as the models' reference does, so that far
    /// positions turn by the same angle as in training.
    pub(super) fn at(&self, positions: &(impl Iterator<Item = usize> + Clone), into: &mut Rotations) {
        into.half = self.half;
        into.lists.resize_with(self.lists.len(), Vec::new);
        for ((frequencies, magnitude), list) in self.lists.iter().zip(&mut into.lists) {
            list.clear();
            for position in positions.clone() {
                let angles = frequencies.iter().map(|frequency| position as f32 * frequency);
                list.extend(angles.map(|angle| [angle.cos() * magnitude, angle.sin() * magnitude]));
            }
        }
    }
}

/// Cosines and sines of the tokens of a step.
#[derive(Default)]
pub(super) struct Rotations {
    half: usize,
    lists: Vec<Vec<[f32; 2]>>,
}

impl Rotations {
    /// Those of one token by one rotary embedding.
    pub(super) fn of(&self, rope: usize, token: usize) -> &[[f32; 2]] {
        &self.lists[rope][token * self.half..][..self.half]
    }
}

/// Norms (where the model does) and rotates some heads, one after the other in `heads`: element i of a head pairs with
/// i + dim / 2.
pub(super) struct Rotate<'a> {
    /// The heads.
    pub(super) heads: &'a mut [f32],
    /// The norm of each head.
    pub(super) norm: Option<&'a Norm>,
    /// Cosine and sine of each pair.
    pub(super) rotation: &'a [[f32; 2]],
}

impl Work for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) {
        let half = self.rotation.len();
        for head in self.heads.chunks_exact_mut(2 * half) {
            if let Some(norm) = self.norm {
                norm.in_place(isa, head);
            }
            let (first, second) = head.split_at_mut(half);
            for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(self.rotation) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}
