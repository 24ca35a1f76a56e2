//! Causal attention over paged KV, one token and one head at a time.
//!
//! A token's output is computed from its own query and the KV of the positions up to its own, page by page from
//! position 0. Nothing else enters, so neither the batch nor how the positions were fed can change it.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, bail};
use rayon::prelude::*;

use super::elements;
use super::exp::exp_nonpositive;
use crate::kv::{KvShape, PAGE, Sequence};

/// Attention of queries of shape (tokens, heads * head_dim); the result has the same shape.
pub(crate) struct Attention<'a> {
    /// Sequences of the step; they hold KV for every position asked for.
    pub(crate) sequences: &'a [Sequence],
    /// For each token: the index of its sequence and its position there.
    pub(crate) places: &'a [(usize, usize)],
    /// Sizes of the KV.
    pub(crate) shape: KvShape,
    /// The layer whose KV is read.
    pub(crate) layer: usize,
}

impl CustomOp1 for Attention<'_> {
    fn name(&self) -> &'static str {
        "batch-invariant attention"
    }

    fn cpu_fwd(&self, queries: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (tokens, width) = layout.shape().dims2()?;
        let kv_width = self.shape.kv_heads * self.shape.head_dim;
        if tokens != self.places.len() || !width.is_multiple_of(kv_width) {
            bail!("attention of {tokens} queries of {width} at {} places", self.places.len());
        }
        let queries = elements(queries, layout)?;
        let mut out = vec![0.0; queries.len()];
        let jobs = queries.chunks_exact(width).zip(self.places);
        let positions: usize = self.places.iter().map(|(_, position)| position + 1).sum();
        if positions * width >= PARALLEL_PRODUCTS {
            let scratch = Vec::new;
            let token = |scores: &mut Vec<f32>, (out, (query, &place)): (&mut [f32], (&[f32], _))| {
                self.token(query, place, scores, out);
            };
            let jobs: Vec<_> = jobs.collect();
            out.par_chunks_exact_mut(width).zip(jobs).for_each_init(scratch, token);
        } else {
            let mut scores = Vec::new();
            for (out, (query, &place)) in out.chunks_exact_mut(width).zip(jobs) {
                self.token(query, place, &mut scores, out);
            }
        }
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }
}

impl Attention<'_> {
    /// All heads of one token. Consecutive query heads share a key and value head.
    fn token(&self, query: &[f32], place: (usize, usize), scores: &mut Vec<f32>, out: &mut [f32]) {
        let (sequence, position) = (&self.sequences[place.0], place.1);
        let dim = self.shape.head_dim;
        let group = query.len() / self.shape.kv_heads;
        for (head, (queries, outs)) in query.chunks_exact(group).zip(out.chunks_exact_mut(group)).enumerate()
        {
            for (query, out) in queries.chunks_exact(dim).zip(outs.chunks_exact_mut(dim)) {
                let blocks = || sequence.blocks(self.shape, self.layer, head).take(position / PAGE + 1);
                score(query, blocks().map(|(keys, _)| keys), scores);
                let total = softmax_numerators(scores, position + 1);
                weigh(&scores[..=position], blocks().map(|(_, values)| values), out);
                for out in out {
                    *out /= total;
                }
            }
        }
    }
}

/// Scaled products of a query with all keys, a page's positions side by side.
fn score<'a>(query: &[f32], pages: impl Iterator<Item = &'a [f32]>, scores: &mut Vec<f32>) {
    let scale = 1.0 / (query.len() as f32).sqrt();
    scores.clear();
    for keys in pages {
        let mut sums = [0.0f32; PAGE];
        for (&q, keys) in query.iter().zip(keys.as_chunks::<PAGE>().0) {
            for (sum, &k) in sums.iter_mut().zip(keys) {
                *sum += q * k;
            }
        }
        scores.extend(sums.map(|sum| sum * scale));
    }
}

/// Turns the first `count` scores into e^(score - best) and the rest of their page into zeros; returns the sum. The
/// sum runs in lanes by position within the page, so it too depends on positions only.
fn softmax_numerators(scores: &mut [f32], count: usize) -> f32 {
    let best = scores[..count].iter().fold(f32::NEG_INFINITY, |best, &score| best.max(score));
    // What lies beyond the sequence's end in a reused page must not count, whatever it is.
    scores[count..].fill(f32::NEG_INFINITY);
    let mut lanes = [0.0f32; PAGE];
    for page in scores.as_chunks_mut::<PAGE>().0 {
        for (lane, score) in lanes.iter_mut().zip(page) {
            *score = exp_nonpositive(*score - best);
            *lane += *score;
        }
    }
    lanes.iter().sum()
}

/// The sum of the values, each times its weight, in the order of positions.
fn weigh<'a>(weights: &[f32], pages: impl Iterator<Item = &'a [f32]>, out: &mut [f32]) {
    let dim = out.len();
    for (weights, values) in weights.chunks(PAGE).zip(pages) {
        // Within a page four positions at a time, so that an addition need not wait for the one before it.
        for (weights, values) in weights.chunks(4).zip(values.chunks(4 * dim)) {
            match weights {
                &[a, b, c, d] => {
                    let (first, second) = values.split_at(2 * dim);
                    let (a_values, b_values) = first.split_at(dim);
                    let (c_values, d_values) = second.split_at(dim);
                    for (i, out) in out.iter_mut().enumerate() {
                        let pair = (a * a_values[i] + b * b_values[i]) + (c * c_values[i] + d * d_values[i]);
                        *out += pair;
                    }
                }
                some => {
                    for (&weight, values) in some.iter().zip(values.chunks_exact(dim)) {
                        for (out, &value) in out.iter_mut().zip(values) {
                            *out += weight * value;
                        }
                    }
                }
            }
        }
    }
}

/// Query-key products from which on threads share the tokens.
const PARALLEL_PRODUCTS: usize = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::{KvStore, Place};
    use candle_core::{Device, Tensor};
    use journey::JourneyId;

    const SHAPE: KvShape = KvShape { layers: 1, kv_heads: 2, head_dim: 6 };

    fn number(i: usize) -> f32 {
        ((i * 7919) % 1000) as f32 / 250.0 - 2.0
    }

    fn sequence(positions: usize) -> Sequence {
        let mut sequence = KvStore::new(SHAPE).take(JourneyId(0), 0, positions);
        for position in 0..positions {
            let key: Vec<f32> = (0..12).map(|i| number(position * 31 + i)).collect();
            let value: Vec<f32> = (0..12).map(|i| number(position * 17 + i * 3)).collect();
            sequence.write(SHAPE, Place { layer: 0, position }, &key, &value);
        }
        sequence
    }

    /// Softmax attention of one query head in double precision.
    fn reference(query: &[f32], position: usize, kv_head: usize) -> Vec<f64> {
        let at = |place: usize, step: usize, i: usize| {
            f64::from(number(place * step + (kv_head * 6 + i) * if step == 31 { 1 } else { 3 }))
        };
        let dot = |p: usize| (0..6).map(|i| f64::from(query[i]) * at(p, 31, i)).sum::<f64>() / 6f64.sqrt();
        let weights: Vec<f64> = (0..=position).map(|p| dot(p).exp()).collect();
        let total: f64 = weights.iter().sum();
        (0..6)
            .map(|i| weights.iter().enumerate().map(|(p, w)| w * at(p, 17, i)).sum::<f64>() / total)
            .collect()
    }

    #[test]
    fn equals_softmax_attention_in_double_precision() {
        let sequences = [sequence(40)];
        for position in [0, 1, 2, 3, 14, 15, 16, 30, 39] {
            let query: Vec<f32> = (0..24).map(|i| number(i * 13 + position)).collect();
            let queries = Tensor::from_slice(&query, (1, 24), &Device::Cpu).unwrap();
            let places = [(0, position)];
            let op = Attention { sequences: &sequences, places: &places, shape: SHAPE, layer: 0 };
            let out = queries.apply_op1_no_bwd(&op).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for head in 0..4 {
                let expected = reference(&query[head * 6..], position, head / 2);
                for (got, expected) in out[head * 6..][..6].iter().zip(expected) {
                    assert!((f64::from(*got) - expected).abs() < 2e-6, "position {position} head {head}");
                }
            }
        }
    }

    #[test]
    fn what_lies_beyond_the_position_is_not_read() {
        let mut poisoned = sequence(20);
        for position in 18..20 {
            poisoned.write(SHAPE, Place { layer: 0, position }, &[f32::NAN; 12], &[f32::INFINITY; 12]);
        }
        let query: Vec<f32> = (0..24).map(number).collect();
        let queries = Tensor::from_slice(&query, (1, 24), &Device::Cpu).unwrap();
        let run = |sequence: Sequence| {
            let (sequences, places) = ([sequence], [(0, 17)]);
            let op = Attention { sequences: &sequences, places: &places, shape: SHAPE, layer: 0 };
            queries.apply_op1_no_bwd(&op).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        assert_eq!(run(poisoned), run(sequence(20)));
    }
}
