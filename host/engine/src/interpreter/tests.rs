//! The interpreter before an engine that only counts: its next token is a function of all the tokens before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use journey::{Draw, JourneyId, Sampled, Sampling};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Interpreter, Translation};
use crate::{Engine, EngineError, KvUsage, Lexicon, ModelFiles, ModelSpec, Profile, Row, Tokenizer};

/// A token is a hash of all before it. Keeps what it was fed, and refuses what an engine must refuse.
struct Counting {
    spec: ModelSpec,
    tokens: u32,
    held: Arc<Mutex<BTreeMap<JourneyId, Vec<u32>>>>,
}

fn next(sequence: &[u32], tokens: u32) -> u32 {
    let hash = sequence.iter().fold(7u64, |hash, &token| {
        (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
    });
    (hash % u64::from(tokens)) as u32
}

impl Engine for Counting {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
        let mut held = self.held.lock().unwrap();
        let mut sampled = Vec::new();
        for row in rows {
            assert!(!row.tokens.is_empty() && row.draws.len() <= row.tokens.len());
            let sequence = held.entry(row.journey).or_default();
            assert!(row.from <= sequence.len(), "a gap");
            sequence.truncate(row.from);
            sequence.extend_from_slice(row.tokens);
            for left in (0..row.draws.len()).rev() {
                let token = next(&sequence[..sequence.len() - left], self.tokens);
                sampled.push(Sampled { token, logprob: -1.0, ..Sampled::default() });
            }
        }
        Ok(sampled)
    }

    fn release(&mut self, journey: JourneyId) {
        self.held.lock().unwrap().remove(&journey);
    }

    /// Nothing is kept of who is away.
    fn park(&mut self, journey: JourneyId) {
        self.release(journey);
    }

    fn held(&self, journey: JourneyId) -> usize {
        self.held.lock().unwrap().get(&journey).map_or(0, Vec::len)
    }

    fn fork(&mut self, from: JourneyId, to: JourneyId) {
        let mut held = self.held.lock().unwrap();
        let copy = held.get(&from).cloned().unwrap_or_default();
        held.insert(to, copy);
    }

    fn kv(&self) -> KvUsage {
        KvUsage::default()
    }

    fn profile(&self) -> Profile {
        Profile::default()
    }
}

/// The small embedded model's tokenizer with so many of its merges, and its ids turned by so much; and its end token.
fn tokenizer(merges: usize, turned: u32) -> (Arc<Tokenizer>, u32) {
    let mut json: Value =
        serde_json::from_slice(include_bytes!("../../../tinypair/models/small/tokenizer.json")).unwrap();
    let model = &mut json["model"];
    let all = model["merges"].as_array().unwrap().clone();
    let text = |merge: &Value| match merge {
        Value::String(both) => both.replace(' ', ""),
        both => format!("{}{}", both[0].as_str().unwrap(), both[1].as_str().unwrap()),
    };
    let left_out: Vec<String> = all[merges.min(all.len())..].iter().map(text).collect();
    let mut tokens: Vec<(String, u64)> = model["vocab"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(token, _)| !left_out.contains(token))
        .map(|(token, id)| (token.clone(), id.as_u64().unwrap()))
        .collect();
    tokens.sort_unstable_by_key(|(_, id)| *id);
    let place = |ix: usize| (ix as u32 + turned) % tokens.len() as u32;
    model["vocab"] =
        tokens.iter().enumerate().map(|(ix, (token, _))| (token.clone(), json!(place(ix)))).collect();
    model["merges"] = all[..merges.min(all.len())].into();
    for added in json["added_tokens"].as_array_mut().unwrap() {
        let ix = tokens.iter().position(|(token, _)| *token == added["content"]).unwrap();
        added["id"] = json!(place(ix));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    let end = json["model"]["vocab"][END].as_u64().unwrap() as u32;
    (Arc::new(Tokenizer::load(&ModelFiles::Directory(folder.path().to_owned())).unwrap()), end)
}

/// A journey at an engine with tokens of its own.
struct Pair {
    translation: Arc<Translation>,
    interpreter: Interpreter,
    held: Arc<Mutex<BTreeMap<JourneyId, Vec<u32>>>>,
    /// What was told last.
    told: Vec<u32>,
}

impl Pair {
    fn new((home, home_end): &(Arc<Tokenizer>, u32), (own, own_end): &(Arc<Tokenizer>, u32)) -> Self {
        let held = Arc::default();
        let tokens = own.vocabulary().len() as u32;
        let spec = crate::inspect(&ModelFiles::Embedded { name: "small", files: EMBEDDED }).unwrap();
        let engine = Counting { spec, tokens, held: Arc::clone(&held) };
        let lexicon = Arc::new(Lexicon::new((home, &[*home_end]), (own, &[*own_end])).unwrap());
        let (of_home, of_own) = (home.encode(PROMPT).unwrap(), own.encode("what is it?").unwrap());
        let translation = Arc::new(Translation::new(lexicon, of_home, of_own).unwrap());
        let mut interpreter = Interpreter::new(Box::new(engine));
        interpreter.interpret(JOURNEY, &translation);
        Self { translation, interpreter, held, told: Vec::new() }
    }

    fn lexicon(&self) -> &Lexicon {
        &self.translation.lexicon
    }

    /// Feeds what is not held in pieces of at most so many tokens, and draws after the last `draws`.
    fn step(&mut self, sequence: &[u32], draws: usize, chunk: usize) -> Vec<Sampled> {
        let wanted = sequence.len() - draws;
        let same = self.told.iter().zip(sequence).take_while(|(told, now)| told == now).count();
        let mut from = self.interpreter.held(JOURNEY).min(wanted).min(same);
        sequence.clone_into(&mut self.told);
        while sequence.len() - from > chunk.max(draws) {
            let to = (from + chunk).min(wanted);
            if to == from {
                break;
            }
            let row = Row { journey: JOURNEY, salt: 0, from, tokens: &sequence[from..to], draws: &[] };
            assert_eq!(self.interpreter.step(&[row]).unwrap(), []);
            from = to;
        }
        let greedy = vec![Draw::new(Sampling::GREEDY, 0.0); draws];
        let row = Row { journey: JOURNEY, salt: 0, from, tokens: &sequence[from..], draws: &greedy };
        self.interpreter.step(&[row]).unwrap()
    }

    /// Decodes so many tokens after a sequence.
    fn decode(&mut self, sequence: &mut Vec<u32>, count: usize, chunk: usize) {
        for _ in 0..count {
            let sampled = self.step(sequence, 1, chunk);
            sequence.push(sampled[0].token);
        }
    }

    /// What the model has read of the answer.
    fn read(&self) -> Vec<u8> {
        let held = self.held.lock().unwrap();
        let read = held[&JOURNEY].strip_prefix(&*self.translation.own_prompt).expect("the prompt");
        read.iter().flat_map(|&token| self.lexicon().own_bytes(token)).copied().collect()
    }

    fn bytes(&self, home: &[u32]) -> Vec<u8> {
        home.iter().flat_map(|&token| self.lexicon().home_bytes(token)).copied().collect()
    }
}

/// As the model alone answers, in bytes, until it has so many or ends.
fn alone(pair: &Pair, tokens: u32, least: usize) -> (Vec<u8>, bool) {
    let (mut sequence, mut bytes) = (pair.translation.own_prompt.clone(), Vec::new());
    while bytes.len() < least {
        let token = next(&sequence, tokens);
        if pair.lexicon().ending().contains(&token) {
            return (bytes, true);
        }
        bytes.extend_from_slice(pair.lexicon().own_bytes(token));
        sequence.push(token);
    }
    (bytes, false)
}

#[test]
fn an_answer_has_the_bytes_that_the_model_gives_alone() {
    for (home, own) in [((0, 0), (413, 5)), ((413, 0), (0, 3)), ((150, 0), (413, 0)), ((413, 0), (413, 77))] {
        let (home, own) = (tokenizer(home.0, home.1), tokenizer(own.0, own.1));
        let mut pair = Pair::new(&home, &own);
        let mut sequence = pair.translation.home_prompt.clone();
        let prompt = sequence.len();
        pair.decode(&mut sequence, 60, 1000);
        let (told, ends) = {
            let end = sequence[prompt..].iter().position(|token| *token == home.1);
            (pair.bytes(&sequence[prompt..][..end.unwrap_or(60)]), end.is_some())
        };
        let (expected, ended) = alone(&pair, own.0.vocabulary().len() as u32, told.len() + usize::from(ends));
        assert_eq!((&expected[..told.len()], ended), (&told[..], ends));
    }
}

#[test]
fn tokens_that_only_have_other_numbers_are_told_one_for_one() {
    let (home, own) = (tokenizer(413, 0), tokenizer(413, 100));
    let pair = Pair::new(&home, &own);
    let all = home.0.vocabulary().len() as u32;
    assert_eq!(pair.lexicon().shared(), all as usize);
    for token in 0..all {
        let own = pair.lexicon().to_own(token).unwrap();
        assert_eq!(own, (token + 100) % all);
        assert_eq!(pair.lexicon().spell_home(own), [token]);
    }
}

#[test]
fn a_draft_that_the_model_would_have_made_is_agreed_with() {
    for (home, own) in [(0, 413), (413, 0), (150, 413)] {
        let (home, own) = (tokenizer(home, 0), tokenizer(own, 3));
        let mut pair = Pair::new(&home, &own);
        let mut sequence = pair.translation.home_prompt.clone();
        let prompt = sequence.len();
        pair.decode(&mut sequence, 24, 1000);
        let mut judge = Pair::new(&home, &own);
        let mut judged = sequence[..prompt].to_vec();
        judge.decode(&mut judged, 3, 1000);
        let drafted = &sequence[..sequence.len() - 1];
        let drawn = judge.step(drafted, drafted.len() - prompt - 2, 1000);
        // Where a draft is spelled as the model spelled it: its own tokens are those of its text.
        let told: Vec<u32> = drawn.iter().map(|sampled| sampled.token).collect();
        if judge.held.lock().unwrap()[&JOURNEY] == pair.held.lock().unwrap()[&JOURNEY] {
            assert_eq!(told, sequence[prompt + 3..]);
        }
        let mut wrong = drafted.to_vec();
        wrong[prompt + 5] = if wrong[prompt + 5] == 40 { 41 } else { 40 };
        let drawn = judge.step(&wrong, wrong.len() - prompt - 2, 1000);
        assert_ne!(drawn[2].token, wrong[prompt + 5], "not what the model would have made");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever becomes of a journey elsewhere: what the model reads are its bytes, and what it draws does not depend on
    /// what was given up and fed again, nor on the pieces it was fed in.
    #[test]
    fn the_model_reads_the_bytes_of_the_journey(
        merges in (0usize..=413, 0usize..=413),
        chunk in 1usize..9,
        moves in prop::collection::vec((0u8..4, 1usize..7, any::<u32>()), 1..14),
    ) {
        let (home, own) = (tokenizer(merges.0, 0), tokenizer(merges.1, 11));
        let size = home.0.vocabulary().len() as u32;
        let (mut kept, mut given_up) = (Pair::new(&home, &own), Pair::new(&home, &own));
        let mut sequence = kept.translation.home_prompt.clone();
        let prompt = sequence.len();
        for (kind, count, seed) in moves {
            match kind {
                // Others make some.
                0 => sequence.extend((0..count as u32).map(|ix| seed.wrapping_mul(ix + 1) % size)),
                // Some are dropped.
                1 => sequence.truncate(prompt.max(sequence.len() - count.min(sequence.len()))),
                2 => given_up.interpreter.park(JOURNEY),
                _ => {
                    let mut again = sequence.clone();
                    kept.decode(&mut sequence, count, 1000);
                    given_up.decode(&mut again, count, chunk);
                    prop_assert_eq!(&sequence, &again);
                    let told = kept.bytes(&sequence[prompt..]);
                    let read = kept.read();
                    // The last token may not be fed, or end beyond what was told.
                    let both = read.len().min(told.len());
                    prop_assert_eq!(&read[..both], &told[..both]);
                    prop_assert!(told.len() <= read.len() + LONGEST, "{} of {}", read.len(), told.len());
                }
            }
        }
    }
}

const JOURNEY: JourneyId = JourneyId(1);
const PROMPT: &str = "say it:";
const END: &str = "<|endoftext|>";
/// Bytes of the longest token, and more.
const LONGEST: usize = 32;
const EMBEDDED: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("../../../tinypair/models/small/config.json")),
    ("model.safetensors", include_bytes!("../../../tinypair/models/small/model.safetensors")),
];
