//! Greedy decoding with two models, one of which is chosen for every token.
//!
//! A plain key-value cache and one token per row and step: enough to measure a pair, and independent of the serving
//! engine, whose results it checks. All rows stand at the same position, because prompts are fed the way answers are,
//! a token at a time.

use anyhow::{Context as _, Result, anyhow};
use candle_core::{Device, Tensor};
use tinypair::problems::{self, Problem};
use tokenizers::Tokenizer;

use crate::data::encode;
use crate::lanes::{self, Lanes};
use crate::model::{Model, norm};
use crate::ops::{SwiGlu, read};
use crate::rotary::HEAD_DIM;

/// What the small model said about one token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signals {
    /// Entropy of its distribution, in nats.
    pub(crate) entropy: f32,
    /// Probability of its first choice minus that of its second.
    pub(crate) margin: f32,
}

/// Which model's first choice becomes the next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// The model that decodes.
    Small,
    /// The model that hard tokens are handed to.
    Large,
}

/// One written answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// Whether it ends in the right number.
    pub(crate) solved: bool,
    /// Tokens written, the end mark included.
    pub(crate) tokens: usize,
    /// How many of them the large model chose.
    pub(crate) from_large: usize,
    /// Mean entropy of the small model over the answer, in nats; zero if it did not run.
    pub(crate) mean_entropy: f32,
}

/// The two models; a single one decodes alone.
pub(crate) struct Pair<'a> {
    /// Runs whenever its signals or choices are wanted.
    pub(crate) small: Option<&'a Model>,
    /// Runs whenever its choices are wanted.
    pub(crate) large: Option<&'a Model>,
    /// The tokenizer both share.
    pub(crate) tokenizer: &'a Tokenizer,
}

impl Pair<'_> {
    /// Answers `problems` in order; `choose` is asked for every token if both models are there.
    pub(crate) fn answer(
        &self,
        problems: &[Problem],
        choose: &mut dyn FnMut(Signals) -> Chosen,
    ) -> Result<Vec<Written>> {
        let mut written = Vec::with_capacity(problems.len());
        for some in problems.chunks(ROWS) {
            written.extend(self.answer_rows(some, choose)?);
        }
        Ok(written)
    }

    fn answer_rows(
        &self,
        problems: &[Problem],
        choose: &mut dyn FnMut(Signals) -> Chosen,
    ) -> Result<Vec<Written>> {
        let end = self.tokenizer.token_to_id("<|im_end|>").context("the tokenizer has no end mark")?;
        let mut rows = Vec::with_capacity(problems.len());
        for problem in problems {
            let tokens = encode(self.tokenizer, &problems::prompt(&problem.question))?;
            rows.push(Row { prompt: tokens.len(), tokens, written: Written::default() });
        }
        let mut small = self.small.map(|model| Decoder::new(model, rows.len()));
        let mut large = self.large.map(|model| Decoder::new(model, rows.len()));
        let mut active: Vec<usize> = (0..rows.len()).collect();
        for position in 0.. {
            active.retain(|row| rows[*row].goes_on(position, end));
            if active.is_empty() {
                break;
            }
            let tokens: Vec<u32> = active.iter().map(|row| rows[*row].tokens[position]).collect();
            let small_logits =
                small.as_mut().map(|model| model.step(&tokens, &active, position)).transpose()?;
            let large_logits =
                large.as_mut().map(|model| model.step(&tokens, &active, position)).transpose()?;
            for (at, row) in active.iter().enumerate() {
                if position + 1 == rows[*row].tokens.len() {
                    let logits = |all: &Option<Vec<Vec<f32>>>| all.as_ref().map(|rows| rows[at].clone());
                    rows[*row].extend(logits(&small_logits), logits(&large_logits), choose);
                }
            }
        }
        rows.into_iter().zip(problems).map(|(row, problem)| self.finish(row, problem)).collect()
    }

    fn finish(&self, row: Row, problem: &Problem) -> Result<Written> {
        let text = self.tokenizer.decode(&row.tokens[row.prompt..], true);
        let text = text.map_err(|error| anyhow!("reading the tokens back: {error}"))?;
        let mut written = row.written;
        written.solved = problem.is_solved_by(&text);
        written.mean_entropy /= written.tokens as f32;
        Ok(written)
    }
}

/// One problem being answered.
struct Row {
    tokens: Vec<u32>,
    prompt: usize,
    written: Written,
}

impl Row {
    fn goes_on(&self, position: usize, end: u32) -> bool {
        let ended = self.tokens.len() > self.prompt && self.tokens.last() == Some(&end);
        position < self.tokens.len() && !ended && self.tokens.len() < POSITIONS
    }

    fn extend(
        &mut self,
        small: Option<Vec<f32>>,
        large: Option<Vec<f32>>,
        choose: &mut dyn FnMut(Signals) -> Chosen,
    ) {
        let signals = small.as_deref().map(signals);
        self.written.mean_entropy += signals.map_or(0.0, |signals| signals.entropy);
        let chosen = match (signals, &large) {
            (Some(signals), Some(_)) => choose(signals),
            (Some(_), None) => Chosen::Small,
            (None, _) => Chosen::Large,
        };
        let logits = if chosen == Chosen::Large { large } else { small };
        self.tokens.push(first_choice(&logits.unwrap_or_default()));
        self.written.tokens += 1;
        self.written.from_large += usize::from(chosen == Chosen::Large);
    }
}

/// One model with its key-value cache.
struct Decoder<'a> {
    model: &'a Model,
    /// Per layer, the caches of each row's key-value heads, one row after another.
    caches: Vec<Vec<Cache>>,
}

/// Keys and values of one key-value head of one row, by position.
#[derive(Clone, Default)]
struct Cache {
    keys: Vec<Lanes>,
    values: Vec<Lanes>,
}

impl<'a> Decoder<'a> {
    fn new(model: &'a Model, rows: usize) -> Self {
        let caches = vec![Cache::default(); rows * model.shape.heads.key_value];
        Self { model, caches: vec![caches; model.layers.len()] }
    }

    /// The logits after one more token in each of the rows `active`.
    fn step(&mut self, tokens: &[u32], active: &[usize], position: usize) -> Result<Vec<Vec<f32>>> {
        let tokens = Tensor::from_slice(tokens, tokens.len(), &Device::Cpu)?;
        let mut x = self.model.embedding.index_select(&tokens, 0)?.detach();
        for (layer, caches) in self.model.layers.iter().zip(&mut self.caches) {
            let qkv = norm(&x, &layer.attention_norm)?.matmul(&layer.qkv)?.detach();
            let mixed = read(&qkv, |qkv| {
                lanes::wide(
                    #[inline(always)]
                    || attend(self.model, qkv, caches, active, position),
                )
            })?;
            let mixed =
                Tensor::from_vec(mixed, (active.len(), self.model.shape.heads.query_width()), &Device::Cpu)?;
            x = (x + mixed.matmul(&layer.output)?)?.detach();
            let gated = norm(&x, &layer.mlp_norm)?.matmul(&layer.gate_up)?.apply_op1(SwiGlu)?;
            x = (x + gated.matmul(&layer.down)?)?.detach();
        }
        let logits = norm(&x, &self.model.final_norm)?.matmul(&self.model.embedding.t()?)?;
        Ok(logits.to_vec2()?)
    }
}

/// Attention of one new token per row to everything before it in that row.
#[inline(always)]
fn attend(model: &Model, qkv: &[f32], caches: &mut [Cache], active: &[usize], position: usize) -> Vec<f32> {
    let heads = model.shape.heads;
    let group = heads.query / heads.key_value;
    let mut out = Vec::with_capacity(active.len() * heads.query_width());
    let mut weights = vec![0.0; position + 1];
    for (packed, row) in qkv.chunks_exact(heads.packed_width()).zip(active) {
        let (packed, _) = packed.as_chunks::<HEAD_DIM>();
        let (queries, rest) = packed.split_at(heads.query);
        let (keys, values) = rest.split_at(heads.key_value);
        let caches = &mut caches[row * heads.key_value..][..heads.key_value];
        for (head, cache) in caches.iter_mut().enumerate() {
            cache.keys.push(model.rotary.rotate(&keys[head], position, 1.0));
            cache.values.push(Lanes(values[head]));
        }
        for (head, query) in queries.iter().enumerate() {
            let query = model.rotary.rotate(query, position, 1.0);
            out.extend(mixed(&query, &caches[head / group], &mut weights).0);
        }
    }
    out
}

/// The values of `cache`, weighted by how well their keys fit `query`.
#[inline(always)]
fn mixed(query: &Lanes, cache: &Cache, weights: &mut [f32]) -> Lanes {
    for (weight, key) in weights.iter_mut().zip(&cache.keys) {
        *weight = SCALE * lanes::sum(Lanes(std::array::from_fn(|d| query[d] * key[d])));
    }
    let high = lanes::max(weights);
    weights.iter_mut().for_each(|weight| *weight = lanes::exp(*weight - high));
    let scale = 1.0 / lanes::sum_with(weights, weights, |a, _| a);
    let mut mixed = Lanes::default();
    for (weight, value) in weights.iter().zip(&cache.values) {
        for d in 0..HEAD_DIM {
            mixed[d] += weight * scale * value[d];
        }
    }
    mixed
}

/// Entropy and margin of the distribution that `logits` stand for.
fn signals(logits: &[f32]) -> Signals {
    lanes::wide(
        #[inline(always)]
        || {
            let high = lanes::max(logits);
            let sum = lanes::sum_with(logits, logits, |a, _| lanes::exp(a - high));
            let mean = lanes::sum_with(logits, logits, |a, _| lanes::exp(a - high) * (a - high)) / sum;
            let first = first_choice(logits) as usize;
            let second = logits.iter().enumerate().filter(|(at, _)| *at != first);
            let second = second.map(|(_, logit)| *logit).fold(f32::NEG_INFINITY, f32::max);
            Signals { entropy: sum.ln() - mean, margin: (1.0 - lanes::exp(second - high)) / sum }
        },
    )
}

/// The token with the largest logit, the first of them if several are equal.
fn first_choice(logits: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (at, logit) in logits.iter().enumerate() {
        if *logit > best.1 {
            best = (at as u32, *logit);
        }
    }
    best.0
}

/// One over the square root of the head's width.
const SCALE: f32 = 0.25;
/// Problems answered together.
const ROWS: usize = 128;
/// Longest prompt and answer together.
const POSITIONS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_equal_logits_have_the_entropy_of_a_coin() {
        let mut logits = vec![-60.0; 40];
        (logits[3], logits[21]) = (5.0, 5.0);
        let signals = signals(&logits);
        assert!((signals.entropy - std::f32::consts::LN_2).abs() < 1e-5);
        assert!(signals.margin.abs() < 1e-6);
        assert_eq!(first_choice(&logits), 3);
    }
}
