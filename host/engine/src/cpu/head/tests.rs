//! Operations against their formulas in double precision, rows against themselves in other batches, and whole heads
//! against the twin in [`naive`].

mod naive;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;
use tempfile::TempDir;

use super::{Hands, Tap};
use crate::Head;
use crate::cpu::simd::Level;
use crate::cpu::team::Team;
use crate::heads::tests::{Tensor, model, write};
use naive::{Matrix, Seen};

const HIDDEN: usize = 21;
const VOCABULARY: usize = 40;

/// What a step left behind, with everything that a tap borrows.
#[derive(Clone, Debug)]
struct Draws {
    hidden: Vec<Vec<f32>>,
    logits: Vec<Vec<f32>>,
}

impl Draws {
    fn made(seed: u64, rows: usize) -> Self {
        let hidden = (0..rows).map(|row| numbers(seed + row as u64, HIDDEN, 2.0)).collect();
        let logits = (0..rows).map(|row| sorted(numbers(seed + 1000 + row as u64, 7, 9.0))).collect();
        Self { hidden, logits }
    }

    fn taps(&self) -> Vec<Tap<'_>> {
        let rows = (0u32..).zip(&self.hidden).zip(&self.logits);
        let entropy = |token: u32| 0.1 * token as f32;
        rows.map(|((token, hidden), logits)| Tap { hidden, token, logits, entropy: entropy(token) }).collect()
    }

    fn seen(&self, row: usize) -> Seen {
        let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect();
        let mut embedding = vec![0.0; HIDDEN];
        embed(row as u32, &mut embedding);
        Seen {
            hidden: wide(&self.hidden[row]),
            embedding: wide(&embedding),
            logits: wide(&self.logits[row]),
            entropy: f64::from(0.1 * row as f32),
        }
    }
}

/// The made-up input table.
fn embed(token: u32, row: &mut [f32]) {
    row.copy_from_slice(&numbers(77 + u64::from(token), row.len(), 1.0));
}

/// Random numbers in (-size, size).
fn numbers(seed: u64, count: usize, size: f64) -> Vec<f32> {
    use journey::random::{Purpose, uniform};
    (0..count).map(|i| (size * (2.0 * uniform(seed, i as u64, Purpose::Sample, 0) - 1.0)) as f32).collect()
}

fn sorted(mut logits: Vec<f32>) -> Vec<f32> {
    logits.sort_by(|a, b| b.total_cmp(a));
    logits
}

fn head(graph: &str, tensors: &[Tensor<'_>]) -> Head {
    let folder = TempDir::new().unwrap();
    Head::load(&write(folder.path(), graph, tensors), &model(HIDDEN, VOCABULARY)).unwrap()
}

/// The scores of every tap.
fn run(head: &mut Head, (team, level): (&Team, Level), taps: &[Tap<'_>]) -> Vec<Vec<f32>> {
    let mut scores = vec![Vec::new(); taps.len()];
    head.runner().run(Hands { team, level }, &embed, taps, &mut scores);
    scores
}

/// Picks every number of the value `of`, which is `width` wide, as a score.
fn picking(of: &str, width: usize) -> String {
    let names: Vec<String> = (0..width).map(|index| format!("'s{index}'")).collect();
    let node = |index| format!("[[nodes]]\nname = 's{index}'\nop = 'pick'\nfrom = '{of}'\nindex = {index}\n");
    let picks: String = (0..width).map(node).collect();
    format!("weights = 'router.safetensors'\nscores = [{}]\nNODES\n{picks}", names.join(", "))
}

/// Runs one operation, whose node is called `y`, for three draws on every instruction set; what comes is `width` wide.
fn values(node: &str, width: usize, tensors: &[Tensor<'_>]) -> Vec<Vec<f32>> {
    let graph = picking("y", width).replace("NODES", &format!("[[nodes]]\nname = 'y'\n{node}"));
    let mut head = head(&graph, tensors);
    let draws = Draws::made(5, 3);
    let team = Team::new(1).unwrap();
    let mut all = Level::available().into_iter().map(|level| run(&mut head, (&team, level), &draws.taps()));
    let first = all.next().unwrap();
    assert!(all.all(|other| other == first), "instruction sets differ");
    first
}

fn assert_near(found: &[Vec<f32>], expected: impl Fn(&Seen) -> Vec<f64>, tolerance: f64) {
    let draws = Draws::made(5, found.len());
    for (row, found) in found.iter().enumerate() {
        let expected = expected(&draws.seen(row));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() <= tolerance, "{found} instead of {expected}");
        }
    }
}

#[test]
fn inputs_are_what_the_step_left() {
    let node =
        "op = 'concat'\nfrom = ['topk-logits(3)', 'entropy', 'token-embedding', 'hidden', 'topk-logits(7)']";
    let found = values(node, 3 + 1 + 2 * HIDDEN + 7, &[]);
    let expected = |seen: &Seen| {
        [&seen.logits[..3], &[seen.entropy], &seen.embedding[..], &seen.hidden[..], &seen.logits[..]].concat()
    };
    assert_near(&found, expected, 0.0);
}

#[test]
fn products_are_sums() {
    let (weight, bias) = (numbers(1, 5 * HIDDEN, 1.0), numbers(2, 5, 1.0));
    let tensors = [("w", &[5, HIDDEN][..], &weight[..]), ("b", &[5], &bias)];
    let matrix = Matrix::new(&weight, Some(&bias));
    let found = values("op = 'linear'\nfrom = 'hidden'\nweight = 'w'\nbias = 'b'", 5, &tensors);
    assert_near(&found, |seen| matrix.times(&seen.hidden), 1e-5);
    let matrix = Matrix::new(&weight, None);
    let found = values("op = 'linear'\nfrom = 'hidden'\nweight = 'w'", 5, &tensors);
    assert_near(&found, |seen| matrix.times(&seen.hidden), 1e-5);
}

#[test]
fn norms_are_by_their_formulas() {
    let (scale, shift) = (numbers(1, HIDDEN, 1.0), numbers(2, HIDDEN, 1.0));
    let tensors = [("g", &[HIDDEN][..], &scale[..]), ("s", &[HIDDEN], &shift)];
    let layer = "op = 'layer-norm'\nfrom = 'hidden'\nweight = 'g'\neps = 1e-5";
    let found = values(&format!("{layer}\nbias = 's'"), HIDDEN, &tensors);
    assert_near(&found, |seen| naive::layer_norm(&seen.hidden, &scale, &shift), 2e-6);
    let found = values(layer, HIDDEN, &tensors);
    assert_near(&found, |seen| naive::layer_norm(&seen.hidden, &scale, &[0.0; HIDDEN]), 2e-6);
    let found = values("op = 'scale-shift'\nfrom = 'hidden'\nscale = 'g'\nshift = 's'", HIDDEN, &tensors);
    assert_near(&found, |seen| naive::scale_shift(&seen.hidden, &scale, &shift), 1e-6);
}

#[test]
fn functions_are_by_their_formulas() {
    let each = |f: fn(f64) -> f64| move |seen: &Seen| seen.hidden.iter().map(|&x| f(x)).collect::<Vec<f64>>();
    assert_near(&values("op = 'gelu'\nfrom = 'hidden'", HIDDEN, &[]), each(naive::gelu), 3e-7);
    assert_near(&values("op = 'relu'\nfrom = 'hidden'", HIDDEN, &[]), each(|x| x.max(0.0)), 0.0);
    assert_near(&values("op = 'sigmoid'\nfrom = 'hidden'", HIDDEN, &[]), each(naive::sigmoid), 2e-7);
    assert_near(&values("op = 'softmax'\nfrom = 'hidden'", HIDDEN, &[]), |s| naive::softmax(&s.hidden), 2e-7);
    let found = values("op = 'add'\nfrom = ['hidden', 'token-embedding', 'hidden']", HIDDEN, &[]);
    let sum =
        |seen: &Seen| seen.hidden.iter().zip(&seen.embedding).map(|(x, e)| x + e + x).collect::<Vec<f64>>();
    assert_near(&found, sum, 1e-6);
}

#[test]
fn gelu_is_the_erf_form_everywhere() {
    let node = "[[nodes]]\nname = 'score'\nop = 'gelu'\nfrom = 'entropy'";
    let mut head = head(&format!("weights = 'router.safetensors'\nscores = ['score']\n{node}"), &[]);
    let team = Team::new(1).unwrap();
    let hidden = [0.0; HIDDEN];
    for step in -2000..=2000 {
        let x = step as f32 * 0.01;
        let tap = Tap { hidden: &hidden, token: 0, logits: &[], entropy: x };
        let found = run(&mut head, (&team, Level::detect()), &[tap])[0][0];
        let expected = naive::gelu(f64::from(x));
        let tolerance = 3e-7 + 1e-7 * f64::from(x.abs());
        assert!((f64::from(found) - expected).abs() <= tolerance, "gelu({x}) is {found} and not {expected}");
    }
    // The tanh form gives -0.02433 there.
    assert!((naive::gelu(-2.3) - -0.024_665).abs() < 1e-5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_row_has_the_same_bits_in_any_batch(seed in 0u64..1000, rows in 2usize..70, threads in 1usize..4) {
        let (graph, tensors) = naive::r2r_graph();
        let tensors: Vec<Tensor<'_>> = tensors.iter().map(|(name, shape, x)| (name.as_str(), &shape[..], &x[..])).collect();
        let mut head = head(&graph, &tensors);
        let draws = Draws::made(seed, rows);
        let taps = draws.taps();
        let together = run(&mut head, (&Team::new(threads).unwrap(), Level::detect()), &taps);
        let alone = Team::new(1).unwrap();
        for (tap, scores) in taps.iter().zip(&together) {
            prop_assert_eq!(&run(&mut head, (&alone, Level::detect()), &[*tap])[0], scores);
        }
    }
}

#[test]
fn a_head_of_r2rs_shape_equals_its_twin() {
    let (graph, tensors) = naive::r2r_graph();
    let listed: Vec<Tensor<'_>> =
        tensors.iter().map(|(name, shape, x)| (name.as_str(), &shape[..], &x[..])).collect();
    let mut head = head(&graph, &listed);
    assert_eq!(head.logits(), 7);
    let draws = Draws::made(11, 9);
    let found = run(&mut head, (&Team::new(2).unwrap(), Level::detect()), &draws.taps());
    for (row, scores) in found.iter().enumerate() {
        let expected = naive::r2r(&tensors, &draws.seen(row));
        assert!((f64::from(scores[0]) - expected).abs() < 2e-6, "{} and not {expected}", scores[0]);
    }
    assert!(found.iter().any(|scores| (scores[0] - found[0][0]).abs() > 1e-3), "scores differ by row");
}

#[test]
fn scores_of_several_heads_follow_each_other() {
    let nodes = "[[nodes]]\nname = 'twice'\nop = 'add'\nfrom = ['entropy', 'entropy']";
    let graph = format!("weights = 'router.safetensors'\nscores = ['twice', 'entropy']\n{nodes}");
    let (mut first, mut second) = (head(&graph, &[]), head(&graph, &[]));
    let draws = Draws::made(3, 2);
    let mut scores = vec![Vec::new(); 2];
    let team = Team::new(1).unwrap();
    for head in [&mut first, &mut second] {
        let hands = Hands { team: &team, level: Level::detect() };
        head.runner().run(hands, &embed, &draws.taps(), &mut scores);
    }
    assert_eq!(scores[1], [0.2, 0.1, 0.2, 0.1]);
}

/// Made-up draws, and what networks of R2R's and CITER's form say of them by their formulas in numpy.
#[derive(Deserialize)]
struct Golden {
    hidden: Vec<Vec<f32>>,
    embedding: Vec<Vec<f32>>,
    logits: Vec<Vec<f32>>,
    scores: BTreeMap<String, Vec<f64>>,
}

/// `tests/golden/heads.py` makes the files, with the converter in `examples/heads`.
#[test]
fn converted_heads_say_what_the_published_networks_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/heads");
    let golden: Golden = serde_json::from_slice(&std::fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let embed = |token: u32, row: &mut [f32]| row.copy_from_slice(&golden.embedding[token as usize]);
    let draws = (0u32..).zip(&golden.hidden).zip(&golden.logits);
    let taps: Vec<Tap<'_>> =
        draws.map(|((token, hidden), logits)| Tap { hidden, token, logits, entropy: 0.0 }).collect();
    assert_eq!(golden.scores.len(), 2);
    let team = Team::new(2).unwrap();
    for (name, expected) in &golden.scores {
        let model = model(golden.hidden[0].len(), VOCABULARY);
        let mut head = Head::load(&folder.join(format!("{name}.toml")), &model).unwrap();
        let mut scores = vec![Vec::new(); taps.len()];
        head.runner().run(Hands { team: &team, level: Level::detect() }, &embed, &taps, &mut scores);
        for (scores, expected) in scores.iter().zip(expected) {
            assert!(
                (f64::from(scores[0]) - expected).abs() < 1e-6,
                "{name}: {} and not {expected}",
                scores[0]
            );
        }
    }
}
