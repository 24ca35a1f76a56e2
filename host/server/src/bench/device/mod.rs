//! A device against the processor, and how fast models decode on it: alone, and two of them routed.
//!
//! Separate from `decode`, which holds one model against the bounds of the processor: here nothing is known about the
//! machine. Reading order: `parity` → `speed` → `routed`.

mod parity;
mod routed;
mod speed;

pub use parity::{Parity, parity};
pub use routed::{Routed, routed};
pub use speed::{Speed, speeds};

use engine::{Engine, EngineError, Row};
use journey::{Draw, JourneyId, Sampled};

/// Feeds each text from where the engine's KV ends, and samples greedily after it.
fn advance(
    engine: &mut dyn Engine,
    texts: &[Vec<u32>],
    candidates: usize,
) -> Result<Vec<Sampled>, EngineError> {
    let draws = &[Draw { candidates, ..Draw::GREEDY }];
    let rows: Vec<Row<'_>> = (0..)
        .map(JourneyId)
        .zip(texts)
        .map(|(journey, text)| {
            let from = engine.held(journey);
            Row { journey, salt: 0, from, tokens: &text[from..], draws }
        })
        .collect();
    engine.step(&rows)
}

fn release(engine: &mut dyn Engine, count: usize) {
    (0..count as u64).for_each(|journey| engine.release(JourneyId(journey)));
}
