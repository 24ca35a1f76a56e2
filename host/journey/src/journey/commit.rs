//! The end of S: tokens become part of the answer, and the answer ends.

use super::Journey;
use crate::grammar::Standing;
use crate::outcome::{Effect, FinishReason, Made};
use crate::step::Sampled;

impl Journey {
    pub(super) fn commit_held(&mut self, next: Effect) -> Effect {
        self.answers.clear();
        match self.held.take() {
            Some(sampled) => self.commit_and(next, sampled),
            None => next,
        }
    }

    pub(super) fn commit_and(&mut self, next: Effect, sampled: Sampled) -> Effect {
        let made = self.made(sampled);
        self.history.push(made.sampled.token);
        self.commit_made(made, next)
    }

    /// Moves the end of S over one token of `history`. `next` unless the answer ends with it.
    pub(super) fn commit_made(&mut self, mut made: Made, next: Effect) -> Effect {
        let token = made.sampled.token;
        debug_assert_eq!(self.history.tokens()[self.committed], token, "S and what is committed differ");
        self.committed += 1;
        self.commits += 1;
        self.run += 1;
        self.hops = 0;
        // It has been judged; what waits for a slow client must be small.
        made.sampled.kept = None;
        let ends = self.request.ends.tokens.contains(&token);
        let bytes: &[u8] = if ends { &[] } else { self.request.vocabulary.bytes(token) };
        if self.output.commit(made, bytes) {
            return self.end(FinishReason::Stop);
        }
        if ends {
            return self.end(FinishReason::Stop);
        }
        match self.standing(self.committed) {
            // What nothing can follow needs no end token, which may be barred.
            Standing::Complete => return self.end(FinishReason::Stop),
            Standing::Failed => return self.end(FinishReason::Length),
            Standing::Open | Standing::Accepting => {}
        }
        if self.out_of_room(self.committed) {
            return self.end(FinishReason::Length);
        }
        next
    }

    /// The answer is over: the client sees all of it. A stop string in what was held back still ends it earlier.
    pub(super) fn end(&mut self, reason: FinishReason) -> Effect {
        let reason = self.output.show_all().unwrap_or(reason);
        self.output.finish();
        Effect::Finish(reason)
    }

    pub(super) fn made(&mut self, sampled: Sampled) -> Made {
        Made { by: self.here, sampled, text: String::new(), proposal: self.output.proposal.take() }
    }

    pub(super) fn out_of_room(&self, length: usize) -> bool {
        let answer = length - self.request.prompt.len();
        answer >= self.request.max_tokens || length >= self.request.context
    }

    /// At least the last so many bytes of the answer, if it has them: a few tokens are looked at, not the answer.
    pub(super) fn end_of_answer(&self, most: usize) -> Vec<u8> {
        let (mut from, mut bytes) = (self.answer().len(), 0);
        while from > 0 && bytes < most {
            from -= 1;
            bytes += self.request.vocabulary.bytes(self.answer()[from]).len();
        }
        self.request.vocabulary.bytes_of(&self.answer()[from..])
    }

    /// At most the last so many bytes of the answer's text, cut at a character.
    pub(super) fn tail(&self, most: usize) -> String {
        let bytes = self.end_of_answer(most);
        let mut from = bytes.len().saturating_sub(most);
        while from < bytes.len() && bytes[from] & 0xC0 == 0x80 {
            from += 1;
        }
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }
}
