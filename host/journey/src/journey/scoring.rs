//! A prompt that is scored: what the model that begins would have said of each of its tokens.
//!
//! The prompt is fed in pieces, with a draw after each of its tokens, so that the logits of a piece are in memory at once
//! and never those of a whole prompt. What is drawn there is dropped: the prompt stays what the client sent, and the policy
//! is not asked about it. The draw after its last token is the answer's first, as without scores.

use std::ops::Range;

use super::Journey;
use crate::outcome::Consult;
use crate::request::Request;
use crate::step::{Draw, Sampled};

/// The scores of a prompt so far: of its tokens from the second on.
#[derive(Debug, Default)]
pub(super) struct Scoring(Vec<Sampled>);

impl Scoring {
    /// Of a prompt that is to be scored.
    pub(super) fn of(request: &Request) -> Option<Box<Self>> {
        (request.score_prompt && request.prompt.len() > 1).then(Box::default)
    }

    /// The positions after which the next piece is drawn.
    pub(super) fn wanted(&self, request: &Request) -> Range<usize> {
        let piece = (PIECE_BYTES / (4 * request.vocabulary.len().max(1))).clamp(1, PIECE_MAX);
        self.0.len()..request.prompt.len().min(self.0.len() + piece)
    }

    /// The draw after a position of the prompt, if it is about another token of it.
    pub(super) fn draw<'a>(&self, request: &'a Request, position: usize) -> Option<Draw<'a>> {
        let asked = request.prompt.get(position + 1..position + 2)?;
        Some(Draw { candidates: request.candidates, logprobs_of: asked, ..Draw::GREEDY })
    }
}

impl Journey {
    /// Scores of the prompt's tokens from the second on, once all are there; only once, and only if they were asked for.
    pub fn take_scored(&mut self) -> Option<Vec<Sampled>> {
        self.scored.take()
    }

    /// Takes a draw as the score of the prompt's next token.
    pub(super) fn score(&mut self, drawn: Sampled) -> Consult {
        let Some(mut scoring) = self.scoring.take() else { return Consult::More };
        let Scoring(scores) = &mut *scoring;
        if let Some(&token) = self.request.prompt.get(scores.len() + 1) {
            let logprob = drawn.logprobs.first().copied().unwrap_or(f32::NEG_INFINITY);
            scores.push(Sampled { token, logprob, logprobs: Vec::new(), ..drawn });
        }
        if scores.len() + 1 < self.request.prompt.len() {
            self.scoring = Some(scoring);
        } else {
            self.scored = Some(scoring.0);
        }
        Consult::More
    }
}

/// Logits of one piece, at four bytes for each token of the vocabulary.
const PIECE_BYTES: usize = 16 << 20;
/// Draws of one piece; more would hold up the steps of others.
const PIECE_MAX: usize = 128;
