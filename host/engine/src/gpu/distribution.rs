//! What the logits of a step say, found on the device and brought here in one copy.
//!
//! A device has no quick way to sort a vocabulary, but needs none: of a row's logits, cut into at most [`CHUNKS`]
//! stretches, those N stretches with the highest maxima are brought here, and the maximum of the next one. Everything
//! above that bound is then known, whatever the distribution, and with the sums over all logits that is enough to
//! sample exactly as from all of them: a nucleus, or the walk down the probabilities, nearly always ends above the
//! bound. Where it does not, the row is copied and sampled like a processor's.

use candle_core::{D, DType, Result, Tensor};
use journey::{Draw, Sampled};

use crate::cpu::{Level, Sums, Survey, dispatch};
use crate::sampler::{Ranked, sample_best};
use crate::signals;

/// What is known about one row of logits.
struct Known {
    sums: Sums,
    /// The sum of e^((logit - best) / temperature).
    total: f64,
    /// All logits above some bound, best first.
    ranked: Vec<Ranked>,
    /// How many logits there are.
    vocabulary: usize,
}

/// Samples a token for each draw and takes the signals; `None` where a logit is not a finite number. The logits are
/// (draws, vocabulary) in f32.
pub(super) fn observe(logits: &Tensor, draws: &[&Draw<'_>]) -> Result<Vec<Option<Sampled>>> {
    let surveyed = survey(logits, draws)?;
    let finish = |(row, (known, draw)): (usize, (Option<Known>, &&Draw<'_>))| {
        let Some(known) = known else { return Ok(None) };
        match known.observe(draw) {
            Some(sampled) => Ok(Some(sampled)),
            None => whole(&mut logits.get(row)?.to_vec1()?, draw),
        }
    };
    surveyed.into_iter().zip(draws).enumerate().map(finish).collect()
}

/// From all logits of a row, as the processor's engine does.
fn whole(logits: &mut [f32], draw: &Draw<'_>) -> Result<Option<Sampled>> {
    let level = Level::detect();
    let survey = dispatch(level, Survey { logits, cap: None, count: draw.candidates.max(2) });
    Ok(survey.map(|(sums, best)| signals::observe(level, logits, (&sums, &best), draw)))
}

/// One pass over all rows; `None` for a row with a logit that is not a finite number.
fn survey(logits: &Tensor, draws: &[&Draw<'_>]) -> Result<Vec<Option<Known>>> {
    let (rows, vocabulary) = logits.dims2()?;
    let width = vocabulary.div_ceil(CHUNKS);
    let chunks = vocabulary.div_ceil(width);
    let taken = draws.iter().map(|draw| chunks_of(draw)).max().unwrap_or(1).min(chunks);
    let best = logits.max_keepdim(D::Minus1)?;
    let distances = logits.broadcast_sub(&best)?;
    let weights = distances.exp()?;
    let sum = |x: Tensor| x.sum_keepdim(D::Minus1);
    // Where e^x is nothing, x may be of any size.
    let weighted = sum((&weights * distances.maximum(-100f64)?)?)?;
    // A finite number times zero is zero; everything else is not.
    let damage = sum(logits.affine(0.0, 0.0)?)?;
    let total = cooled(&distances, draws)?;
    let (bound, stretches, values) = stretches(logits, (chunks, width), taken)?;
    let packed = [&best, &sum(weights)?, &weighted, &damage, &total, &bound, &stretches, &values];
    let packed = Tensor::cat(&packed, 1)?.to_vec2::<f32>()?;
    debug_assert_eq!(packed.len(), rows);
    let unpack = |row: &Vec<f32>| {
        let (numbers, rest) = row.split_at(6);
        let (stretches, values) = rest.split_at(taken);
        let &[best, sum, weighted, damage, total, bound] = numbers else { return None };
        // Both ways of being no number end here.
        if damage != 0.0 || !best.is_finite() {
            return None;
        }
        let of_stretch = |(stretch, values): (&f32, &[f32])| {
            let first = *stretch as usize * width;
            let ranked = (first as u32..).zip(values.to_vec()).map(|(token, logit)| Ranked { logit, token });
            // The last stretch may be filled up.
            ranked.take(vocabulary - first).filter(|ranked| ranked.logit > bound).collect::<Vec<_>>()
        };
        let mut ranked: Vec<Ranked> =
            stretches.iter().zip(values.chunks(width)).flat_map(of_stretch).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        let sums = Sums { best, total: f64::from(sum), weighted: f64::from(weighted) };
        Some(Known { sums, total: f64::from(total), ranked, vocabulary })
    };
    Ok(packed.iter().map(unpack).collect())
}

/// Sums of e^((logit - best) / temperature), (rows, 1); anything for greedy rows.
fn cooled(distances: &Tensor, draws: &[&Draw<'_>]) -> Result<Tensor> {
    let rows = draws.len();
    if !draws.iter().any(|draw| is_sampled(draw)) {
        return Tensor::zeros((rows, 1), DType::F32, distances.device());
    }
    let temperature = |draw: &&Draw<'_>| if is_sampled(draw) { draw.sampling.temperature } else { 1.0 };
    let temperatures: Vec<f32> = draws.iter().map(temperature).collect();
    let temperatures = Tensor::from_vec(temperatures, (rows, 1), distances.device())?;
    distances.broadcast_div(&temperatures)?.exp()?.sum_keepdim(D::Minus1)
}

/// For every row the maximum of the best stretch that is not taken, (rows, 1), the numbers of those that are,
/// (rows, taken), and their logits, (rows, taken * width).
fn stretches(
    logits: &Tensor,
    (chunks, width): (usize, usize),
    taken: usize,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (rows, vocabulary) = logits.dims2()?;
    let device = logits.device();
    let missing = chunks * width - vocabulary;
    let logits = if missing > 0 {
        let nothing = Tensor::full(f32::NEG_INFINITY, (rows, missing), device)?;
        Tensor::cat(&[logits, &nothing], 1)?
    } else {
        logits.clone()
    };
    let logits = logits.reshape((rows * chunks, width))?;
    let maxima = logits.max(1)?.reshape((rows, chunks))?;
    // What is no number has no place in an order; its row is given up anyway.
    let lowest = Tensor::full(f32::NEG_INFINITY, (rows, chunks), device)?;
    let maxima = maxima.eq(&maxima)?.where_cond(&maxima, &lowest)?;
    let order = maxima.arg_sort_last_dim(false)?;
    let bound = if taken < chunks {
        maxima.gather(&order.narrow(1, taken, 1)?.contiguous()?, 1)?
    } else {
        Tensor::full(f32::NEG_INFINITY, (rows, 1), device)?
    };
    let order = order.narrow(1, 0, taken)?.contiguous()?;
    let firsts: Vec<u32> = (0..rows).map(|row| (row * chunks) as u32).collect();
    let firsts = Tensor::from_vec(firsts, (rows, 1), device)?;
    let indices = order.broadcast_add(&firsts)?.flatten_all()?;
    let values = logits.index_select(&indices, 0)?.reshape((rows, taken * width))?;
    Ok((bound, order.to_dtype(DType::F32)?, values))
}

impl Known {
    /// The sampled token and the signals; `None` if more logits must be seen.
    fn observe(&self, draw: &Draw<'_>) -> Option<Sampled> {
        // What changes logits, and what asks about tokens or keeps them all, sees the row whole.
        if draw.adjust.is_some() || draw.keep || !draw.logprobs_of.is_empty() {
            return None;
        }
        let wanted = draw.candidates.max(2).min(self.vocabulary);
        let best = self.ranked.get(..wanted)?;
        let chosen = sample_best(&self.ranked, (self.vocabulary, self.total), draw)?;
        Some(signals::describe(chosen, (&self.sums, best), draw))
    }
}

fn is_sampled(draw: &Draw<'_>) -> bool {
    draw.sampling.temperature > 0.0
}

/// How many stretches a row wants: enough for its candidates and, if it samples, for most nuclei.
fn chunks_of(draw: &Draw<'_>) -> usize {
    let candidates = draw.candidates.max(2) + 2;
    if is_sampled(draw) { candidates.max(SAMPLED) } else { candidates }
}

/// The device sorts no more numbers than this in one block of threads.
const CHUNKS: usize = 1024;

/// Stretches for a row that samples: at least so many of its best logits are known.
const SAMPLED: usize = 64;
