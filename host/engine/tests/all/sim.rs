//! The simulated engine keeps the promises of the trait: what a row gives depends on its journey alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Engine, EngineError, KvType, LoadOptions, Loaded, ModelFiles, Row, SimSettings, simulate};
use journey::{Adjust, Adjustments, Draw, JourneyId, Sampling};

use crate::checkpoints::pair;

fn small() -> ModelFiles {
    ModelFiles::Directory(pair("small"))
}

fn engine(settings: SimSettings, kv_bytes: u64) -> Box<dyn Engine> {
    let options = LoadOptions { kv_bytes, ..LoadOptions::default() };
    simulate(("sim", &small()), options, settings, &Arc::default()).expect("embedded").engine
}

fn row<'a>(id: u64, from: usize, tokens: &'a [u32], draws: &'a [Draw<'a>]) -> Row<'a> {
    Row { journey: JourneyId(id), salt: 0, from, tokens, draws }
}

fn settings() -> SimSettings {
    SimSettings { unsure: 0.4, seed: 3, ..SimSettings::default() }
}

#[test]
fn a_row_gives_the_same_alone_and_beside_others_and_in_pieces() {
    let tokens: Vec<u32> = (5..45).collect();
    let draw = [Draw { candidates: 4, ..Draw::new(Sampling { temperature: 1.0, ..Sampling::GREEDY }, 0.7) }];
    let alone = engine(settings(), 1 << 20).step(&[row(1, 0, &tokens, &draw)]).expect("a step");
    let mut other = engine(settings(), 1 << 20);
    other.step(&[row(1, 0, &tokens[..17], &[]), row(2, 0, &tokens[..3], &draw)]).expect("a step");
    let both =
        other.step(&[row(2, 3, &tokens[3..9], &draw), row(1, 17, &tokens[17..], &draw)]).expect("a step");
    assert_eq!(both[1], alone[0]);
}

#[test]
fn the_share_of_unsure_positions_is_as_set_and_shows_in_the_signals() {
    let mut engine = engine(settings(), 1 << 24);
    let tokens: Vec<u32> = (0..4000).map(|i| 5 + i % 40).collect();
    let draws = vec![Draw::GREEDY; 200];
    let mut unsure = 0;
    for id in 0..20u64 {
        let tokens = &tokens[id as usize * 200..][..200];
        let sampled = engine.step(&[row(id, 0, tokens, &draws)]).expect("a step");
        unsure += sampled.iter().filter(|sampled| sampled.signals.entropy > 0.5).count();
        assert!(sampled.iter().all(|s| (s.signals.top1 > 0.9) == (s.signals.entropy < 0.2)));
    }
    // 4000 draws at 0.4: five standard deviations are 155.
    assert!((1445..1755).contains(&unsure), "{unsure}");
}

#[test]
fn a_clients_wishes_hold() {
    let mut engine = engine(settings(), 1 << 20);
    let best = engine.step(&[row(1, 0, &[5, 6], &[Draw::GREEDY])]).expect("a step")[0].token;
    let wishes = Adjustments { bias: vec![(best, -100.0)], ..Adjustments::default() };
    let draw = [Draw { adjust: Some(Adjust::new(&wishes)), ..Draw::GREEDY }];
    assert_ne!(engine.step(&[row(1, 1, &[6], &draw)]).expect("a step")[0].token, best);
}

#[test]
fn answers_follow_the_text() {
    let text = "one two three ".to_owned();
    let settings = SimSettings { text: Some(text.clone()), ..SimSettings::default() };
    let Loaded { mut engine, tokenizer } =
        simulate(("sim", &small()), LoadOptions::default(), settings, &Arc::default()).expect("embedded");
    let words = tokenizer.encode(&text).expect("tokens");
    let mut tokens = vec![words[0]];
    for from in 0..2 * words.len() {
        let next = engine.step(&[row(1, from, &tokens[from..], &[Draw::GREEDY])]).expect("a step")[0].token;
        assert_eq!(next, words[from % words.len()]);
        tokens.push(next);
    }
}

#[test]
fn memory_is_counted_and_a_step_that_needs_more_is_refused() {
    let tokens = [7; 200];
    let mut engine = engine(settings(), 1 << 16);
    let bytes = engine.spec().kv_bytes_per_token(KvType::Auto);
    assert!(bytes * 200 > 1 << 16, "the test needs a full memory");
    assert!(matches!(engine.step(&[row(1, 0, &tokens, &[])]), Err(EngineError::KvFull { .. })));
    assert!(engine.step(&[row(1, 0, &tokens[..8], &[])]).is_ok());
    assert_eq!(engine.held(JourneyId(1)), 8);
}

#[test]
fn a_step_takes_the_time_of_its_law() {
    let law = SimSettings { fixed_s: 0.020, row_s: 0.010, ..SimSettings::default() };
    let begun = Instant::now();
    engine(law, 1 << 20).step(&[row(1, 0, &[5], &[]), row(2, 0, &[5], &[])]).expect("a step");
    assert!(begun.elapsed() >= Duration::from_millis(40));
}
