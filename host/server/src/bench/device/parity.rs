//! Whether a device gives the processor's logits: both are fed the same tokens, the processor's choices included.

use engine::{Engine, EngineError};

use super::{advance, release};
use crate::bench::decode::rounds::prompt;

/// How far two engines are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parity {
    /// Tokens that both chose.
    pub tokens: usize,
    /// Those of them that are equal.
    pub equal: usize,
    /// The largest difference of a logit, of the best ones of both.
    pub difference: f32,
}

/// Feeds some prompts of different lengths in one batch and continues them greedily.
///
/// # Errors
/// Of either engine.
pub fn parity(processor: &mut dyn Engine, device: &mut dyn Engine) -> Result<Parity, EngineError> {
    let vocabulary = processor.spec().vocabulary;
    let mut texts: Vec<Vec<u32>> =
        (0..).zip(PROMPTS).map(|(seed, len)| prompt(seed, len, vocabulary)).collect();
    let mut parity = Parity { tokens: 0, equal: 0, difference: 0.0 };
    for _ in 0..STEPS {
        let theirs = advance(processor, &texts, CANDIDATES)?;
        let ours = advance(device, &texts, CANDIDATES)?;
        for ((ours, theirs), text) in ours.iter().zip(&theirs).zip(&mut texts) {
            parity.tokens += 1;
            parity.equal += usize::from(ours.token == theirs.token);
            for candidate in &ours.candidates {
                let same = theirs.candidates.iter().find(|other| other.token == candidate.token);
                let difference = same.map_or(0.0, |same| (same.logit - candidate.logit).abs());
                parity.difference = parity.difference.max(difference);
            }
            text.push(theirs.token);
        }
    }
    release(processor, texts.len());
    release(device, texts.len());
    Ok(parity)
}

/// Tokens of the prompts.
const PROMPTS: [usize; 5] = [1, 17, 48, 5, 100];

/// Tokens chosen after each.
const STEPS: usize = 24;

/// Logits that are compared at each.
const CANDIDATES: usize = 32;

#[cfg(test)]
mod tests {
    use engine::{Device, LoadOptions, RandomShape, random};

    use super::*;

    #[test]
    fn the_processor_is_equal_to_itself() {
        let engine = || random(RandomShape::Tiny, Device::Cpu, LoadOptions::default()).unwrap();
        let tokens = PROMPTS.len() * STEPS;
        let expected = Parity { tokens, equal: tokens, difference: 0.0 };
        assert_eq!(parity(&mut *engine(), &mut *engine()).unwrap(), expected);
    }
}
