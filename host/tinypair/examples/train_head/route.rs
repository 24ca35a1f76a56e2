//! Answers problems as the `r2r` policy does: a flagged token of the small model is dropped, the large model writes
//! that one token, and the small model goes on.

use anyhow::Result;
use journey::Sampled;
use tinypair::problems::Problem;

use crate::pair::{Ask, Pair, Text};

/// What came of a set of problems.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Routed {
    /// Problems asked.
    pub(crate) problems: usize,
    /// Problems answered right.
    pub(crate) solved: usize,
    /// Tokens of all answers.
    pub(crate) tokens: usize,
    /// How many of them the large model wrote.
    pub(crate) from_large: usize,
}

impl Routed {
    /// Percent of the tokens that the large model wrote.
    pub(crate) fn share(&self) -> f64 {
        100.0 * self.from_large as f64 / self.tokens as f64
    }

    /// Percent of the problems that were solved.
    pub(crate) fn accuracy(&self) -> f64 {
        100.0 * self.solved as f64 / self.problems as f64
    }

    /// Standard error of [`Routed::accuracy`].
    pub(crate) fn error(&self) -> f64 {
        let accuracy = self.accuracy();
        (accuracy * (100.0 - accuracy) / self.problems as f64).sqrt()
    }
}

/// Answers `problems`, whose prompts are in the lanes of `pair`, and adds up what came of it; `is_flagged` is asked about
/// every token of the small model, with the position it would take.
pub(crate) fn route(
    pair: &mut Pair,
    (prompts, problems): (&[Text], &[Problem]),
    is_flagged: &mut dyn FnMut(&Sampled, usize) -> bool,
    routed: &mut Routed,
) -> Result<()> {
    let mut texts = prompts.to_vec();
    loop {
        let going: Vec<usize> = (0..texts.len()).filter(|&lane| !pair.is_over(&texts[lane])).collect();
        if going.is_empty() {
            break;
        }
        advance(pair, &mut texts, &going, is_flagged, routed)?;
    }
    routed.problems += problems.len();
    routed.solved +=
        texts.iter().zip(problems).filter(|(text, problem)| pair.is_right(text, problem)).count();
    Ok(())
}

/// Adds one token to each of the texts `going`.
fn advance(
    pair: &mut Pair,
    texts: &mut [Text],
    going: &[usize],
    is_flagged: &mut dyn FnMut(&Sampled, usize) -> bool,
    routed: &mut Routed,
) -> Result<()> {
    let ask = |&lane: &usize| Ask { lane, text: &texts[lane].tokens, draws: 1 };
    let sampled = pair.small.step(&going.iter().map(ask).collect::<Vec<_>>())?;
    let (mut flagged, mut kept) = (Vec::new(), Vec::new());
    for (&lane, sampled) in going.iter().zip(&sampled) {
        if is_flagged(sampled, texts[lane].tokens.len()) {
            flagged.push(lane);
        } else {
            kept.push((lane, sampled.token));
        }
    }
    if !flagged.is_empty() {
        let written = pair.large.step(&flagged.iter().map(ask).collect::<Vec<_>>())?;
        kept.extend(flagged.iter().copied().zip(written.iter().map(|sampled| sampled.token)));
    }
    routed.tokens += going.len();
    routed.from_large += flagged.len();
    for (lane, token) in kept {
        texts[lane].tokens.push(token);
    }
    Ok(())
}
