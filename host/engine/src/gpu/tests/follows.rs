//! The engine gives the tokens and logits of the processor's, whatever happens to its journeys.

use std::collections::VecDeque;

use journey::random::{Purpose, uniform};

use super::*;
use crate::Engine;
use crate::cpu::KvShape;
use crate::gpu::pages::Pages;
use crate::paging::PAGE;

/// Random numbers of a schedule.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 += 1;
        (uniform(7, self.0, Purpose::Policy, 0) * count as f64) as usize
    }
}

fn sampled(journey: u64, position: usize) -> Draw<'static> {
    let uniform = uniform(journey, position as u64, Purpose::Sample, 0);
    let kinds = [(0.8, 0.95, 0), (0.0, 1.0, 0), (1.3, 1.0, 0), (1.0, 0.9, 7)];
    let (temperature, top_p, top_k) = kinds[position % kinds.len()];
    Draw { candidates: 3, ..Draw::new(Sampling { temperature, top_p, top_k, min_p: 0.0 }, uniform) }
}

fn text(seed: u64, len: usize, vocabulary: usize) -> Vec<u32> {
    let number = |i| uniform(seed + 1000, i as u64, Purpose::Policy, 0);
    (0..len).map(|i| (number(i) * vocabulary as f64) as u32).collect()
}

/// Both engines with the same number of blocks.
fn both(directory: &Path, blocks: u64) -> (GpuEngine, CpuEngine) {
    let cpu = open_cpu(directory, options());
    let spec = cpu.spec();
    let shape = KvShape { layers: spec.layers, kv_heads: spec.kv_heads, head_dim: spec.head_dim };
    let ours = Pages::bytes(shape, DType::F32) as u64;
    let theirs = shape.bytes_per_token(KvType::F32) * PAGE as u64;
    let with = |block| LoadOptions { kv_bytes: blocks * block, ..options() };
    (open(directory, with(ours)), open_cpu(directory, with(theirs)))
}

/// Runs the same steps on both.
fn step(engines: &mut (GpuEngine, CpuEngine), rows: &[Row<'_>]) -> bool {
    // Of each row the logits of its draws, in their order.
    let mut seen: Vec<VecDeque<Vec<f32>>> = vec![VecDeque::new(); rows.len()];
    let ours =
        engines.0.step_watched(rows, &mut |row, logits| seen[row].push_back(logits.to_vec1().unwrap()));
    let mut difference = 0.0f32;
    let theirs = engines.1.step_watched(rows, &mut |row, logits| {
        let ours = seen[row].pop_front();
        difference = difference.max(ours.map_or(0.0, |ours| largest_difference(&ours, logits)));
    });
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(ours), Err(theirs)) => {
            assert_eq!(ours.to_string(), theirs.to_string());
            return false;
        }
        (ours, theirs) => panic!("{ours:?} against {theirs:?}"),
    };
    assert!(difference <= 1e-4, "largest difference of a logit {difference}");
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.token, theirs.token);
        assert!((ours.logprob - theirs.logprob).abs() < 1e-3);
        assert!((ours.signals.entropy - theirs.signals.entropy).abs() < 1e-3);
        assert!((ours.signals.top1 - theirs.signals.top1).abs() < 1e-3);
        assert!((ours.signals.margin - theirs.signals.margin).abs() < 1e-3);
        assert_eq!(ours.candidates.len(), theirs.candidates.len());
        for (ours, theirs) in ours.candidates.iter().zip(&theirs.candidates) {
            assert!((ours.logit - theirs.logit).abs() < 1e-4 && (ours.prob - theirs.prob).abs() < 1e-3);
        }
    }
    true
}

/// Ragged batches of journeys that are parked, forked, cut, released and evicted; 2i and 2i + 1 have the same tokens.
fn follow(directory: &Path) {
    let mut engines = both(directory, 18);
    let vocabulary = engines.1.spec().vocabulary;
    let texts: Vec<Vec<u32>> =
        (0..JOURNEYS as u64).map(|journey| text(journey / 2, LENGTH, vocabulary)).collect();
    let id = |journey: usize| JourneyId(journey as u64);
    let mut dice = Dice(0);
    for _ in 0..STEPS {
        let mut rows = Vec::new();
        for (journey, text) in texts.iter().enumerate() {
            if dice.below(2) == 0 {
                continue;
            }
            let engines: [&mut dyn Engine; 2] = [&mut engines.0, &mut engines.1];
            let what = dice.below(12);
            for engine in engines {
                match what {
                    0 => engine.release(id(journey)),
                    1 | 2 => engine.park(id(journey)),
                    3 => engine.fork(id(journey ^ 1), id(journey)),
                    _ => {}
                }
            }
            let count = [1, 1, 1 + dice.below(8), 20 + dice.below(30)][dice.below(4)];
            let back = dice.below(12).saturating_sub(6);
            // None, one, or one for each of the last few tokens: a draft that is verified.
            rows.push((journey, text, count, back, [0, 1, 1, 1 + dice.below(5)][dice.below(4)]));
        }
        let rows: Vec<(usize, usize, &[u32], Vec<Draw<'_>>)> = rows
            .into_iter()
            .map(|(journey, text, count, back, draws)| {
                let held = engines.0.held(id(journey));
                assert_eq!(held, engines.1.held(id(journey)));
                let from = held.saturating_sub(back).min(LENGTH - 1);
                let to = (from + count).min(LENGTH);
                let draws = (to - draws.min(to - from)..to).map(|at| sampled(journey as u64, at)).collect();
                (journey, from, &text[from..to], draws)
            })
            .collect();
        let rows = rows.iter().map(|&(journey, from, tokens, ref draws)| Row {
            journey: id(journey),
            salt: journey as u64 / 4,
            from,
            tokens,
            draws,
        });
        let rows: Vec<Row<'_>> = rows.collect();
        if !step(&mut engines, &rows) {
            (0..JOURNEYS).for_each(|journey| engines.0.park(id(journey)));
            (0..JOURNEYS).for_each(|journey| engines.1.park(id(journey)));
        }
    }
    let used = engines.0.kv();
    assert!(used.hit_tokens > 0 && used.bytes == used.bytes_max, "sharing and eviction happened: {used:?}");
    assert_eq!((used.tokens, used.hit_tokens), (engines.1.kv().tokens, engines.1.kv().hit_tokens));
    (0..JOURNEYS).for_each(|journey| engines.0.release(id(journey)));
    assert_eq!(engines.0.kv().tokens, 0);
}

#[test]
fn any_schedule_gives_the_tokens_of_the_processor() {
    for family in ["llama3", "mistral", "qwen3", "gemma2", "gemma3"] {
        follow(&golden_path("families").join(family));
    }
    follow(&golden_path("random/f32"));
    follow(&pair("small"));
}

/// Continues prompts greedily, all in one batch, each in pieces of some tokens first.
fn continued(engine: &mut dyn Engine, prompts: &[Vec<u32>], piece: usize) -> Vec<Vec<u32>> {
    let mut texts = prompts.to_vec();
    for _ in 0..24 {
        let mut made = vec![None; texts.len()];
        while made.iter().any(Option::is_none) {
            let open: Vec<usize> = (0..texts.len()).filter(|&ix| made[ix].is_none()).collect();
            let rows: Vec<Row<'_>> = open
                .iter()
                .map(|&ix| {
                    let from = engine.held(JourneyId(ix as u64));
                    let to = (from + piece).min(texts[ix].len());
                    let draws: &[Draw<'_>] = if to == texts[ix].len() { &[GREEDY] } else { &[] };
                    Row { draws, ..row(ix as u64, from, &texts[ix][from..to]) }
                })
                .collect();
            let drawn = rows.iter().filter(|row| !row.draws.is_empty()).map(|row| row.journey.0 as usize);
            let drawn: Vec<usize> = drawn.collect();
            let sampled = engine.step(&rows).unwrap();
            drawn.iter().zip(sampled).for_each(|(&ix, sampled)| made[ix] = Some(sampled.token));
        }
        texts.iter_mut().zip(made).for_each(|(text, token)| text.extend(token));
    }
    (0..texts.len()).for_each(|ix| engine.release(JourneyId(ix as u64)));
    texts
}

#[test]
fn answers_are_the_same_alone_in_a_batch_and_in_pieces() {
    let (mut ours, mut theirs) = both(&pair("large"), 64);
    let vocabulary = ours.spec().vocabulary;
    let prompts: Vec<Vec<u32>> = (1..6).map(|seed| text(seed, 9 * seed as usize, vocabulary)).collect();
    let expected = continued(&mut theirs, &prompts, 1000);
    for piece in [1000, 5, 16] {
        assert_eq!(continued(&mut ours, &prompts, piece), expected, "in pieces of {piece}");
    }
    for (prompt, expected) in prompts.iter().zip(&expected) {
        assert_eq!(&continued(&mut ours, std::slice::from_ref(prompt), 1000)[0], expected);
    }
}

#[test]
fn a_journey_that_hops_between_copies_makes_the_tokens_of_one() {
    let (mut here, mut alone) = both(&pair("small"), 64);
    let mut there = open(&pair("small"), options());
    let mut tokens = text(3, 20, here.spec().vocabulary);
    let expected = continued(&mut alone, std::slice::from_ref(&tokens), 1000).remove(0);
    let id = JourneyId(5);
    for turn in 0..24 {
        let (at, other) = if turn % 3 == 2 { (&mut there, &mut here) } else { (&mut here, &mut there) };
        other.park(id);
        let from = at.held(id);
        let step = at.step(&[row(5, from, &tokens[from..])]).unwrap();
        tokens.push(step[0].token);
    }
    assert_eq!(tokens, expected);
}

#[test]
fn a_fork_goes_on_where_its_origin_was_and_both_keep_their_own() {
    let mut engines = both(&golden_path("families/qwen3"), 64);
    let vocabulary = engines.0.spec().vocabulary;
    let (stem, left, right) = (text(1, 21, vocabulary), text(2, 9, vocabulary), text(3, 9, vocabulary));
    step(&mut engines, &[row(1, 0, &stem)]);
    engines.0.fork(JourneyId(1), JourneyId(2));
    engines.1.fork(JourneyId(1), JourneyId(2));
    step(&mut engines, &[row(1, 21, &left), row(2, 21, &right)]);
    step(&mut engines, &[row(2, 30, &left), row(1, 30, &right)]);
    assert_eq!((engines.0.held(JourneyId(1)), engines.1.held(JourneyId(2))), (39, 39));
}

#[test]
fn rows_of_very_different_length_decode_together() {
    let mut engines = both(&pair("small"), 400);
    let vocabulary = engines.0.spec().vocabulary;
    let lengths = [1usize, 3, 17, 40, 41, 300, 700, 15, 16, 2];
    let texts: Vec<Vec<u32>> =
        (0..).zip(lengths).map(|(seed, len)| text(seed, len + 2, vocabulary)).collect();
    for (ix, text) in texts.iter().enumerate() {
        let tokens = &text[..lengths[ix]];
        step(&mut engines, &[Row { draws: &[], ..row(ix as u64, 0, tokens) }]);
    }
    for more in 0..2 {
        let draws: Vec<Draw<'_>> = (0..texts.len() as u64).map(|ix| sampled(ix, more)).collect();
        let rows: Vec<Row<'_>> = (0..)
            .zip(texts.iter().zip(lengths))
            .zip(draws.chunks(1))
            .map(|((ix, (text, len)), draws)| {
                let from = len + more;
                Row { draws, ..row(ix, from, &text[from..=from]) }
            })
            .collect();
        assert!(step(&mut engines, &rows));
    }
}

#[test]
fn logits_that_are_no_numbers_name_the_journey_and_spare_the_others() {
    let copy = tempfile::TempDir::new().unwrap();
    for entry in std::fs::read_dir(golden_path("random/f32")).unwrap().flatten() {
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let file = copy.path().join("model.safetensors");
    let mut weights = std::fs::read(&file).unwrap();
    let end = weights.len();
    // The file's last tensor is the final norm: what is finite in it and far too large overflows in every logit.
    weights[end - 64..].copy_from_slice(&[f32::MAX; 16].map(f32::to_le_bytes).concat());
    std::fs::write(&file, &weights).unwrap();
    let mut engine = open(copy.path(), options());
    let error = engine.step(&[row(1, 0, &[1, 2])]).unwrap_err();
    assert!(matches!(error, EngineError::NotFinite { journey: JourneyId(1) }), "{error}");
    assert_eq!(engine.kv().tokens, 0);
    assert_eq!(engine.step(&[Row { draws: &[], ..row(1, 0, &[1, 2]) }]).unwrap(), []);
}

const JOURNEYS: usize = 8;
const LENGTH: usize = 60;
const STEPS: usize = 60;
