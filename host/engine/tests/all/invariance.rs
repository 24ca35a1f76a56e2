//! A row's logits, signals and token are the same bits alone, in any batch, and however its tokens were fed.

use engine::{CandleEngine, Engine, Row};
use journey::random::{Purpose, uniform};
use journey::{Draw, JourneyId, Sampled, Sampling};
use proptest::prelude::*;

use crate::checkpoints::{open, pair, random};

/// All that a step says about a position: bits of the logits, and the sampled token with its signals.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    logits: Vec<u32>,
    sampled: Sampled,
}

fn draw(journey: u64, position: usize) -> Draw {
    let uniform = uniform(journey, position as u64, Purpose::Sample, 0);
    Draw { sampling: Sampling { temperature: 0.8, top_p: 0.95, top_k: 0 }, uniform, candidates: 3 }
}

fn sequence(journey: u64, len: usize, vocabulary: usize) -> Vec<u32> {
    let number = |i| uniform(journey + 1000, i as u64, Purpose::Policy, 0);
    (0..len).map(|i| (number(i) * vocabulary as f64) as u32).collect()
}

fn step(engine: &mut CandleEngine, rows: &[Row<'_>]) -> Vec<Option<Seen>> {
    let mut logits = vec![Vec::new(); rows.len()];
    let watch = &mut |row: usize, of_row: &[f32]| logits[row] = of_row.iter().map(|l| l.to_bits()).collect();
    let sampled = engine.step_watched(rows, watch).unwrap();
    let both = sampled.into_iter().zip(logits);
    both.map(|(sampled, logits)| sampled.map(|sampled| Seen { logits, sampled })).collect()
}

/// The oracle: the whole prefix in one row, alone, from nothing.
fn alone(engine: &mut CandleEngine, journey: u64, tokens: &[u32]) -> Seen {
    let id = JourneyId(journey + 1_000_000);
    let draw = Some(draw(journey, tokens.len()));
    let seen = step(engine, &[Row { journey: id, from: 0, tokens, draw }]).remove(0);
    engine.release(id);
    seen.unwrap()
}

/// What happens to one journey in one step of a random schedule.
#[derive(Clone, Debug)]
struct Feed {
    journey: usize,
    /// Tokens fed, as far as the sequence goes.
    count: usize,
    /// Positions given up first.
    back: usize,
    release: bool,
    draws: bool,
}

fn feeds() -> impl Strategy<Value = Vec<Vec<Feed>>> {
    let feed = (0usize..6, prop_oneof![Just(1usize), 1usize..9, 20usize..50], 0usize..12, 0u8..12, 0u8..4);
    let feed = feed.prop_map(|(journey, count, back, release, draws)| Feed {
        journey,
        count,
        back: back.saturating_sub(6),
        release: release == 0,
        draws: draws > 0,
    });
    proptest::collection::vec(proptest::collection::vec(feed, 1..6), 1..12)
}

/// Runs a schedule of ragged batches; every drawn row must equal the oracle.
fn follow(engine: &mut CandleEngine, schedule: Vec<Vec<Feed>>) {
    let vocabulary = engine.spec().vocabulary;
    let sequences: Vec<Vec<u32>> = (0..6).map(|journey| sequence(journey, LENGTH, vocabulary)).collect();
    let mut fed = [0usize; 6];
    for mut batch in schedule {
        batch.sort_by_key(|feed| feed.journey);
        batch.dedup_by_key(|feed| feed.journey);
        let mut rows = Vec::new();
        for feed in &batch {
            let journey = feed.journey;
            if feed.release {
                engine.release(JourneyId(journey as u64));
                fed[journey] = 0;
            }
            let from = fed[journey].saturating_sub(feed.back).min(LENGTH - 1);
            let to = (from + feed.count).min(LENGTH);
            let draw = feed.draws.then(|| draw(journey as u64, to));
            let tokens = &sequences[journey][from..to];
            rows.push(Row { journey: JourneyId(journey as u64), from, tokens, draw });
            fed[journey] = to;
        }
        for (seen, row) in step(engine, &rows).into_iter().zip(&rows) {
            assert_eq!(seen.is_some(), row.draw.is_some());
            let Some(seen) = seen else { continue };
            let prefix = &sequences[row.journey.0 as usize][..row.from + row.tokens.len()];
            assert_eq!(seen, alone(engine, row.journey.0, prefix));
        }
    }
    for journey in 0..6 {
        engine.release(JourneyId(journey));
    }
    assert_eq!(engine.kv().tokens, 0);
}

#[test]
fn any_schedule_of_ragged_batches_gives_the_bits_of_each_row_alone() {
    for directory in [random("f32"), pair("small")] {
        let engine = std::cell::RefCell::new(open(&directory).unwrap().engine);
        proptest!(ProptestConfig::with_cases(40), |(schedule in feeds())| {
            follow(&mut engine.borrow_mut(), schedule);
        });
    }
}

#[test]
fn a_prompt_token_by_token_gives_the_bits_of_the_prompt_at_once() {
    for model in ["small", "large"] {
        let mut engine = open(&pair(model)).unwrap().engine;
        let tokens = sequence(3, 90, engine.spec().vocabulary);
        for (position, token) in tokens.iter().enumerate() {
            let draw = Some(draw(3, position + 1));
            let row = Row { journey: JourneyId(3), from: position, tokens: &[*token], draw };
            let seen = step(&mut engine, &[row]).remove(0).unwrap();
            if position % 7 == 0 || position + 1 == tokens.len() {
                assert_eq!(seen, alone(&mut engine, 3, &tokens[..=position]), "{model} at {position}");
            }
        }
    }
}

#[test]
fn decoding_beside_a_long_prefill_gives_the_bits_of_decoding_alone() {
    let mut engine = open(&pair("large")).unwrap().engine;
    let vocabulary = engine.spec().vocabulary;
    let (long, short) = (sequence(1, 900, vocabulary), sequence(2, 33, vocabulary));
    let head = Row { journey: JourneyId(2), from: 0, tokens: &short[..32], draw: None };
    assert_eq!(step(&mut engine, &[head]), [None]);
    let rows = [
        Row { journey: JourneyId(1), from: 0, tokens: &long, draw: Some(draw(1, 900)) },
        Row { journey: JourneyId(2), from: 32, tokens: &short[32..], draw: Some(draw(2, 33)) },
    ];
    let seen = step(&mut engine, &rows);
    assert_eq!(seen[1].as_ref().unwrap(), &alone(&mut engine, 2, &short));
    assert_eq!(seen[0].as_ref().unwrap(), &alone(&mut engine, 1, &long));
}

/// Tokens of each journey of a schedule: several KV pages.
const LENGTH: usize = 60;
