//! A whole next-token distribution, kept: to verify drafts, to compare models, to mix them.
//!
//! The logits of one position as data, with pure functions over them. Whoever asked for one owns it, behind an `Arc`,
//! so it lives as long as it is of use and no longer: four bytes for each token of the vocabulary (600 KiB for 150,000),
//! counted by [`Distribution::bytes`]. Every function walks the vocabulary once in double precision.

use crate::random::{Purpose, uniform};
use crate::request::Sampling;
use crate::step::{Candidate, Draw};

/// What numbers of several distributions are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Logits as the models gave them.
    Logits,
    /// Probabilities at temperature 1; negative sums are impossible.
    Probs,
    /// Log-probabilities at temperature 1.
    Logprobs,
}

/// The distribution of the token at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// By token; negative infinity for what cannot be chosen.
    logits: Vec<f32>,
    best: f32,
    /// ln of the sum of e^(logit - best).
    log_total: f64,
}

impl Distribution {
    /// The softmax of logits. `None` if there are none, if one is not a number or above all numbers, or if all are
    /// negative infinity.
    #[must_use]
    pub fn new(logits: Vec<f32>) -> Option<Self> {
        let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if !best.is_finite() || logits.iter().any(|logit| logit.is_nan()) {
            return None;
        }
        let distance = |&logit: &f32| f64::from(logit) - f64::from(best);
        let total: f64 = logits.iter().map(|logit| distance(logit).exp()).sum();
        Some(Self { logits, best, log_total: total.ln() })
    }

    /// As [`Distribution::new`] for finite logits of which the largest, and the sum of e^(logit - best), are known.
    #[must_use]
    pub fn summed(logits: Vec<f32>, best: f32, total: f64) -> Self {
        Self { logits, best, log_total: total.ln() }
    }

    /// How many tokens there are.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.logits.len()
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.logits.capacity() * size_of::<f32>()
    }

    /// Log-probability of a token, in nats; negative infinity for one that there is not.
    #[must_use]
    pub fn logprob(&self, token: u32) -> f64 {
        self.logits.get(token as usize).map_or(f64::NEG_INFINITY, |&logit| self.logprob_of(logit))
    }

    /// Probability of a token.
    #[must_use]
    pub fn prob(&self, token: u32) -> f64 {
        self.logprob(token).exp()
    }

    /// Shannon entropy, in nats.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        let terms = self.logits.iter().map(|&logit| self.logprob_of(logit)).filter(|ln| ln.is_finite());
        terms.map(|ln| -ln * ln.exp()).sum::<f64>().max(0.0)
    }

    /// The `count` most probable tokens, best first; of equal ones the lower id first.
    #[must_use]
    pub fn top(&self, count: usize) -> Vec<Candidate> {
        let mut tokens = self.possible();
        let rank = |a: &u32, b: &u32| self.rank(*a, *b);
        if count < tokens.len() {
            tokens.select_nth_unstable_by(count, rank);
            tokens.truncate(count);
        }
        tokens.sort_unstable_by(rank);
        let candidate =
            |token: u32| Candidate { token, logit: self.logit(token), prob: self.prob(token) as f32 };
        tokens.into_iter().map(candidate).collect()
    }

    /// Total variation distance: half the sum of the differences of probabilities, from 0 to 1. A token that only one
    /// of both has is impossible in the other.
    #[must_use]
    pub fn total_variation(&self, other: &Self) -> f64 {
        self.pairs(other).map(|(p, q)| (p.exp() - q.exp()).abs()).sum::<f64>() / 2.0
    }

    /// Kullback-Leibler divergence from `other` to this, in nats: the expected ln(p / q) where p is this. Infinite
    /// where something possible here is impossible there.
    #[must_use]
    pub fn divergence(&self, other: &Self) -> f64 {
        let terms = self.pairs(other).filter(|(p, _)| p.is_finite());
        terms.map(|(p, q)| p.exp() * (p - q)).sum::<f64>().max(0.0)
    }

    /// What a draw chooses from: adjusted, tempered, and cut to what min-p, top-k and top-p leave. `None` if nothing
    /// is allowed.
    #[must_use]
    pub fn drawn_from(&self, draw: &Draw<'_>) -> Option<Self> {
        let mut logits = self.logits.clone();
        if let Some(adjust) = &draw.adjust {
            adjust.apply(&mut logits);
            if adjust.restricts() {
                let mut left = vec![f32::NEG_INFINITY; logits.len()];
                adjust.allowed(logits.len()).for_each(|token| left[token as usize] = logits[token as usize]);
                logits = left;
            }
        }
        let adjusted = Self::new(logits)?;
        let Sampling { temperature, .. } = draw.sampling;
        if temperature <= 0.0 {
            return adjusted.cut(1);
        }
        let tempered = adjusted.logits.iter().map(|&logit| (logit - adjusted.best) / temperature).collect();
        Self::new(tempered)?.truncated(&draw.sampling)
    }

    /// The token at one uniform number in [0, 1), in the order of ids.
    #[must_use]
    pub fn sample(&self, uniform: f64) -> u32 {
        let weights = self.logits.iter().map(|&logit| self.logprob_of(logit).exp());
        pick(weights, uniform).unwrap_or_default()
    }

    /// Whether speculative sampling keeps a token that was drawn from `draft`: with probability min(1, p / q), where p
    /// is this. `uniform` is in [0, 1).
    #[must_use]
    pub fn keeps(&self, draft: &Self, token: u32, uniform: f64) -> bool {
        uniform * draft.prob(token) < self.prob(token)
    }

    /// The token that replaces one that was not kept, from max(0, p - q) normalised, where p is this; from p itself
    /// where nothing is left of that. `uniform` is in [0, 1).
    #[must_use]
    pub fn residual(&self, draft: &Self, uniform: f64) -> u32 {
        let weights = self.pairs(draft).map(|(p, q)| (p.exp() - q.exp()).max(0.0));
        pick(weights, uniform).unwrap_or_else(|| self.sample(uniform))
    }

    /// One position of speculative sampling: the drafted token, or what replaces it and `false`. The token is
    /// distributed as this, whatever `draft` is, if the drafted one was drawn from `draft`. Randomness is that of the
    /// journey's (seed, position).
    #[must_use]
    pub fn verify(&self, draft: &Self, token: u32, (seed, position): (u64, u64)) -> (u32, bool) {
        if self.keeps(draft, token, uniform(seed, position, Purpose::Accept, 0)) {
            return (token, true);
        }
        (self.residual(draft, uniform(seed, position, Purpose::Residual, 0)), false)
    }

    /// The weighted sum of several distributions' numbers, normalised. `plausible`: only tokens with at least this share
    /// of that distribution's highest probability are left. A token that one of them does not have, or that is
    /// impossible in one of them, is left out, except in the sum of probabilities. `None` where nothing is left.
    ///
    /// Probabilities: mixtures and the composition of Co-LLM (arXiv 2403.03870). Logits: base + tuned - untuned (proxy
    /// tuning, arXiv 2401.08565). With `plausible`: contrastive decoding (arXiv 2210.15097).
    #[must_use]
    pub fn mixed(parts: &[(&Self, f32)], space: Space, plausible: Option<(&Self, f32)>) -> Option<Self> {
        let vocabulary = parts.iter().map(|(part, _)| part.vocabulary()).max()?;
        let number = |part: &Self, token: u32| match space {
            Space::Logits => {
                part.logits.get(token as usize).map_or(f64::NEG_INFINITY, |&logit| f64::from(logit))
            }
            Space::Probs => part.prob(token),
            Space::Logprobs => part.logprob(token),
        };
        let floor = plausible.map(|(part, share)| {
            (part, part.logprob_of(part.best) + f64::from(share.max(f32::MIN_POSITIVE)).ln())
        });
        let logit = |token: u32| {
            if floor.is_some_and(|(part, floor)| part.logprob(token) < floor) {
                return f32::NEG_INFINITY;
            }
            let weighted = parts.iter().filter(|(_, weight)| *weight != 0.0);
            let mut sum = 0.0;
            for (part, weight) in weighted {
                let number = number(part, token);
                if !number.is_finite() {
                    return f32::NEG_INFINITY;
                }
                sum += f64::from(*weight) * number;
            }
            match space {
                Space::Probs => sum.max(0.0).ln() as f32,
                Space::Logits | Space::Logprobs => sum as f32,
            }
        };
        Self::new((0..vocabulary as u32).map(logit).collect())
    }

    /// What min-p, then top-k, then top-p leave.
    fn truncated(self, sampling: &Sampling) -> Option<Self> {
        let &Sampling { top_p, top_k, min_p, .. } = sampling;
        if min_p <= 0.0 && top_k == 0 && top_p >= 1.0 {
            return Some(self);
        }
        let mut tokens = self.possible();
        tokens.sort_unstable_by(|a, b| self.rank(*a, *b));
        let weight = |token: &u32| f64::from(self.logit(*token) - self.best).exp();
        let mut left = tokens.partition_point(|token| weight(token) >= f64::from(min_p)).max(1);
        if top_k > 0 {
            left = left.min(top_k as usize);
        }
        let enough = f64::from(top_p) * tokens[..left].iter().map(weight).sum::<f64>();
        let mut sum = 0.0;
        let reaches = tokens[..left].iter().position(|token| {
            sum += weight(token);
            sum >= enough
        });
        self.cut(reaches.filter(|_| top_p < 1.0).map_or(left, |last| last + 1))
    }

    /// Leaves the `count` most probable tokens, at least 1.
    fn cut(&self, count: usize) -> Option<Self> {
        let mut logits = vec![f32::NEG_INFINITY; self.logits.len()];
        for candidate in self.top(count) {
            logits[candidate.token as usize] = candidate.logit;
        }
        Self::new(logits)
    }

    fn possible(&self) -> Vec<u32> {
        let tokens = (0u32..).zip(&self.logits).filter(|(_, logit)| logit.is_finite());
        tokens.map(|(token, _)| token).collect()
    }

    fn rank(&self, a: u32, b: u32) -> std::cmp::Ordering {
        // Both are finite; zeros of both signs are equal.
        let logits = self.logit(b).partial_cmp(&self.logit(a)).unwrap_or(std::cmp::Ordering::Equal);
        logits.then(a.cmp(&b))
    }

    /// The log-probabilities of each token here and there.
    fn pairs<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (f64, f64)> + Clone + 'a {
        let vocabulary = self.vocabulary().max(other.vocabulary()) as u32;
        (0..vocabulary).map(move |token| (self.logprob(token), other.logprob(token)))
    }

    fn logit(&self, token: u32) -> f32 {
        self.logits[token as usize]
    }

    fn logprob_of(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.best) - self.log_total
    }
}

/// The index at which the running sum of weights passes `uniform` times their whole sum; `None` if that is 0.
fn pick(weights: impl Iterator<Item = f64> + Clone, uniform: f64) -> Option<u32> {
    let total: f64 = weights.clone().sum();
    let mut sum = 0.0;
    let mut last = None;
    for (token, weight) in (0u32..).zip(weights).filter(|(_, weight)| *weight > 0.0) {
        sum += weight;
        last = Some(token);
        if sum > uniform * total {
            break;
        }
    }
    last
}
