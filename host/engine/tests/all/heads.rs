//! Heads on a real decoder: what they read is what the model computed, and their scores keep the engine's promises.

use std::path::{Path, PathBuf};

use engine::{
    Engine, EngineError, Head, LoadOptions, Loaded, ModelFiles, Row, SimSettings, inspect, simulate,
};
use journey::{Draw, JourneyId, Sampled, Sampling};
use serde_json::json;
use tempfile::TempDir;

use crate::checkpoints::{open, pair, random};

const SCORED: Draw<'static> = Draw { candidates: 4, scores: true, ..Draw::GREEDY };

fn row<'a>(id: u64, from: usize, tokens: &'a [u32], draws: &'a [Draw<'a>]) -> Row<'a> {
    Row { journey: JourneyId(id), salt: 0, from, tokens, draws }
}

/// The numbers of an f32 tensor of a safetensors file.
fn tensor(file: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(file).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let entries: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    assert_eq!(entries[name]["dtype"], "F32");
    let at = |index: usize| 8 + header + entries[name]["data_offsets"][index].as_u64().unwrap() as usize;
    bytes[at(0)..at(1)].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Writes a head with one f32 matrix `w` of these rows.
fn write(folder: &Path, graph: &str, (rows, numbers): (usize, &[f32])) -> PathBuf {
    let header = json!({
        "w": { "dtype": "F32", "shape": [rows, numbers.len() / rows], "data_offsets": [0, 4 * numbers.len()] }
    });
    let header = header.to_string();
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    std::fs::write(folder.join("w.safetensors"), bytes).unwrap();
    let path = folder.join("router.toml");
    std::fs::write(&path, graph).unwrap();
    path
}

/// A head whose scores are the logits of tokens 7 and 200 once more, the embedding's product with the same row of 7, and
/// the second largest logit.
fn mirror(model: &dyn Engine) -> Head {
    let folder = TempDir::new().unwrap();
    let (weights, hidden) = (random("f32").join("model.safetensors"), model.spec().hidden);
    let head = tensor(&weights, "lm_head.weight");
    let rows = [&head[7 * hidden..8 * hidden], &head[200 * hidden..201 * hidden]].concat();
    let nodes = [
        ("both", "op = 'linear'\nfrom = 'hidden'\nweight = 'w'"),
        ("seven", "op = 'pick'\nfrom = 'both'\nindex = 0"),
        ("two-hundred", "op = 'pick'\nfrom = 'both'\nindex = 1"),
        ("embedded", "op = 'linear'\nfrom = 'token-embedding'\nweight = 'w'"),
        ("embedded-seven", "op = 'pick'\nfrom = 'embedded'\nindex = 0"),
        ("second", "op = 'pick'\nfrom = 'topk-logits(3)'\nindex = 1"),
    ];
    let nodes = nodes.map(|(name, rest)| format!("[[nodes]]\nname = '{name}'\n{rest}\n")).concat();
    let scores = "'seven', 'two-hundred', 'embedded-seven', 'second'";
    let graph = format!("weights = 'w.safetensors'\nscores = [{scores}]\n{nodes}");
    Head::load(&write(folder.path(), &graph, (2, &rows)), model.spec()).unwrap()
}

fn scored() -> Loaded {
    let mut loaded = open(&random("f32")).unwrap();
    let head = mirror(&loaded.engine);
    assert_eq!(head.scores().len(), 4);
    loaded.engine.attach(vec![head]).unwrap();
    loaded
}

#[test]
fn a_head_reads_what_the_step_computed() {
    let mut engine = scored().engine;
    let mut logits = Vec::new();
    let tokens = [5, 9, 11];
    let hot = Draw { sampling: Sampling { temperature: 3.0, ..Sampling::GREEDY }, uniform: 0.8, ..SCORED };
    let step =
        engine.step_watched(&[row(1, 0, &tokens, &[hot])], &mut |_, all| logits = all.to_vec()).unwrap();
    let Sampled { token, scores, candidates, .. } = &step[0];
    assert_ne!(*token, candidates[0].token, "the embedding is that of the sampled token, not of the best");
    // The same sums in the same order as the output matrix: the same bits.
    assert_eq!(scores[..2], [logits[7], logits[200]]);
    assert_eq!(scores[3], candidates[1].logit);
    let weights = random("f32").join("model.safetensors");
    let (table, head) = (tensor(&weights, "model.embed_tokens.weight"), tensor(&weights, "lm_head.weight"));
    let hidden = engine.spec().hidden;
    let embedding = &table[*token as usize * hidden..][..hidden];
    let product: f32 = embedding.iter().zip(&head[7 * hidden..]).map(|(x, w)| x * w).sum();
    assert!((scores[2] - product).abs() < 1e-5, "{} and not {product}", scores[2]);
}

#[test]
fn scores_do_not_depend_on_the_batch_nor_on_how_tokens_are_fed() {
    let tokens: Vec<u32> = (0..60).map(|i| 3 + i * 7 % 200).collect();
    let mut engine = scored().engine;
    let mut alone = Vec::new();
    for from in 0..tokens.len() {
        alone.extend(engine.step(&[row(1, from, &tokens[from..=from], &[SCORED])]).unwrap());
    }
    let mut engine = scored().engine;
    let draws = vec![SCORED; 40];
    let unscored = [Draw { scores: false, ..SCORED }];
    let rows = [
        row(3, 0, &tokens[5..9], &unscored),
        row(2, 0, &tokens, &draws),
        row(4, 0, &tokens[1..2], &[SCORED]),
    ];
    let together = engine.step(&rows).unwrap();
    assert_eq!(together[1..41], alone[20..]);
    assert!(together[0].scores.is_empty());
    assert_eq!(together[41].scores.len(), 4);
}

#[test]
fn scores_are_made_only_where_they_are_asked_for() {
    let mut plain = open(&random("f32")).unwrap().engine;
    assert!(plain.step(&[row(1, 0, &[5], &[SCORED])]).unwrap()[0].scores.is_empty());
    let without = plain.step(&[row(2, 0, &[5, 6], &[Draw { scores: false, ..SCORED }])]).unwrap();
    let mut engine = scored().engine;
    let with = engine.step(&[row(2, 0, &[5, 6], &[SCORED])]).unwrap();
    assert_eq!(Sampled { scores: Vec::new(), ..with[0].clone() }, without[0]);
    assert!(engine.profile().heads > plain.profile().heads);
    engine.attach(Vec::new()).unwrap();
    assert!(engine.step(&[row(3, 0, &[5], &[SCORED])]).unwrap()[0].scores.is_empty());
}

#[test]
fn another_models_head_is_not_attached() {
    let head = mirror(&open(&random("f32")).unwrap().engine);
    let mut small = open(&pair("small")).unwrap().engine;
    let Err(error) = small.attach(vec![head]) else { panic!("a head of another width was attached") };
    assert!(matches!(error, EngineError::Head { .. }));
}

#[test]
fn a_score_that_is_no_number_names_its_journey() {
    let mut engine = open(&random("f32")).unwrap().engine;
    let folder = TempDir::new().unwrap();
    let node = "[[nodes]]\nname = 'score'\nop = 'linear'\nfrom = 'hidden'\nweight = 'w'";
    let graph = format!("weights = 'w.safetensors'\nscores = ['score']\n{node}");
    let path = write(folder.path(), &graph, (1, &[3e38; 16]));
    engine.attach(vec![Head::load(&path, engine.spec()).unwrap()]).unwrap();
    let plain = row(1, 0, &[5, 6], &[Draw::GREEDY]);
    let error = engine.step(&[plain, row(2, 0, &[5, 9], &[SCORED])]);
    assert!(matches!(error, Err(EngineError::NotFinite { journey: JourneyId(2) })), "{error:?}");
    assert_eq!(engine.step(&[plain]).unwrap().len(), 1);
}

#[test]
fn a_simulated_head_gives_each_position_its_own_random_score() {
    let files = ModelFiles::Directory(random("f32"));
    let sim =
        || simulate(("sim", &files), LoadOptions::default(), SimSettings::default(), &Default::default());
    let mut engine = sim().unwrap().engine;
    let tokens: Vec<u32> = (0..100).map(|i| i % 50).collect();
    let draws = vec![SCORED; 100];
    assert!(engine.step(&[row(1, 0, &tokens, &draws)]).unwrap()[0].scores.is_empty());
    assert_eq!(inspect(&files).unwrap().hidden, engine.spec().hidden);
    engine.attach(vec![mirror(&*engine)]).unwrap();
    let scores = |engine: &mut dyn Engine, id: u64| -> Vec<f32> {
        let sampled = engine.step(&[row(id, 0, &tokens, &draws)]).unwrap();
        sampled.into_iter().flat_map(|sampled| sampled.scores).collect()
    };
    let first = scores(&mut *engine, 2);
    assert_eq!(first.len(), 400);
    assert!(first.iter().all(|score| (0.0..1.0).contains(score)));
    // 400 numbers: five standard deviations of their mean are 0.07.
    assert!((first.iter().sum::<f32>() / 400.0 - 0.5).abs() < 0.07);
    assert_eq!(first, scores(&mut *engine, 3));
}
