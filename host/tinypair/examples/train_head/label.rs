//! Which of the small model's tokens are worth replacing, found by trying.
//!
//! R2R's path-following labels with the answer itself as the judge. A path begins as the large model's own answer. At
//! the first token where the small model would write something else, the large model finishes the answer from that
//! other token: if the result is still right the token did not matter, the path goes on with it, as it would when
//! served; if it is wrong, replacing the token is useful, and the path keeps the large model's. So prefixes are those
//! that a perfect router would see. Problems that the large model gets wrong teach nothing and are left out.

use anyhow::Result;
use journey::{Sampled, Signals};
use tinypair::problems::Problem;

use crate::pair::{Ask, LANES, Pair, Text};

/// One token of the small model.
pub(crate) struct Example {
    /// The scores of the heads that are attached to the small model.
    pub(crate) scores: Vec<f32>,
    /// Of the small model.
    pub(crate) signals: Signals,
    /// Whether the large model would have written another token.
    pub(crate) differs: bool,
    /// Whether the answer is right with the large model's token and wrong with this one.
    pub(crate) is_useful: bool,
    /// How many tokens it stands for.
    pub(crate) weight: f32,
}

/// Labels the small model's tokens on `problems`.
pub(crate) fn examples(pair: &mut Pair, problems: &[Problem]) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    for problems in problems.chunks(LANES) {
        let mut paths = begin(pair, problems)?;
        while paths.iter().any(|path| path.is_open) {
            let forks = follow(pair, &mut paths, &mut examples)?;
            settle(pair, problems, &mut paths, (forks, &mut examples))?;
        }
    }
    Ok(examples)
}

/// An answer that is being followed.
struct Path {
    /// The whole of it.
    text: Text,
    /// The first token that the small model has not been asked about.
    at: usize,
    /// Whether there is more to follow.
    is_open: bool,
}

/// Where the small model wants another token than the path has.
struct Fork {
    lane: usize,
    /// The position of the token.
    at: usize,
    /// The index of its example.
    example: usize,
    /// The small model's token.
    token: u32,
}

fn begin(pair: &mut Pair, problems: &[Problem]) -> Result<Vec<Path>> {
    let mut texts: Vec<(usize, Text)> = pair.begin(problems)?.into_iter().enumerate().collect();
    pair.finish(&mut texts)?;
    let path = |((_, text), problem): ((usize, Text), &Problem)| {
        let is_open = pair.is_right(&text, problem);
        Path { at: text.prompt, text, is_open }
    };
    Ok(texts.into_iter().zip(problems).map(path).collect())
}

/// Follows every open path up to the first token that the small model wants otherwise, all in one step.
fn follow(pair: &mut Pair, paths: &mut [Path], examples: &mut Vec<Example>) -> Result<Vec<Fork>> {
    let open: Vec<usize> = (0..paths.len()).filter(|&lane| paths[lane].is_open).collect();
    let ask = |&lane: &usize| {
        let Path { text, at, .. } = &paths[lane];
        Ask { lane, text: &text.tokens[..text.tokens.len() - 1], draws: text.tokens.len() - at }
    };
    let mut sampled = pair.small.step(&open.iter().map(ask).collect::<Vec<_>>())?.into_iter();
    let mut forks = Vec::new();
    for lane in open {
        let path = &mut paths[lane];
        let wanted: Vec<Sampled> = sampled.by_ref().take(path.text.tokens.len() - path.at).collect();
        path.is_open = false;
        for sampled in wanted {
            let at = path.at;
            let token = sampled.token;
            let differs = token != path.text.tokens[at];
            let index = examples.len();
            examples.extend(example(sampled, differs, at));
            path.at += 1;
            if differs {
                forks.push(Fork { lane, at, example: index, token });
                path.is_open = path.at < path.text.tokens.len();
                break;
            }
        }
    }
    Ok(forks)
}

/// The example of a token, not known to be useful yet; of sure tokens only some are kept.
fn example(sampled: Sampled, differs: bool, at: usize) -> Option<Example> {
    let is_sure = !differs && sampled.signals.entropy < SURE_NATS;
    let weight = if is_sure { THINNING as f32 } else { 1.0 };
    let is_kept = !is_sure || at.is_multiple_of(THINNING);
    let Sampled { scores, signals, .. } = sampled;
    is_kept.then_some(Example { scores, signals, differs, is_useful: false, weight })
}

/// Finishes the answers that the small model's tokens lead to, labels the tokens and chooses how the paths go on.
fn settle(
    pair: &mut Pair,
    problems: &[Problem],
    paths: &mut [Path],
    (forks, examples): (Vec<Fork>, &mut [Example]),
) -> Result<()> {
    let other = |fork: &Fork| {
        let Text { prompt, tokens } = &paths[fork.lane].text;
        let tokens = [&tokens[..fork.at], &[fork.token]].concat();
        (fork.lane, Text { prompt: *prompt, tokens })
    };
    let mut others: Vec<(usize, Text)> = forks.iter().map(other).collect();
    pair.finish(&mut others)?;
    for (fork, (lane, text)) in forks.into_iter().zip(others) {
        if pair.is_right(&text, &problems[lane]) {
            let path = &mut paths[lane];
            path.is_open = path.at < text.tokens.len();
            path.text = text;
        } else {
            examples[fork.example].is_useful = true;
        }
    }
    Ok(())
}

/// The probability that a useful token scores above another one, equal scores counting half: the area under the
/// curve of hits against false alarms.
pub(crate) fn area(examples: &[Example], is_hit: fn(&Example) -> bool, score: fn(&Example) -> f32) -> f64 {
    let mut scored: Vec<(f32, f64, bool)> =
        examples.iter().map(|one| (score(one), f64::from(one.weight), is_hit(one))).collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut hits, mut others, mut pairs) = (0.0, 0.0, 0.0);
    for equal in scored.chunk_by(|a, b| a.0 == b.0) {
        let of = |hit: bool| equal.iter().filter(|one| one.2 == hit).map(|one| one.1).sum::<f64>();
        pairs += of(true) * (others + of(false) / 2.0);
        hits += of(true);
        others += of(false);
    }
    pairs / (hits * others)
}

/// Tokens below this entropy are sure.
const SURE_NATS: f32 = 0.01;
/// One in so many sure tokens is kept.
const THINNING: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_counts_pairs_in_order_and_halves_of_equal_ones() {
        let example = |entropy, is_useful, weight| {
            let signals = Signals { entropy, ..Signals::default() };
            Example { scores: Vec::new(), signals, differs: is_useful, is_useful, weight }
        };
        let some = [example(0.1, false, 3.0), example(0.2, true, 1.0), example(0.2, false, 1.0)];
        // Above three others and level with one, of four.
        assert_eq!(area(&some, |one| one.is_useful, |one| one.signals.entropy), 3.5 / 4.0);
    }
}
