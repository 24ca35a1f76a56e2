//! Compares the head with entropy, margin and chance at equal shares of tokens from the large model.
//!
//! Thresholds come from other problems than those that are measured: they are quantiles of what the small model says
//! of its own tokens on those. The share that comes out is printed beside the accuracy, as it is never quite the one
//! aimed at.

use std::io::Write;

use anyhow::Result;
use journey::Sampled;
use tinypair::heads::R2R;
use tinypair::problems::{HELD_OUT_SEED, Mix, held_out};

use crate::label::{self, Example};
use crate::pair::{LANES, Pair};
use crate::route::{Routed, route};

/// What a router may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The score of the head.
    Head,
    /// Entropy of the small model.
    Entropy,
    /// Its margin, turned round so that more is less sure.
    Margin,
    /// Nothing.
    Random,
}

impl Signal {
    /// All, in the order of the table.
    const ALL: [Self; 4] = [Self::Head, Self::Entropy, Self::Margin, Self::Random];

    fn of(self, sampled: &Sampled, position: usize) -> f32 {
        match self {
            Self::Head => sampled.scores[0],
            Self::Entropy => sampled.signals.entropy,
            Self::Margin => 1.0 - sampled.signals.margin,
            Self::Random => noise(sampled, position),
        }
    }
}

/// Prints the table of a mix, of `count` problems; the head must be attached to the small model.
pub(crate) fn table(pair: &mut Pair, mix: Mix, count: usize, out: &mut impl Write) -> Result<()> {
    let thresholds = thresholds(pair, mix)?;
    // The small model alone, the large one alone, the committed threshold, and then the cells of the table.
    let mut ways: Vec<(Signal, f32)> =
        vec![(Signal::Random, f32::INFINITY), (Signal::Random, 0.0), (Signal::Head, R2R.threshold)];
    ways.extend(thresholds.iter().flatten());
    let mut routed = vec![Routed::default(); ways.len()];
    for problems in held_out(mix, HELD_OUT_SEED, count).chunks(LANES) {
        let prompts = pair.begin(problems)?;
        for (&(signal, threshold), routed) in ways.iter().zip(&mut routed) {
            let mut is_flagged = |sampled: &Sampled, position| signal.of(sampled, position) >= threshold;
            route(pair, (&prompts, problems), &mut is_flagged, routed)?;
        }
    }
    writeln!(out, "\n{count} held-out problems, mix {}", mix.name())?;
    writeln!(out, "small alone {}, large alone {}", solved(&routed[0]), solved(&routed[1]))?;
    let (share, solved_so, threshold) = (routed[2].share(), solved(&routed[2]), R2R.threshold);
    writeln!(out, "head at {threshold}: {solved_so} with {share:.2} % of the tokens from large\n")?;
    writeln!(out, "| share | head | entropy | margin | random |\n|---|---|---|---|---|")?;
    let lines = routed[3..].chunks(Signal::ALL.len()).zip(thresholds);
    for (share, (routed, ways)) in SHARES.iter().zip(lines) {
        write!(out, "| {share} %")?;
        for (routed, (_, threshold)) in routed.iter().zip(ways) {
            write!(out, " | {:.1} %: {} (at {threshold:.3})", routed.share(), solved(routed))?;
        }
        writeln!(out, " |")?;
    }
    Ok(())
}

/// For each share the signals with the thresholds that flag so many of the small model's own tokens.
fn thresholds(pair: &mut Pair, mix: Mix) -> Result<Vec<[(Signal, f32); 4]>> {
    let mut values: [Vec<f32>; 4] = Default::default();
    for problems in held_out(mix, TUNING_SEED, TUNING_COUNT).chunks(LANES) {
        let prompts = pair.begin(problems)?;
        let mut observe = |sampled: &Sampled, position: usize| {
            for (values, signal) in values.iter_mut().zip(Signal::ALL) {
                values.push(signal.of(sampled, position));
            }
            false
        };
        route(pair, (&prompts, problems), &mut observe, &mut Routed::default())?;
    }
    values.iter_mut().for_each(|values| values.sort_by(|a, b| b.total_cmp(a)));
    let threshold =
        |signal: usize, share: f64| values[signal][(share / 100.0 * values[signal].len() as f64) as usize];
    let of_share = |&share: &f64| std::array::from_fn(|at| (Signal::ALL[at], threshold(at, share)));
    Ok(SHARES.iter().map(of_share).collect())
}

/// Prints how well each signal orders the small model's tokens on held-out problems, by either label.
pub(crate) fn areas(pair: &mut Pair, mix: Mix, count: usize, out: &mut impl Write) -> Result<()> {
    let examples = label::examples(pair, &held_out(mix, HELD_OUT_SEED, count))?;
    writeln!(out, "| tokens | share | AUC of the head | of entropy | of margin |\n|---|---|---|---|---|")?;
    area("useful to replace", &examples, |one| one.is_useful, out)?;
    area("not the large model's", &examples, |one| one.differs, out)
}

fn area(name: &str, examples: &[Example], is_hit: fn(&Example) -> bool, out: &mut impl Write) -> Result<()> {
    let weight = |one: &Example| f64::from(one.weight);
    let hits: f64 = examples.iter().filter(|one| is_hit(one)).map(weight).sum();
    let share = 100.0 * hits / examples.iter().map(weight).sum::<f64>();
    write!(out, "| {name} | {share:.2} %")?;
    let signals: [fn(&Example) -> f32; 3] =
        [|one| one.scores[0], |one| one.signals.entropy, |one| -one.signals.margin];
    for signal in signals {
        write!(out, " | {:.4}", label::area(examples, is_hit, signal))?;
    }
    writeln!(out, " |")?;
    Ok(())
}

fn solved(routed: &Routed) -> String {
    format!("{:.1} ± {:.1} %", routed.accuracy(), routed.error())
}

/// A number in [0, 1) that depends on nothing that matters: splitmix64 of what is at hand.
fn noise(sampled: &Sampled, position: usize) -> f32 {
    let mut x = u64::from(sampled.logprob.to_bits()) ^ ((position as u64) << 32) ^ u64::from(sampled.token);
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// Percent of the tokens that are to come from the large model.
const SHARES: [f64; 9] = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 30.0];
/// The seed of the held-out problems that thresholds come from.
const TUNING_SEED: u64 = 2;
/// How many there are.
const TUNING_COUNT: usize = 500;
