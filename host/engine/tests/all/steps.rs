//! What a step refuses, what it leaves behind, and what loading says about a model.

use engine::{
    Engine, EngineError, KvType, KvUsage, LoadOptions, ModelFiles, Progress, Row, WeightType, inspect, load,
};
use journey::{Adjust, Adjustments, Draw, JourneyId, TokenMask};

use crate::checkpoints::{Copied, open, pair, random};

const GREEDY: &[Draw<'static>] = &[Draw { candidates: 2, ..Draw::GREEDY }];
const A: JourneyId = JourneyId(1);
const B: JourneyId = JourneyId(2);

fn row(journey: JourneyId, from: usize, tokens: &[u32]) -> Row<'_> {
    Row { journey, salt: 0, from, tokens, draws: GREEDY }
}

#[test]
fn faults_of_the_caller_are_named_and_change_nothing() {
    let mut engine = open(&random("f32")).unwrap().engine;
    engine.step(&[row(A, 0, &[1, 2, 3])]).unwrap();
    let before = engine.kv();
    let good = row(B, 0, &[4]);
    let long = vec![0; 126];
    let refused = |engine: &mut engine::CpuEngine, bad: Row<'_>| engine.step(&[good, bad]).unwrap_err();

    let error = refused(&mut engine, row(A, 3, &[]));
    assert!(matches!(error, EngineError::EmptyRow { journey: A }), "{error}");
    let error = refused(&mut engine, row(B, 0, &[5]));
    assert!(matches!(error, EngineError::RepeatedJourney { journey: B }), "{error}");
    let error = refused(&mut engine, row(A, 4, &[5]));
    assert!(matches!(error, EngineError::Gap { journey: A, from: 4, held: 3 }), "{error}");
    let error = refused(&mut engine, row(A, 3, &long));
    assert!(matches!(error, EngineError::ContextFull { needed: 129, context: 128, .. }), "{error}");
    let error = refused(&mut engine, row(A, 1, &[287, 288]));
    assert!(matches!(error, EngineError::UnknownToken { token: 288, vocabulary: 288, .. }), "{error}");

    let with = |draw: Draw<'static>| [draw, Draw::GREEDY];
    let error = refused(&mut engine, Row { draws: &with(Draw::GREEDY), ..row(A, 3, &[5]) });
    assert!(matches!(error, EngineError::TooManyDraws { draws: 2, tokens: 1, journey: A }), "{error}");
    let asking = with(Draw { logprobs_of: &[0, 288], ..Draw::GREEDY });
    let error = refused(&mut engine, Row { draws: &asking, ..row(A, 3, &[5, 6]) });
    assert!(matches!(error, EngineError::UnknownToken { token: 288, journey: A, .. }), "{error}");
    let biased = Adjustments { bias: vec![(1, 1.0), (300, 1.0)], ..Adjustments::default() };
    let adjust = Some(Adjust::new(&biased));
    let error = refused(&mut engine, Row { draws: &[Draw { adjust, ..Draw::GREEDY }], ..row(A, 3, &[5, 6]) });
    assert!(matches!(error, EngineError::UnknownToken { token: 300, journey: A, .. }), "{error}");
    let (plain, none, two) = (Adjustments::default(), TokenMask::of(&[288]), TokenMask::of(&[3, 4]));
    for (mask, barred) in [(&none, &[][..]), (&two, &[4, 3])] {
        let adjust = Some(Adjust { mask: Some(mask), barred, ..Adjust::new(&plain) });
        let error =
            refused(&mut engine, Row { draws: &[Draw { adjust, ..Draw::GREEDY }], ..row(A, 3, &[5, 6]) });
        assert!(matches!(error, EngineError::NothingAllowed { journey: A }), "{error}");
        assert!(error.to_string().contains(&A.to_string()), "{error}");
    }
    assert_eq!(engine.kv(), before);
    assert_eq!(engine.step(&[row(A, 3, &long[1..])]).unwrap().len(), 1);
}

#[test]
fn an_empty_batch_is_an_empty_answer() {
    let mut engine = open(&random("f32")).unwrap().engine;
    assert_eq!(engine.step(&[]).unwrap(), []);
    assert_eq!(engine.kv(), KvUsage { bytes_max: engine.kv().bytes_max, ..KvUsage::default() });
}

#[test]
fn kv_counts_positions_and_journeys() {
    let mut engine = open(&random("f32")).unwrap().engine;
    engine.step(&[row(A, 0, &[1; 20]), Row { draws: &[], ..row(B, 0, &[2]) }]).unwrap();
    let KvUsage { tokens, sequences, bytes, .. } = engine.kv();
    assert_eq!((tokens, sequences), (21, 2));
    // Two pages of 16 positions for A and one for B.
    assert_eq!(bytes as u64, 48 * engine.spec().kv_bytes_per_token(KvType::Auto));
    engine.step(&[row(A, 4, &[3])]).unwrap();
    assert_eq!(engine.kv().tokens, 6);
    engine.release(A);
    engine.release(JourneyId(77));
    assert_eq!((engine.kv().tokens, engine.kv().sequences), (1, 1));
    let error = engine.step(&[row(A, 1, &[1])]).unwrap_err();
    assert!(matches!(error, EngineError::Gap { held: 0, .. }), "{error}");
}

#[test]
fn logits_that_are_no_numbers_name_the_journey_and_feed_nothing() {
    let copy = Copied::of(&random("f32"));
    let mut weights = copy.read("model.safetensors");
    let end = weights.len();
    // The file's last tensor is the final norm: what is finite in it and far too large overflows in every logit.
    weights[end - 64..].copy_from_slice(&[f32::MAX; 16].map(f32::to_le_bytes).concat());
    let mut engine = copy.write("model.safetensors", &weights).open().unwrap().engine;
    let error = engine.step(&[row(A, 0, &[1, 2])]).unwrap_err();
    assert!(matches!(error, EngineError::NotFinite { journey: A }), "{error}");
    assert_eq!(engine.kv().tokens, 0);
    assert_eq!(engine.step(&[Row { draws: &[], ..row(A, 0, &[1, 2]) }]).unwrap(), []);
}

#[test]
fn weights_that_are_no_numbers_are_refused_by_name() {
    let copy = Copied::of(&random("f32"));
    let mut weights = copy.read("model.safetensors");
    let end = weights.len();
    weights[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    let Err(error) = copy.write("model.safetensors", &weights).open() else { panic!("a NaN was loaded") };
    assert!(error.to_string().contains("model.norm.weight"), "{error}");
}

#[test]
fn inspecting_tells_shape_and_cost() {
    let spec = inspect(&ModelFiles::Directory(pair("small"))).unwrap();
    assert_eq!((spec.name.as_str(), spec.architecture.as_str()), ("small", "LlamaForCausalLM"));
    assert_eq!((spec.vocabulary, spec.eos.as_slice()), (672, &[2][..]));
    assert_eq!(spec.dtype, WeightType::F16);
    assert_eq!(
        spec.kv_bytes_per_token(KvType::Auto) as usize,
        spec.layers * spec.kv_heads * spec.head_dim * 2 * 4
    );

    let spec = inspect(&ModelFiles::Directory(random("bf16"))).unwrap();
    let layer = 16 * 24 * 2 + 16 * 12 * 2 + 3 * 16 * 24 + 2 * 16;
    assert_eq!(spec.parameters, 2 * 288 * 16 + 2 * layer + 16);
    assert_eq!((spec.context, spec.head_dim, spec.kv_heads), (128, 6, 2));
    assert_eq!((spec.dtype, spec.eos.as_slice()), (WeightType::Bf16, &[257][..]));
    let loaded = open(&random("bf16")).unwrap();
    assert_eq!(loaded.engine.spec(), &engine::ModelSpec { name: "test".to_owned(), ..spec });
}

#[test]
fn end_tokens_of_both_configs_are_joined() {
    let copy = Copied::of(&random("f32"))
        .edit("generation_config.json", |config| config["eos_token_id"] = serde_json::json!([7, 9]))
        .edit("config.json", |config| config["eos_token_id"] = serde_json::json!([9, 257]));
    assert_eq!(inspect(&copy.files()).unwrap().eos, [7, 9, 257]);
    let copy = copy.remove("generation_config.json");
    assert_eq!(inspect(&copy.files()).unwrap().eos, [9, 257]);
}

#[test]
fn an_embedded_model_is_the_same_as_its_directory() {
    const FILES: &[(&str, &[u8])] = &[
        ("config.json", include_bytes!("../golden/random/f32/config.json")),
        ("model.safetensors", include_bytes!("../golden/random/f32/model.safetensors")),
        ("tokenizer.json", include_bytes!("../golden/random/f32/tokenizer.json")),
    ];
    let files = ModelFiles::Embedded { name: "embedded", files: FILES };
    assert_eq!(inspect(&files).unwrap().name, "embedded");
    let mut progress = Vec::new();
    let mut embedded = load("e", &files, LoadOptions::default(), &mut |step| progress.push(step)).unwrap();
    let mut directory = open(&random("f32")).unwrap();
    let rows = [row(A, 0, &[1, 2, 3])];
    assert_eq!(embedded.engine.step(&rows).unwrap(), directory.engine.step(&rows).unwrap());
    assert_eq!(embedded.tokenizer.fingerprint(), directory.tokenizer.fingerprint());

    let total_bytes = embedded.engine.spec().parameters * 4;
    assert_eq!(progress.first(), Some(&Progress { done_bytes: 0, total_bytes }));
    assert_eq!(progress.last(), Some(&Progress { done_bytes: total_bytes, total_bytes }));
    assert!(progress.is_sorted_by_key(|step| step.done_bytes));
}
