//! What a distribution says about itself: the numbers that policies route by.
//!
//! Taken once per draw from the model's own logits, at temperature 1 and before anything that a client or a grammar
//! adjusts or cuts, so they mean the same whatever the client's sampling is. So do log-probabilities: what is reported of
//! a token is the model's opinion, not that of the penalties.

use std::sync::Arc;

use journey::{Candidate, Distribution, Draw, Sampled, Signals};

use crate::cpu::{Level, Sums};
use crate::sampler::{Ranked, choose};

/// Samples a token and puts the signals together. `best` are the highest logits, best first: at least two, if there are
/// as many, and as many as the draw wants to see.
pub(crate) fn observe(
    level: Level,
    logits: &[f32],
    (sums, best): (&Sums, &[Ranked]),
    draw: &Draw<'_>,
) -> Sampled {
    let token = choose(level, logits, best[0], draw);
    let sampled = describe(Ranked { logit: logits[token as usize], token }, (sums, best), draw);
    let softmax = Softmax::new(sums);
    let logprob = |token: u32| softmax.logprob(logits[token as usize]) as f32;
    let keep = || Arc::new(Distribution::summed(logits.to_vec(), sums.best, sums.total));
    Sampled {
        logprobs: draw.logprobs_of.iter().map(|&token| logprob(token)).collect(),
        kept: draw.keep.then(keep),
        ..sampled
    }
}

/// Puts the signals together for a token that is chosen already; otherwise as [`observe`], for draws that ask about no
/// other tokens.
pub(crate) fn describe(chosen: Ranked, (sums, best): (&Sums, &[Ranked]), draw: &Draw<'_>) -> Sampled {
    let softmax = Softmax::new(sums);
    let candidate =
        |&Ranked { logit, token }: &Ranked| Candidate { token, logit, prob: softmax.prob(logit) as f32 };
    let first = softmax.prob(best[0].logit);
    let second = best.get(1).map_or(0.0, |second| softmax.prob(second.logit));
    Sampled {
        token: chosen.token,
        logprob: softmax.logprob(chosen.logit) as f32,
        signals: Signals {
            entropy: softmax.entropy as f32,
            top1: first as f32,
            margin: (first - second) as f32,
        },
        candidates: best.iter().take(draw.candidates).map(candidate).collect(),
        ..Sampled::default()
    }
}

/// Probabilities at temperature 1.
struct Softmax {
    best: f64,
    /// ln of the sum of e^(logit - best).
    log_total: f64,
    /// In nats.
    entropy: f64,
}

impl Softmax {
    fn new(sums: &Sums) -> Self {
        // H = -sum p ln p with p = w / Z and ln p = distance - ln Z.
        let log_total = f64::ln(sums.total);
        let entropy = (log_total - sums.weighted / sums.total).max(0.0);
        Self { best: f64::from(sums.best), log_total, entropy }
    }

    fn logprob(&self, logit: f32) -> f64 {
        f64::from(logit) - self.best - self.log_total
    }

    fn prob(&self, logit: f32) -> f64 {
        self.logprob(logit).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{Survey, dispatch};
    use journey::{Adjust, Adjustments, Sampling};

    fn observe(logits: &[f32], draw: &Draw<'_>) -> Option<Sampled> {
        let mut kept = logits.to_vec();
        let survey = Survey { logits: &mut kept, cap: None, count: draw.candidates.max(2) };
        let (sums, best) = dispatch(Level::detect(), survey)?;
        Some(super::observe(Level::detect(), logits, (&sums, &best), draw))
    }

    fn greedy(candidates: usize) -> Draw<'static> {
        Draw { candidates, ..Draw::GREEDY }
    }

    #[test]
    fn signals_of_a_known_distribution() {
        let logits = [0.5f32.ln() + 7.0, 0.25f32.ln() + 7.0, 0.25f32.ln() + 7.0];
        let sampled = observe(&logits, &greedy(2)).unwrap();
        assert_eq!(sampled.token, 0);
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} against {b}");
        close(sampled.signals.entropy, 1.5 * std::f32::consts::LN_2);
        close(sampled.signals.top1, 0.5);
        close(sampled.signals.margin, 0.25);
        close(sampled.logprob, 0.5f32.ln());
        let candidates: Vec<(u32, f32)> = sampled.candidates.iter().map(|c| (c.token, c.logit)).collect();
        assert_eq!(candidates, [(0, logits[0]), (1, logits[1])]);
        close(sampled.candidates[1].prob, 0.25);
    }

    #[test]
    fn sampling_does_not_change_the_signals() {
        let logits = [1.0, 3.0, 2.5, -4.0];
        let wishes = Adjustments { bias: vec![(1, -100.0)], ..Adjustments::default() };
        let sampling = Sampling { temperature: 2.0, top_p: 0.9, top_k: 3, min_p: 0.0 };
        let adjust = Some(Adjust::new(&wishes));
        let hot = Draw { candidates: 4, adjust, ..Draw::new(sampling, 0.99) };
        let (a, b) = (observe(&logits, &greedy(4)).unwrap(), observe(&logits, &hot).unwrap());
        assert_ne!(a.token, b.token);
        assert_eq!(a.signals, b.signals);
        assert_eq!(a.candidates, b.candidates);
        let told = b.candidates.iter().find(|c| c.token == b.token).unwrap();
        assert!((b.logprob - told.prob.ln()).abs() < 1e-5);
    }

    #[test]
    fn what_is_asked_about_is_told_as_the_sampled_token_is() {
        let logits = [1.0, 3.0, 2.5, -4.0];
        let asked = observe(&logits, &Draw { logprobs_of: &[3, 1], keep: true, ..greedy(4) }).unwrap();
        let kept = asked.kept.expect("asked for");
        assert_eq!(asked.logprobs, [kept.logprob(3) as f32, asked.logprob]);
        for candidate in &asked.candidates {
            assert_eq!(kept.prob(candidate.token) as f32, candidate.prob);
        }
        assert_eq!(kept.top(4), asked.candidates);
        assert!((kept.entropy() as f32 - asked.signals.entropy).abs() < 1e-6);
        let plain = observe(&logits, &greedy(4)).unwrap();
        assert_eq!(plain.signals, asked.signals);
        assert!(plain.kept.is_none() && plain.logprobs.is_empty());
    }

    #[test]
    fn logits_far_apart_stay_finite() {
        let sampled = observe(&[3e38, -3e38], &greedy(5)).unwrap();
        assert!(sampled.signals.entropy < 1e-30);
        assert_eq!((sampled.signals.top1, sampled.signals.margin), (1.0, 1.0));
        assert_eq!(sampled.candidates.len(), 2);
        assert_eq!(observe(&[0.5], &greedy(0)).unwrap().signals.margin, 1.0);
    }

    #[test]
    fn damaged_logits_are_noticed() {
        assert_eq!(observe(&[0.0, f32::NAN], &greedy(0)), None);
        assert_eq!(observe(&[f32::INFINITY, 0.0], &greedy(0)), None);
        assert_eq!(observe(&[], &greedy(0)), None);
    }
}
