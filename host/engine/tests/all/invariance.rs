//! A row's logits, signals and token are the same bits alone, in any batch, and however its tokens were fed, shared,
//! evicted and fed again.

use std::path::Path;

use engine::{CpuEngine, Engine, EngineError, KvType, LoadOptions, ModelFiles, Row, load};
use journey::random::{Purpose, uniform};
use journey::{Adjust, Adjustments, Draw, JourneyId, Sampled, Sampling, Tally, TokenMask};
use proptest::prelude::*;

use crate::checkpoints::{golden, pair, random};

/// All that a step says about a position: bits of the logits, and the sampled token with its signals.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    logits: Vec<u32>,
    sampled: Sampled,
}

/// What a journey asks for: penalties of every third, a mask of every third.
struct Asked {
    journey: u64,
    /// How many tokens the tally counts.
    counted: usize,
    tally: Tally,
    wishes: Adjustments,
    mask: TokenMask,
}

impl Asked {
    fn of(journey: u64, counted: &[u32]) -> Self {
        let mut tally = Tally::default();
        counted.iter().for_each(|&token| tally.add(token));
        let wishes =
            Adjustments { presence: 0.5, frequency: 0.3, repetition: 1.2, bias: vec![(5, 1.0), (9, -1.0)] };
        let mask = TokenMask::from_words(vec![0x0f0f_0f0f; 8]);
        Self { journey, counted: counted.len(), tally, wishes, mask }
    }

    /// After a draft, too.
    fn draw<'a>(&'a self, drafted: &'a [u32]) -> Draw<'a> {
        let adjust = Adjust { tally: Some(&self.tally), drafted, ..Adjust::new(&self.wishes) };
        let position = (self.counted + drafted.len()) as u64;
        let uniform = uniform(self.journey, position, Purpose::Sample, 0);
        let (min_p, adjust) = match self.journey % 3 {
            0 => (0.0, None),
            1 => (0.02, Some(adjust)),
            _ => (0.0, Some(Adjust { mask: Some(&self.mask), ..adjust })),
        };
        let sampling = Sampling { temperature: 0.8, top_p: 0.95, top_k: 0, min_p };
        let keep = self.journey == 1;
        Draw { adjust, candidates: 3, logprobs_of: &[7, 0], keep, ..Draw::new(sampling, uniform) }
    }
}

fn sequence(journey: u64, len: usize, vocabulary: usize) -> Vec<u32> {
    let number = |i| uniform(journey + 1000, i as u64, Purpose::Policy, 0);
    (0..len).map(|i| (number(i) * vocabulary as f64) as u32).collect()
}

/// One for each draw.
fn step(engine: &mut CpuEngine, rows: &[Row<'_>]) -> Vec<Seen> {
    let mut logits = Vec::new();
    let watch = &mut |_: usize, of_draw: &[f32]| logits.push(of_draw.iter().map(|l| l.to_bits()).collect());
    let sampled = engine.step_watched(rows, watch).unwrap();
    assert_eq!(logits.len(), sampled.len());
    sampled.into_iter().zip(logits).map(|(sampled, logits)| Seen { logits, sampled }).collect()
}

/// An engine with several threads that shares what it can, in memory for few journeys, and the oracle's: one thread,
/// nothing shared, every prefix from nothing.
fn engines(directory: &Path, kv: KvType) -> (CpuEngine, CpuEngine) {
    let files = ModelFiles::Directory(directory.to_owned());
    let open = |options| load("test", &files, options, &mut |_| ()).unwrap().engine;
    let cold = open(LoadOptions { kv, share_prefixes: false, ..LoadOptions::default() });
    // A sequence of the tests has four blocks.
    let block = cold.spec().kv_bytes_per_token(KvType::Auto) * 16;
    let block = if kv == KvType::F16 { block / 2 } else { block };
    (open(LoadOptions { kv, threads: 3, kv_bytes: 18 * block, ..LoadOptions::default() }), cold)
}

/// The oracle: the whole prefix in one row, alone, from nothing.
fn alone(engine: &mut CpuEngine, journey: u64, tokens: &[u32]) -> Seen {
    let id = JourneyId(journey + 1_000_000);
    let asked = Asked::of(journey, tokens);
    let draws = &[asked.draw(&[])];
    let seen = step(engine, &[Row { journey: id, salt: 0, from: 0, tokens, draws }]).remove(0);
    engine.release(id);
    seen
}

/// What happens to one journey in one step of a random schedule.
#[derive(Clone, Debug)]
struct Feed {
    journey: usize,
    /// Tokens fed, as far as the sequence goes.
    count: usize,
    /// Positions given up first.
    back: usize,
    before: Before,
    /// After so many of the last tokens that are fed.
    draws: usize,
}

/// What happens to the journey before it is fed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Release,
    /// It was parked, while the others of the step were fed, and may have been evicted.
    Park,
    /// It becomes a fork of another journey with the same tokens.
    Fork,
}

fn feeds() -> impl Strategy<Value = Vec<Vec<Feed>>> {
    let before = prop_oneof![
        8 => Just(Before::Nothing), 1 => Just(Before::Release), 2 => Just(Before::Park), 1 => Just(Before::Fork)
    ];
    let count = prop_oneof![Just(1usize), 1usize..9, 20usize..50];
    let feed = (0usize..JOURNEYS, count, 0usize..12, before, 0usize..6);
    let feed = feed.prop_map(|(journey, count, back, before, draws)| Feed {
        journey,
        count,
        back: back.saturating_sub(6),
        before,
        // One token is decoded more often than a draft is verified.
        draws: if draws == 5 { 1 } else { draws },
    });
    proptest::collection::vec(proptest::collection::vec(feed, 1..6), 1..12)
}

/// One row of a step.
struct Fed<'a> {
    from: usize,
    /// The sequence to the row's end.
    known: &'a [u32],
    draws: usize,
    asked: Asked,
}

impl<'a> Fed<'a> {
    fn new(feed: &Feed, from: usize, known: &'a [u32]) -> Self {
        let draws = feed.draws.min(known.len() - from);
        // The tally counts what comes before the first position that is wanted; the rest is a draft.
        let counted = known.len() - draws.saturating_sub(1);
        Self { from, known, draws, asked: Asked::of(feed.journey as u64, &known[..counted]) }
    }

    fn draws(&self) -> Vec<Draw<'_>> {
        let after = &self.known[self.asked.counted..];
        (0..self.draws).map(|drafted| self.asked.draw(&after[..drafted])).collect()
    }
}

/// Runs a schedule of ragged batches; every draw must equal the oracle. Journeys 2i and 2i + 1 have the same
/// tokens, so they share beginnings and can be forks of each other.
fn follow((engine, cold): &mut (CpuEngine, CpuEngine), schedule: Vec<Vec<Feed>>) {
    let vocabulary = engine.spec().vocabulary;
    let tokens = |journey: u64| sequence(journey / 2, LENGTH, vocabulary);
    let sequences: Vec<Vec<u32>> = (0..JOURNEYS as u64).map(tokens).collect();
    let id = |journey: usize| JourneyId(journey as u64);
    for mut batch in schedule {
        batch.sort_by_key(|feed| feed.journey);
        batch.dedup_by_key(|feed| feed.journey);
        let mut rows = Vec::new();
        for feed in &batch {
            let journey = feed.journey;
            match feed.before {
                Before::Nothing => {}
                Before::Release => engine.release(id(journey)),
                Before::Park => engine.park(id(journey)),
                Before::Fork => engine.fork(id(journey ^ 1), id(journey)),
            }
        }
        let fed: Vec<Fed<'_>> = batch
            .iter()
            .map(|feed| {
                let from = engine.held(id(feed.journey)).saturating_sub(feed.back).min(LENGTH - 1);
                let to = (from + feed.count).min(LENGTH);
                Fed::new(feed, from, &sequences[feed.journey][..to])
            })
            .collect();
        let draws: Vec<Vec<Draw<'_>>> = fed.iter().map(Fed::draws).collect();
        for (&Fed { from, known, ref asked, .. }, draws) in fed.iter().zip(&draws) {
            let (journey, tokens) = (asked.journey as usize, &known[from..]);
            rows.push(Row { journey: id(journey), salt: journey as u64 / 4, from, tokens, draws });
        }
        match engine.step_watched(&rows, &mut |_, _| ()) {
            Ok(_) => {}
            // Journeys that are not parked cannot be evicted: make room, and leave this step.
            Err(EngineError::KvFull { .. }) => {
                (0..JOURNEYS).for_each(|journey| engine.park(id(journey)));
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        let mut seen = step(engine, &rows).into_iter();
        for row in &rows {
            let end = row.from + row.tokens.len();
            for (end, seen) in (end + 1 - row.draws.len()..=end).zip(seen.by_ref()) {
                let prefix = &sequences[row.journey.0 as usize][..end];
                assert_eq!(seen, alone(cold, row.journey.0, prefix));
            }
        }
        assert_eq!(seen.next(), None);
    }
    (0..JOURNEYS).for_each(|journey| engine.release(id(journey)));
    assert_eq!(engine.kv().tokens, 0);
}

#[test]
fn any_schedule_of_ragged_batches_gives_the_bits_of_each_row_alone() {
    let family = |name: &str| golden("families").join(name);
    let cases = [
        (random("f32"), KvType::F32),
        (pair("small"), KvType::F32),
        (family("gemma3"), KvType::F32),
        (family("qwen3"), KvType::F16),
    ];
    for (directory, kv) in cases {
        let engines = std::cell::RefCell::new(engines(&directory, kv));
        proptest!(ProptestConfig::with_cases(30), |(schedule in feeds())| {
            follow(&mut engines.borrow_mut(), schedule);
        });
        let used = engines.borrow().0.kv();
        assert!(
            used.hit_tokens > 0 && used.bytes == used.bytes_max,
            "sharing and eviction happened: {used:?}"
        );
    }
}

#[test]
fn a_prompt_token_by_token_gives_the_bits_of_the_prompt_at_once() {
    for model in ["small", "large"] {
        let (_, mut engine) = engines(&pair(model), KvType::F32);
        let tokens = sequence(3, 90, engine.spec().vocabulary);
        for (position, token) in tokens.iter().enumerate() {
            let asked = Asked::of(3, &tokens[..=position]);
            let draws = &[asked.draw(&[])];
            let row = Row { journey: JourneyId(3), salt: 0, from: position, tokens: &[*token], draws };
            let seen = step(&mut engine, &[row]).remove(0);
            if position % 7 == 0 || position + 1 == tokens.len() {
                assert_eq!(seen, alone(&mut engine, 3, &tokens[..=position]), "{model} at {position}");
            }
        }
    }
}

#[test]
fn decoding_beside_a_long_prefill_gives_the_bits_of_decoding_alone() {
    let (_, mut engine) = engines(&pair("large"), KvType::F32);
    let vocabulary = engine.spec().vocabulary;
    let (long, short) = (sequence(1, 900, vocabulary), sequence(2, 33, vocabulary));
    let head = Row { journey: JourneyId(2), salt: 0, from: 0, tokens: &short[..32], draws: &[] };
    assert_eq!(step(&mut engine, &[head]), []);
    let (of_long, of_short) = (Asked::of(1, &long), Asked::of(2, &short));
    let rows = [
        Row { journey: JourneyId(1), salt: 0, from: 0, tokens: &long, draws: &[of_long.draw(&[])] },
        Row { journey: JourneyId(2), salt: 0, from: 32, tokens: &short[32..], draws: &[of_short.draw(&[])] },
    ];
    let seen = step(&mut engine, &rows);
    assert_eq!(&seen[1], &alone(&mut engine, 2, &short));
    assert_eq!(&seen[0], &alone(&mut engine, 1, &long));
}

/// Tokens of each journey of a schedule: several KV pages.
const LENGTH: usize = 60;

/// Journeys of a schedule.
const JOURNEYS: usize = 8;
