//! Choosing from logits that a request or a grammar changes first.

use std::cell::RefCell;

use journey::Draw;

use super::{Ranked, sample};
use crate::cpu::{Level, best};

/// The token that the draw picks. The logits are finite, `highest` is the best of them, and the draw allows at least
/// one. Logits are copied only for a draw that changes them, into memory that the thread keeps.
pub(crate) fn choose(level: Level, logits: &[f32], highest: Ranked, draw: &Draw<'_>) -> u32 {
    let Some(adjust) = &draw.adjust else { return sample(level, logits, highest, draw) };
    let is_greedy = draw.sampling.temperature <= 0.0;
    if is_greedy && !adjust.wishes.change() && adjust.allows(highest.token) {
        // The best of all is the best of what is allowed.
        return highest.token;
    }
    SCRATCH.with_borrow_mut(|Scratch { adjusted, allowed, left }| {
        let logits = if adjust.wishes.change() {
            adjusted.clear();
            adjusted.extend_from_slice(logits);
            adjust.apply(adjusted);
            adjusted.as_slice()
        } else {
            logits
        };
        let highest = |logits: &[f32]| best(level, logits, 1)[0];
        if !adjust.restricts() {
            return sample(level, logits, highest(logits), draw);
        }
        // Only what is allowed goes on, so nothing of the rest can be picked by a rounding error.
        allowed.clear();
        allowed.extend(adjust.allowed(logits.len()));
        left.clear();
        left.extend(allowed.iter().map(|&token| logits[token as usize]));
        allowed[sample(level, left, highest(left), draw) as usize]
    })
}

/// Logits of one draw that are changed, and those of them that are allowed.
#[derive(Default)]
struct Scratch {
    adjusted: Vec<f32>,
    allowed: Vec<u32>,
    left: Vec<f32>,
}

thread_local! {
    /// A vocabulary is long, and penalties and grammars need it at every token.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}
