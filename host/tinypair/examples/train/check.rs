//! Measures a pair on held-out problems: each model alone, and several ways to share the tokens between them.

use std::io::Write;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tinypair::problems::Problem;
use tokenizers::Tokenizer;

use crate::decode::{Chosen, Pair, Signals, Written};
use crate::model::Model;

/// Prints one line per way of answering `problems`.
pub(crate) fn report(
    [small, large]: [&Model; 2],
    tokenizer: &Tokenizer,
    problems: &[Problem],
    out: &mut impl Write,
) -> Result<()> {
    let both = Pair { small: Some(small), large: Some(large), tokenizer };
    let small_alone = alone(&Pair { large: None, ..both }, problems)?;
    let large_alone = alone(&Pair { small: None, ..both }, problems)?;
    line(out, "small alone", &small_alone)?;
    line(out, "large alone", &large_alone)?;
    for target in [0.97, 0.98, 0.99] {
        let (tokens, solved) = cascade(&small_alone, &large_alone, target);
        writeln!(
            out,
            "{:<44} {tokens:>6.1} {solved:>9.1}",
            format!("whole queries, to {:.0} % of large alone", target * 100.0)
        )?;
    }
    for share in [0.05, 0.10, 0.50] {
        let mut rng = StdRng::seed_from_u64(1);
        let written = both.answer(problems, &mut |_| large_if(rng.random_bool(share)))?;
        line(out, &format!("random, {:.0} %", share * 100.0), &written)?;
    }
    for threshold in [0.6, 0.5, 0.4, 0.3, 0.2] {
        let written = both.answer(problems, &mut |signals: Signals| large_if(signals.entropy > threshold))?;
        line(out, &format!("entropy > {threshold} nats"), &written)?;
    }
    for threshold in [0.6, 0.8, 0.9] {
        let written = both.answer(problems, &mut |signals: Signals| large_if(signals.margin < threshold))?;
        line(out, &format!("margin < {threshold}"), &written)?;
    }
    Ok(())
}

/// The share of `written` that is solved, in percent.
pub(crate) fn accuracy(written: &[Written]) -> f64 {
    100.0 * written.iter().filter(|written| written.solved).count() as f64 / written.len() as f64
}

/// Answers `problems` with the only model of `pair`.
pub(crate) fn alone(pair: &Pair<'_>, problems: &[Problem]) -> Result<Vec<Written>> {
    pair.answer(problems, &mut |_| Chosen::Small)
}

fn large_if(hard: bool) -> Chosen {
    if hard { Chosen::Large } else { Chosen::Small }
}

fn line(out: &mut impl Write, name: &str, written: &[Written]) -> Result<()> {
    let all: usize = written.iter().map(|written| written.tokens).sum();
    let from_large: usize = written.iter().map(|written| written.from_large).sum();
    let share = 100.0 * from_large as f64 / all as f64;
    writeln!(out, "{name:<44} {share:>6.1} {:>9.1}", accuracy(written))?;
    out.flush()?;
    Ok(())
}

/// Sends whole problems to the large model, the ones the small model was least sure about first, until `target` of
/// the large model's accuracy is reached; gives the share of tokens from the large model and the accuracy, in percent.
///
/// The small model's draft of a problem sent on is not counted, which favours this way of routing.
fn cascade(small: &[Written], large: &[Written], target: f64) -> (f64, f64) {
    let mut order: Vec<usize> = (0..small.len()).collect();
    order.sort_by(|a, b| small[*b].mean_entropy.total_cmp(&small[*a].mean_entropy));
    let mut answers = small.to_vec();
    let wanted = target * accuracy(large);
    let mut sent = 0;
    while accuracy(&answers) < wanted && sent < order.len() {
        answers[order[sent]] = large[order[sent]].clone();
        sent += 1;
    }
    let all: usize = answers.iter().map(|written| written.tokens).sum();
    let from_large: usize = answers.iter().map(|written| written.from_large).sum();
    (100.0 * from_large as f64 / all as f64, accuracy(&answers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_queries_go_by_the_entropy_of_the_draft() {
        let draft = |solved, mean_entropy| Written { solved, tokens: 10, from_large: 0, mean_entropy };
        let small = [draft(true, 0.1), draft(false, 0.9), draft(true, 0.2), draft(false, 0.5)];
        let large = vec![Written { solved: true, tokens: 10, from_large: 10, mean_entropy: 0.0 }; 4];
        assert_eq!(cascade(&small, &large, 1.0), (50.0, 100.0));
        assert_eq!(cascade(&small, &large, 0.75), (25.0, 75.0));
    }
}
