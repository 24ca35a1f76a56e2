//! Drafts judged by the model that the journey has come back to, all tokens in one step of it.
//!
//! The judge is fed what it has not seen and the whole draft, and draws after every token of it. What it would have
//! drawn, and from which distribution, is exactly what it would have drawn decoding alone, because a draw depends on
//! the tokens before it and on (seed, position) only. So `exact` gives the judge's own answer token for token, and
//! `rejection` an answer distributed as the judge's own.

use super::Journey;
use crate::decision::{Check, Rule};
use crate::distribution::Distribution;
use crate::outcome::{Consult, Effect, Made, Refused};
use crate::step::{Draw, Sampled};

/// A draft on trial.
#[derive(Debug)]
pub(super) struct Verification {
    rule: Rule,
    /// The draft's tokens, so that draws can ask for their log-probabilities.
    tokens: Vec<u32>,
    /// What the judge drew so far: the first instead of the draft's first token, the last after its last.
    drawn: Vec<Sampled>,
}

impl Verification {
    pub(super) fn drawn(&self) -> usize {
        self.drawn.len()
    }

    /// The draw that decides the draft's token number `index`, or what follows the last.
    pub(super) fn draw<'a>(&'a self, draw: Draw<'a>, index: usize) -> Draw<'a> {
        let asked = &self.tokens[index.min(self.tokens.len())..(index + 1).min(self.tokens.len())];
        match self.rule {
            Rule::Exact => draw,
            Rule::Rejection => Draw { keep: true, ..draw },
            Rule::Typical { .. } | Rule::MaxLoss(_) => Draw { logprobs_of: asked, ..draw },
            Rule::InTop(count) => Draw { candidates: draw.candidates.max(count as usize), ..draw },
        }
    }
}

impl Journey {
    pub(super) fn verify(&mut self, check: Check) -> Result<Effect, Refused> {
        let Check { rule, tokens } = check;
        if self.output.draft.is_empty() {
            return Err(Refused::NothingToVerify);
        }
        if tokens == 0 {
            return Ok(self.take_draft(0));
        }
        let judged = self.output.draft.iter().take(tokens);
        if rule == Rule::Rejection && judged.clone().any(|made| made.sampled.kept.is_none()) {
            return Err(Refused::NoDistributions);
        }
        let tokens: Vec<u32> = judged.map(|made| made.sampled.token).collect();
        self.output.draft.truncate(tokens.len());
        self.cut(self.committed + tokens.len());
        // The draft's tokens are no part of the answer while they are on trial: each draw sees the counts of S and the
        // tokens before it.
        self.history.count_to(self.committed);
        self.answers.clear();
        self.verification = Some(Box::new(Verification { rule, tokens, drawn: Vec::new() }));
        Ok(Effect::Decode)
    }

    /// Takes the judge's next draw; with the last of them comes the verdict.
    pub(super) fn judge(&mut self, sampled: Sampled) -> Consult {
        let Some(mut trial) = self.verification.take() else { return Consult::Settled(Effect::Decode) };
        trial.drawn.push(sampled);
        if trial.drawn.len() <= trial.tokens.len() {
            self.verification = Some(trial);
            return Consult::More;
        }
        if trial.rule == Rule::Rejection {
            // What was allowed where: the draws may have been spread over several steps.
            self.constrain(self.committed - 1..self.length());
        }
        let (accepted, own) = self.verdict(*trial);
        let draft: Vec<Made> = self.output.draft.drain(..).take(accepted).collect();
        for made in draft {
            let effect = self.commit_made(made, Effect::Decode);
            if effect != Effect::Decode {
                self.cut(self.committed);
                return Consult::Settled(effect);
            }
        }
        self.cut(self.committed);
        self.history.count_to(self.committed);
        self.run = 0;
        self.consider(own)
    }

    /// How many tokens stand, and the judge's own for the position after them.
    fn verdict(&self, trial: Verification) -> (usize, Sampled) {
        let Verification { rule, tokens, mut drawn } = trial;
        for (index, &token) in tokens.iter().enumerate() {
            let own = &drawn[index];
            let stands = match rule {
                Rule::Exact => own.token == token,
                Rule::Typical { epsilon, delta } => {
                    let logprob = own.logprobs.first().copied().unwrap_or(f32::NEG_INFINITY);
                    logprob.exp() > epsilon.min(delta * (-own.signals.entropy).exp())
                }
                Rule::MaxLoss(most) => own.logprobs.first().is_some_and(|logprob| -logprob <= most),
                Rule::InTop(count) => {
                    own.candidates.iter().take(count as usize).any(|candidate| candidate.token == token)
                }
                Rule::Rejection => match self.rejection(index, own) {
                    Some((_, true)) => true,
                    Some((instead, false)) => {
                        drawn[index] = replaced(own, instead);
                        false
                    }
                    // Nothing is allowed here: the judge's own draw says so in its own way.
                    None => false,
                },
            };
            if !stands {
                return (index, drawn.swap_remove(index));
            }
        }
        (tokens.len(), drawn.swap_remove(tokens.len()))
    }

    /// The token that speculative sampling leaves at a place of the draft, and whether it is the drafted one.
    fn rejection(&self, index: usize, own: &Sampled) -> Option<(u32, bool)> {
        let position = self.committed - 1 + index;
        let draw = Draw { adjust: self.adjust(position), ..Draw::new(self.request.sampling, 0.0) };
        let made = &self.output.draft[index].sampled;
        let p = own.kept.as_ref()?.drawn_from(&draw)?;
        let q = made.kept.as_ref()?.drawn_from(&draw)?;
        Some(p.verify(&q, made.token, (self.request.seed, position as u64 + 1)))
    }
}

fn replaced(own: &Sampled, token: u32) -> Sampled {
    let logprob = own
        .kept
        .as_ref()
        .map_or(own.logprob, |kept: &std::sync::Arc<Distribution>| kept.logprob(token) as f32);
    Sampled { token, logprob, ..own.clone() }
}
